"""What the demonstration makes of states of the API and records of the log."""

import pytest

from deploy.tools.demo.history import History
from scheduler.terminal.values import (
    AttemptResult,
    AttemptView,
    NodeView,
    NominationView,
    PlacementView,
    PodPhase,
    PodView,
    QueueView,
    Totals,
    VictimView,
)
from tests.support.builders import node, pod
from tests.support.demo_objects import raw, unschedulable

GIB = 2**30
LOW = pod("low").cpu("1").memory("1Gi").priority(100)
HIGH = pod("high").cpu("2").memory("1Gi").priority(10_000)


@pytest.fixture
def history() -> History:
    made = History("preemptive-scheduler", {"low": 100, "high": 10_000})
    made.see_nodes([raw(node("n1").cpu("4").memory("8Gi"))])
    return made


def planned(pod: str, *victims: str) -> dict[str, object]:
    return {"event": "preemption_planned", "pod": pod, "node": "n1", "victims": list(victims)}


def test_nodes_show_what_their_pods_use_and_who_comes_and_goes(history: History):
    history.see_pods(
        [
            raw(LOW.on("n1"), "low"),
            raw(pod("leaving").cpu("500m").on("n1").terminating()),
            raw(pod("done").cpu("4").on("n1").finished()),
            raw(pod("foreign").cpu("100m").on("n1").scheduler("other")),
            raw(HIGH.nominated("n1"), "high"),
        ],
        at=1.0,
    )

    assert history.snapshot("", 1.0).nodes == (
        NodeView(
            "n1",
            1_600,
            4_000,
            GIB,
            8 * GIB,
            (
                PodView("default/low", 100, "low"),
                PodView("default/leaving", 0, "", PodPhase.TERMINATING),
                PodView("default/foreign", 0),
                PodView("default/high", 10_000, "high", PodPhase.NOMINATED),
            ),
        ),
    )


def test_waiting_pods_stand_in_their_queues_the_most_important_first(history: History):
    history.see_pods(
        [
            raw(unschedulable(LOW, "too small")),
            raw(unschedulable(HIGH, "too small")),
            raw(pod("new")),
            raw(pod("held").gated("wait")),
            raw(pod("foreign").scheduler("other")),
        ],
        at=1.0,
    )

    assert history.snapshot("", 1.0).queues == (
        QueueView("active", 1, ("default/new",)),
        QueueView("unschedulable", 2, ("default/high", "default/low")),
        QueueView("gated", 1, ("default/held",)),
    )


def test_a_pod_is_placed_when_it_is_first_seen_on_its_node(history: History):
    history.see_pods([raw(LOW)], at=1.0)
    history.see_pods([raw(LOW.on("n1"))], at=1.5)
    history.see_pods([raw(LOW.on("n1"))], at=9.0)

    snapshot = history.snapshot("", 9.0)

    assert snapshot.placements == (PlacementView("default/low", 100, "n1", at=1.5, waited=0.5),)
    assert snapshot.totals == Totals(pods=1, placed=1)


def test_a_preemption_is_told_with_its_victims(history: History):
    history.see_pods([raw(LOW.on("n1")), raw(HIGH)], at=1.0)
    history.see_record(planned("default/high", "default/low"), at=2.0)
    history.see_pods([raw(LOW.on("n1").terminating()), raw(HIGH.nominated("n1"))], at=2.1)
    history.see_pods([raw(LOW.on("n1").terminating()), raw(HIGH.nominated("n1"))], at=2.9)

    leaving = history.snapshot("", 3.0)
    history.see_pods([raw(HIGH.nominated("n1"))], at=4.0)
    gone = history.snapshot("", 4.0)

    victim = VictimView("default/low", 100, "n1", "default/high", evicted_at=2.0)
    assert leaving.victims == (victim,)
    assert leaving.nominations == (NominationView("default/high", "n1", since=2.1),)
    assert leaving.attempts == (
        AttemptView(2.0, "default/high", AttemptResult.PREEMPTING, "n1", ("default/low",)),
    )
    assert gone.victims == (
        VictimView("default/low", 100, "n1", "default/high", evicted_at=2.0, gone_at=4.0),
    )
    assert gone.totals == Totals(pods=1, waiting=1, preemptions=1, evicted=1)
    assert gone.placements == ()


def test_a_victim_that_left_before_its_preemption_was_heard_of_counts_as_gone(
    history: History,
):
    history.see_pods([raw(LOW.on("n1"))], at=1.0)
    history.see_pods([], at=2.1)

    history.see_record(planned("default/high", "default/low"), at=2.0)

    assert history.snapshot("", 3.0).victims == (
        VictimView("default/low", 100, "n1", "default/high", evicted_at=2.0, gone_at=2.1),
    )


def test_records_of_attempts_become_attempts(history: History):
    for record in (
        {"event": "pod_bound", "pod": "a/b", "node": "n1"},
        {"event": "pod_unschedulable", "pod": "a/c", "message": "no room"},
        {"event": "attempt_failed", "pod": "a/d", "message": "a defect"},
        {"event": "bind_failed", "pod": "a/e", "node": "n1", "message": "refused"},
        {"event": "victim_evicted", "pod": "a/f", "node": "n1"},
    ):
        history.see_record(record, at=1.0)

    assert history.snapshot("", 1.0).attempts == (
        AttemptView(1.0, "a/e", AttemptResult.FAILED, "n1", message="refused"),
        AttemptView(1.0, "a/d", AttemptResult.FAILED, message="a defect"),
        AttemptView(1.0, "a/c", AttemptResult.UNSCHEDULABLE, message="no room"),
        AttemptView(1.0, "a/b", AttemptResult.PLACED, "n1"),
    )


def test_an_attempt_that_ends_as_the_one_before_takes_its_place(history: History):
    for at, message in ((1.0, "no room"), (2.0, "less room"), (3.0, "less room")):
        history.see_record({"event": "pod_unschedulable", "pod": "a/b", "message": message}, at)

    assert [(each.at, each.message) for each in history.snapshot("", 3.0).attempts] == [
        (3.0, "less room"),
        (1.0, "no room"),
    ]


def test_it_is_known_when_the_scheduler_leads(history: History):
    assert not history.leads

    history.see_record({"event": "became_leader", "lease": "preemptive-scheduler"}, 0.5)

    assert history.leads
