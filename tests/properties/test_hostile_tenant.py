"""No tenant, and no stranger who forges what is persisted, turns preemption against the cluster.

A tenant with the role `edit` in one namespace writes what it likes into random histories
(`tenant`). No pod of equal or higher priority is evicted, and none that a policy protects; pods of
other namespaces that fit are placed; wasted evictions for one preemptor are bounded, and what
the machine asks for within an hour; when the tenant is removed the machine keeps no state of it.

`HISTORIES=10000` runs so many histories; by default there are fewer, to fit into a usual run.
"""

import os
from collections import Counter

import pytest

from scheduler.model.effects import Bind, Evict
from tests.properties import changes, forged, tenant
from tests.support.seeds import share

pytestmark = pytest.mark.seeded

HISTORIES = int(os.environ.get("HISTORIES") or share(60))
SLICES = 4
#: Effects within an hour in which nothing happens, for each node and pod: a pod that waits is tried
#: again every five minutes, and every time an event is recorded for it.
MAX_EFFECTS = 40


@pytest.mark.parametrize("part", range(SLICES))
def test_a_hostile_tenant_harms_no_other(part):
    met: Counter[str] = Counter()
    failed: dict[int, str] = {}
    evicted = compared = 0
    for seed in range(part, HISTORIES, SLICES):
        try:
            world = tenant.lived(seed)
            compared += harmless(world)
        except AssertionError as error:
            failed[seed] = str(error)
            continue
        met += world.met
        evicted += len(world.gone)
    assert not failed
    assert met.keys() == {"Placed", "Preempting", "Unschedulable"}
    assert evicted > HISTORIES // SLICES
    assert compared > HISTORIES // SLICES * 0.9


def harmless(world: tenant.Besieged) -> bool:
    """Assert what must be true when all has come to rest, and when the tenant is removed.

    Returns:
        Whether what the machine keeps was compared with what a new process keeps. It is not where
        the new process decides something: failures that the old one remembers may be forgotten.
    """
    world.ends_well()
    asked = world.effects_within_an_hour()
    assert asked <= MAX_EFFECTS * (len(world.pods) + len(world.nodes) + 1)
    assert world.too_many_wasted() == {}
    world.leave()
    world.ends_well()
    kept, before = world.sizes(), len(world.effects)
    world.begin()
    world.ends_well()
    if any(isinstance(effect, Bind | Evict) for effect in world.effects[before:]):
        return False
    assert kept == world.sizes()
    return True


@pytest.mark.parametrize("part", range(SLICES))
def test_forged_state_evicts_no_pod_that_could_not_be_evicted_anyway(part):
    failed: dict[int, str] = {}
    evicted = 0
    for seed in range(part, HISTORIES, SLICES):
        try:
            world = changes.lived(seed, 100)
            forged.forge(world, seed)
            before = len(world.effects)
            world.ends_well()
            forged.forge(world, seed + 1)
            world.ends_well()
        except AssertionError as error:
            failed[seed] = str(error)
            continue
        evicted += sum(isinstance(each, Evict) for each in world.effects[before:])
    assert not failed
    assert evicted > 0


def test_what_a_tenant_makes_up_again_and_again_is_not_kept():
    world = tenant.Besieged(policed=True, restarts=False)
    changes.begin(world)
    for turn in range(6):
        for number in range(20):
            tenant.create(world, number, turn, number)
            tenant.name_node(world, number, turn, number)
            tenant.mark(world, number, turn, number)
        world.ends_well()
        world.leave()
        world.ends_well()

    kept = world.sizes()
    world.begin()
    world.ends_well()
    assert kept == world.sizes()
