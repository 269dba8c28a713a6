"""A trial leaves no trace, and in it each pod sees the ones before.

The clusters are those of the differential oracle, in the middle of a random life; see `trials`.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.model.api import pod_changes
from scheduler.model.events import PodObserved
from scheduler.state.columns import refcounted_interner
from tests.oracle.generating.dice import Dice
from tests.properties.trials import Life, Trying, another, found
from tests.support.seeds import share
from tests.support.state_dump import dumped

pytestmark = pytest.mark.seeded

FAMILIES = (
    "everything", "replicas", "pod-affinity", "spread", "ports", "volumes", "nominated", "budgets",
    "dra-claims", "dra-extended", "dra-capacity",
)  # fmt: skip
LIVES = share(12)
STEPS = 12

of_families = pytest.mark.parametrize("family", FAMILIES)


def different(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[object]:
    """Return what differs between two dumps."""
    keys = sorted(before.keys() | after.keys())
    return [
        (key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)
    ]


def tried(life: Life, dice: Dice) -> list[str]:
    """Make a trial with random changes; return what happened in it."""
    trying = Trying(life, dice)
    with trying.trial:
        for _ in range(dice.number(1, 12)):
            trying.change()
        life.cluster.check()
        life.cluster.devices.check()
    return trying.log


@of_families
def test_a_trial_is_undone_exactly(family):
    for seed in range(LIVES):
        life, dice = Life(family, seed), Dice(seed)
        for _ in range(STEPS):
            life.step()
            before = dumped(life.cluster)
            log = tried(life, dice)
            assert not different(before, dumped(life.cluster)), (seed, log)
            life.machine.check()


@of_families
def test_decisions_after_a_trial_are_those_without_it(family, monkeypatch):
    # Codes that no pod has are given to other values at once.
    monkeypatch.setattr(refcounted_interner, "_MAX_IDLE_BYTES", 0)
    for seed in range(LIVES):
        life, without, dice = Life(family, seed), Life(family, seed), Dice(seed)
        for _ in range(2 * STEPS):
            log = tried(life, dice)
            life.step()
            without.step()
            assert life.attempts == without.attempts, (seed, log)
            assert life.effects == without.effects, (seed, log)
        ours, theirs = (dumped(each.cluster, decoded=True) for each in (life, without))
        assert not different(ours, theirs), seed


@of_families
@pytest.mark.parametrize("observed", [False, True], ids=["assumed", "observed"])
def test_a_pod_in_a_trial_sees_those_before_as_if_they_were_placed(family, observed):
    placed = 0
    for seed in range(LIVES):
        life, real = Life(family, seed), Life(family, seed)
        for _ in range(Dice(seed).number(0, STEPS // 2)):
            life.step()
            real.step()
        trying = Trying(life, Dice(seed))
        with trying.trial as trial:
            alike = [another(pod, number) for number, pod in enumerate(life.pods.values())]
            for pod in [*life.waiting(), *alike][:15]:
                result, shown = found(life, pod, life.machine._attempts)
                also, expected = found(real, pod)
                assert shown == expected, (seed, pod.key, trying.log)
                if isinstance(result, str) or isinstance(also, str) or result.node is None:
                    continue
                placed += 1
                reserves = trying.place(pod, result)
                if observed and not reserves:
                    bound = pod_changes.bound(pod, result.node)
                    real.machine.observe(PodObserved(bound), real.now)
                else:
                    real.cluster.assume(pod, result.node)
                    real.machine._binding.reserve(also.state, result.node)
            trial.commit()
        if not observed:
            assert not different(dumped(real.cluster), dumped(life.cluster)), seed
        life.cluster.check()
    assert placed > LIVES
