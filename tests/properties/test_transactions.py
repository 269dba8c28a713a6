"""Preemptions are transactions, whatever happens to answers, events and processes.

Every sequence of happenings ends with all preemptors placed, no victim's capacity unused, and none
counted as wasted; at each moment a victim is only deleted when the API server has the plan that
names it, and what counts it.

Where clocks differ and leaders change at each move, all that holds as well. Where victims cannot be
evicted, or hang, not all capacity can be used; then wasted evictions for one preemptor are bounded.
Where a budget is tight, no window has more evictions than it allows.

`TRANSACTIONS=10000` runs so many sequences; by default there are fewer, to fit into a usual run.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.disturbed import Disturbed, Faults
from tests.properties.limited import Limited
from tests.properties.transactions import HAPPENINGS, Action, Transactions
from tests.support.seeds import share

pytestmark = pytest.mark.seeded

#: Sequences in all, and in each of the tests that are drawn by seed.
SEQUENCES = int(os.environ.get("TRANSACTIONS") or share(2000))
SLICES = 10
#: Disturbed sequences for each set of faults.
DISTURBED = max(share(20), SEQUENCES // 100)
#: Sequences with a tight budget.
LIMITED = max(share(60), SEQUENCES // 20)
#: The first seed of disturbed sequences.
FIRST = 100
#: How many preemptors come, as a share of those that can have a place: in the last case each victim
#: has to go.
CROWDS = (0.42, 0.75, 1.0)

actions = st.tuples(st.integers(0, len(HAPPENINGS) - 1), st.integers(0, 63))
worlds = st.builds(
    Transactions,
    bounded=st.booleans(),
    cpu=st.integers(1, 2),
    ranks=st.integers(1, 3),
    crowd=st.sampled_from(CROWDS),
)


@settings(max_examples=max(50, SEQUENCES // 10))
@given(worlds, st.lists(actions, min_size=10, max_size=60))
def test_every_sequence_ends_well(world, drawn):
    for action in drawn:
        world.act(action)
    world.come_to_rest()
    world.check()


def kind(seed: int) -> dict[str, Any]:
    """Return what kind of world a seed begins with."""
    return {
        "bounded": seed % 2 > 0,
        "cpu": 1 + seed // 2 % 2,
        "ranks": 1 + seed // 4 % 3,
        "crowd": CROWDS[seed // 12 % 3],
    }


def drawn_actions(seed: int) -> Iterator[Action]:
    """Yield what happens by a seed."""
    dice = np.random.default_rng(seed)
    for _ in range(dice.integers(10, 60)):
        yield int(dice.integers(0, len(HAPPENINGS))), int(dice.integers(0, 64))


def disturbed(faults: Faults, seed: int) -> Disturbed:
    """Return a world under faults."""
    return Disturbed(faults, seed, **kind(seed))


@pytest.mark.parametrize("part", range(SLICES))
def test_sequences_by_seed_end_well(part):
    kills = evicted = 0
    for seed in range(part, SEQUENCES, SLICES):
        world = Transactions(**kind(seed))
        try:
            for action in drawn_actions(seed):
                world.act(action)
            world.come_to_rest()
            world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        kills += world.kills
        evicted += len(world.evicted)
    assert kills > SEQUENCES // SLICES
    assert evicted > SEQUENCES // SLICES


FAULTS = (
    Faults(skew=True),
    Faults(leaders=True),
    Faults(skew=True, leaders=True),
    Faults(refused=True),
    Faults(hanging=True),
    Faults(lost=True),
    Faults(replaced=True),
    Faults(refused=True, replaced=True),
    Faults(refused=True, hanging=True, lost=True),
    Faults(skew=True, refused=True, hanging=True, lost=True, replaced=True, leaders=True),
)


@pytest.mark.parametrize("faults", FAULTS, ids=str)
def test_disturbed_sequences_end_as_well_as_they_can(faults):
    evicted = 0
    for seed in range(FIRST, FIRST + DISTURBED):
        world = disturbed(faults, seed)
        try:
            for action in drawn_actions(seed):
                world.act(action)
            world.come_to_rest()
            world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {faults}: {error}") from error
        evicted += len(world.evicted)
    assert evicted > DISTURBED


def test_no_window_has_more_evictions_than_a_budget_allows():
    evicted = 0
    for seed in range(LIMITED):
        world = Limited(seed)
        try:
            world.live(120)
            world.come_to_rest()
            world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        evicted += len(world.evicted)
    assert evicted > LIMITED
