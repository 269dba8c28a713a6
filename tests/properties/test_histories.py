"""Safety and liveness over random histories of a world that changes around the machine."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.happenings import act, digests, lived
from tests.properties.world import World
from tests.support.seeds import share

pytestmark = pytest.mark.seeded

actions = st.tuples(
    st.integers(0, 2**16), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)
)
histories = st.lists(actions, min_size=30, max_size=120)

#: Whether to look further than in an ordinary run: `pytest --hypothesis-profile=deep`.
DEEP = settings.default.max_examples > 100


def ends_well(world: World) -> None:
    """Assert what must hold when everything has come to rest."""
    world.quiesce()
    assert world.left_behind() == []
    world.knows_the_cluster()
    assert world.machine.cluster.assumed == 0
    assert world.machine.sizes().preempting == 0
    assert world.machine.cluster.evicting == 0


@settings(max_examples=4000 if DEEP else share(60))
@given(histories)
def test_every_history_is_safe_and_ends_well(drawn):
    world = World()
    for action in drawn:
        act(world, action)
    ends_well(world)


@pytest.mark.parametrize("seed", range(400 if DEEP else share(20)))
def test_a_long_history_is_safe_and_ends_well(seed):
    ends_well(lived(seed))


@pytest.mark.parametrize("seed", range(1000, 1000 + (400 if DEEP else share(10))))
def test_no_node_is_overcommitted_without_other_schedulers(seed):
    ends_well(lived(seed, foreign=False))


@pytest.mark.parametrize("seed", [700007, 700036, 700114, 700247, 700258, 700313])
def test_histories_with_freed_capacity_and_hanging_victims_end_well(seed):
    ends_well(lived(seed, foreign=seed % 3 > 0))


def test_the_same_history_has_the_same_effects():
    first = digests()

    assert first == digests()
    assert len(set(first)) == 3


def test_the_order_of_sets_decides_nothing():
    program = "from tests.properties.happenings import digests; print(digests())"
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path) or "."}

    said = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]

    assert said == [str(digests())] * 2
