"""A machine that is restored from a snapshot goes on exactly as the one that was copied."""

import pytest
from hypothesis import settings

from tests.properties import changes, changing, transactions
from tests.properties.happenings import act, history, write_node
from tests.properties.taped import TapedMachine, again, restored, snapshot_of
from tests.properties.test_transactions import drawn_actions, kind
from tests.properties.world import World
from tests.support.seeds import share

pytestmark = pytest.mark.seeded

DEEP = settings.default.max_examples > 100


def taped(seed: int, every: int, length: int = 400) -> TapedMachine:
    """Return the machine of a world that has gone through the history of a seed."""
    world = World(foreign=seed % 3 > 0)
    machine = world.machine = TapedMachine(every)
    for number in range(3):
        write_node(world, number, number, number + 2)
    for action in history(seed, length):
        act(world, action)
    return machine


def goes_on_equally(machine: TapedMachine) -> None:
    """Assert that each call after a snapshot has the same result for a restored machine."""
    for snapshot in machine.snapshots:
        other = restored(snapshot)
        if not snapshot.lacks:
            other.check()
            # Sets within values are in any order.
            assert [*map(sorted, snapshot_of(other).lines)] == [*map(sorted, snapshot.lines)]
        for number in range(snapshot.before, len(machine.calls)):
            call = machine.calls[number]
            if again(other, call) != call.result:
                assert snapshot.lacks, (snapshot.before, number, call)
                break  # the recording says so


@pytest.mark.parametrize("seed", range(400 if DEEP else share(24)))
def test_a_restored_machine_goes_on_as_the_copied_one(seed):
    machine = taped(seed, every=31)

    assert len(machine.snapshots) > 3
    goes_on_equally(machine)


@pytest.mark.parametrize("seed", range(300 if DEEP else share(16)))
def test_so_it_does_with_policies_changing_pods_and_restarts(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    machines: list[TapedMachine] = []

    def made(*_: object) -> TapedMachine:
        machines.append(TapedMachine(41))
        return machines[-1]

    monkeypatch.setattr(changing, "ComparingMachine", made)
    changes.lived(seed)

    assert sum(len(machine.snapshots) for machine in machines) > 2
    for machine in machines:
        goes_on_equally(machine)


@pytest.mark.parametrize("seed", range(600 if DEEP else share(48)))
def test_a_restored_machine_continues_while_a_ledger_write_is_pending(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    machines: list[TapedMachine] = []

    def made(*_: object) -> TapedMachine:
        machines.append(TapedMachine(7))
        return machines[-1]

    monkeypatch.setattr(transactions, "Machine", made)
    world = transactions.Transactions(**kind(seed))
    for action in drawn_actions(seed):
        world.act(action)
    world.come_to_rest()

    for machine in machines:
        goes_on_equally(machine)
