"""Random histories under other policies come to no defect, and nothing is evicted in vain."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from scheduler.model import recording_lines
from scheduler.model.policies import Budget, PreemptionPolicy
from scheduler.observe.recorder.header import SegmentHeader
from scheduler.observe.recorder.reading import Entry, SegmentStart
from scheduler.sim.counterfactual import CounterfactualDecision, CounterfactualReplay
from tests.properties.happenings import act, history, write_node
from tests.properties.taped import TapedMachine, restored
from tests.properties.world import World
from tests.support.builders import EPOCH
from tests.support.recordings import line_of
from tests.support.seeds import share

pytestmark = pytest.mark.seeded

DEEP = settings.default.max_examples > 100
NO_VICTIMS = PreemptionPolicy("none", budgets=(Budget(0, 3600.0),))
MANY_VICTIMS = PreemptionPolicy("none", budgets=(Budget(1000, 3600.0),))


def taped(seed: int) -> TapedMachine:
    world = World(foreign=seed % 3 > 0)
    machine = world.machine = TapedMachine(31)
    for number in range(3):
        write_node(world, number, number, number + 2)
    for action in history(seed, 400):
        act(world, action)
    return machine


def parts(machine: TapedMachine, first: int) -> Iterator[SegmentStart | Entry]:
    """Yield what a recording has that begins at a snapshot."""
    snapshot = machine.snapshots[first]
    header = SegmentHeader(EPOCH, "0", "v1.36", "0" * 8, 1, "", fresh=False)
    yield SegmentStart("", header, False, tuple(snapshot.lines))
    for call in machine.calls[snapshot.before :]:
        if call.method == "flushed_effects":
            continue
        *what, at = call.arguments
        if call.method == "step":
            if call.result is not None:
                yield Entry("", recording_lines.decided(call.result), at)
            continue
        read, _ = recording_lines.decode(line_of(what[0] if what else None, at))
        yield Entry("", read, at)


def replayed(
    machine: TapedMachine, first: int, *policies: PreemptionPolicy, restarted: bool = False
) -> tuple[CounterfactualReplay, list[CounterfactualDecision]]:
    replay = CounterfactualReplay(
        parts(machine, first),
        lambda _: restored(machine.snapshots[0]),
        policies,
        restarted,
    )
    found = [each for each in replay.run() if isinstance(each, CounterfactualDecision)]
    assert replay.machine is not None
    replay.machine.check()
    return replay, found


@pytest.mark.parametrize("seed", range(60 if DEEP else share(12)))
def test_without_a_change_the_histories_never_diverge(seed: int):
    machine = taped(seed)

    for first in range(len(machine.snapshots)):
        replay, found = replayed(machine, first)
        assert replay.diverged is None
        assert not [each for each in found if each.diverges]


@pytest.mark.parametrize("seed", range(60 if DEEP else share(12)))
@pytest.mark.parametrize("restarted", [False, True])
def test_a_policy_without_victims_evicts_nobody(seed: int, restarted: bool):
    machine = taped(seed)

    for first in range(len(machine.snapshots)):
        replay, _ = replayed(machine, first, NO_VICTIMS, restarted=restarted)
        if replay.diverged is not None:
            assert not replay.diverged.victims


@pytest.mark.parametrize("seed", range(60 if DEEP else share(12)))
def test_another_history_places_pods_on_nodes_that_it_knows(seed: int):
    machine = taped(seed)

    for first in range(len(machine.snapshots)):
        replay, found = replayed(machine, first, MANY_VICTIMS, restarted=True)
        assert replay.machine is not None
        placed = [each.now for each in found if each.now and each.now.decision == "Scheduled"]
        assert all(each.node for each in placed)
