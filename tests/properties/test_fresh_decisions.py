"""Caches never change a decision: each one is the one that a fresh attempt would make.

Pods change at every point: before they are decided, while they preempt, while they terminate. After
each happening the machine's invariants hold and each pod has the key of its own class; without
other schedulers no node is overcommitted; everything comes to rest, and no pod that fits waits.

`HISTORIES=20000` runs so many histories; by default there are fewer, to fit into a usual run.
"""

import os
from collections import Counter

import pytest

from tests.properties import changes
from tests.support.seeds import share

pytestmark = pytest.mark.seeded

HISTORIES = int(os.environ.get("HISTORIES") or share(150))
SLICES = 5


@pytest.mark.parametrize("part", range(SLICES))
def test_every_decision_is_the_one_of_a_fresh_attempt(part):
    met: Counter[str] = Counter()
    for seed in range(part, HISTORIES, SLICES):
        try:
            world = changes.lived(seed)
            world.ends_well()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        met += world.met
    assert met.keys() == {"Placed", "Preempting", "Unschedulable"}
    assert met["Preempting"] > HISTORIES // SLICES
