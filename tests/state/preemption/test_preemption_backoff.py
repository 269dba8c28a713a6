"""Failed preemptions are not tried again at once, and repeated failures stop preemption."""

import pytest

from scheduler.state.preemption.preemption_backoff import (
    FORGOTTEN_AFTER,
    MAX_RECORDS,
    PairPause,
    PreemptionBackoff,
)

P, V = "ReplicaSet/default/important", "ReplicaSet/default/web"


def noted(*nodes: str, lost: bool = True, every: float = 0.0) -> PreemptionBackoff:
    memory = PreemptionBackoff()
    for number, node in enumerate(nodes):
        memory.record_failure(P, node, [V], number * every, lost=lost)
    return memory


def test_the_first_failure_has_no_effect():
    assert noted("n1").pause(P, "n1", V, 0.0) is None


@pytest.mark.parametrize(
    ("times", "want_seconds"), [(2, 30), (3, 120), (4, 480), (5, 1920), (6, 3600), (60, 3600)]
)
def test_from_the_second_failure_on_there_is_a_growing_pause(times, want_seconds):
    memory = noted(*["n1"] * times, lost=False)

    assert memory.pause(P, "n1", V, 0.0) == PairPause(want_seconds, times, stopped=False)
    assert memory.pause(P, "n1", V, want_seconds) is None


def test_a_pause_applies_to_one_node_and_one_pair_of_owners():
    memory = noted("n1", "n1", "n1")

    assert memory.pause(P, "n1", V, 0.0) is not None
    assert memory.pause(P, "n2", V, 0.0) is None
    assert memory.pause(P, "n1", P, 0.0) is None
    assert memory.pause(V, "n1", V, 0.0) is None


def test_capacity_that_was_lost_often_enough_stops_preemption_on_every_node():
    memory = noted("n1", "n2", "n3", "n4", every=10.0)

    assert memory.pause(P, "n9", V, 30.0) == PairPause(30.0 + 3600.0, 4, stopped=True)
    assert memory.pause(P, "n9", V, 30.0 + 3600.0) is None


def test_a_stop_grows_up_to_a_day():
    for extra, want_hours in ((1, 2), (2, 4), (5, 24), (90, 24)):
        pause = noted(*["n1"] * (4 + extra)).pause(P, "n1", V, 0.0)

        assert pause == PairPause(want_hours * 3600.0, 4 + extra, stopped=True)


def test_a_preemptor_that_is_placed_elsewhere_does_not_stop_others():
    assert noted("n1", "n2", "n3", "n4", "n5", lost=False).pause(P, "n6", V, 0.0) is None


def test_a_success_drops_the_failures_of_two_owners():
    memory = noted("n1", "n2", "n3", "n4")
    memory.record_failure(P, "n1", ["other"], 0.0, lost=True)

    assert memory.record_success(P, [V])
    assert memory.pause(P, "n1", V, 0.0) is None
    assert [each.key for each in memory] == [(P, "n1", "other")]
    assert not memory.record_success(P, [V])


def test_a_pair_of_owners_loops_after_its_first_failure():
    memory = noted("n1")

    assert memory.loops(P, V)
    assert not memory.loops(V, P)


def test_old_records_are_dropped():
    memory = noted("n1", "n2", every=100.0)

    memory.prune(FORGOTTEN_AFTER)

    assert [each.node for each in memory] == ["n2"]


def test_only_the_latest_records_are_kept():
    memory = PreemptionBackoff()
    for number in range(MAX_RECORDS + 5):
        memory.record_failure(P, f"n{number}", [V], float(number), lost=True)

    assert len(memory) == MAX_RECORDS
    assert min(each.last for each in memory) == 5.0
