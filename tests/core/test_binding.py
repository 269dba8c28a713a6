"""From a decision to a pod on its node: assume, bind, confirm; and everything that goes wrong."""

import pytest

from scheduler.core.outbox import Bound
from scheduler.model.effects import Bind, RecordEvent, SetCondition
from scheduler.model.events import PodObserved
from tests.support.builders import OURS, pod
from tests.support.cluster import Cluster
from tests.support.stories import play

#: The pod `p` is being bound to the only node.
BINDING = "node n1 cpu=2; hold Bind; schedule p cpu=2; held Bind;"
#: Another pod waits for the capacity.
WAITING = f"{BINDING} schedule q cpu=2; is unschedulable q;"
NO_ROOM = "schedule q cpu=1; is unschedulable q"
STORIES = {
    "a placed pod is bound": f"{BINDING} is binding p",
    "a pod takes its capacity before it is bound": f"{BINDING} {NO_ROOM}",
    "the watch may confirm before the answer comes": f"""
        {BINDING} change p on=n1; is gone p; assumed 0; done; reported 1""",
    "the answer may come before the watch confirms": f"""
        {BINDING} lag; done; assumed 1; catch-up; assumed 0; {NO_ROOM}""",
    "a pod stays assumed however long the answer takes": f"""
        {BINDING} wait 3600; assumed 1; {NO_ROOM}""",
    **{
        f"a pod that could not be bound frees its capacity and is tried again: {kind}": f"""
        {BINDING} fail p {kind}; is backoff p; schedule q cpu=2 priority=9; held Bind
        fail; wait 3; drain; held Bind; is binding q; is unschedulable p"""
        for kind in ("CONFLICT", "REFUSED", "FORBIDDEN", "UNAVAILABLE")
    },
    "a pod that could not be bound has no nomination any more": """
        node n1; hold Bind; schedule p nominated=n1; fail; effects Bind SetCondition
        nominee p=; nominated""",
    "a deleted pod is not tried again": f"""
        {BINDING} fail p GONE; is gone p; assumed 0; effects Bind""",
    "a terminating pod is not tried again": f"""
        {BINDING} lag; change p terminating; catch-up; fail p CONFLICT; is gone p; effects Bind""",
    "a pod that is deleted while it is bound frees its capacity": f"""
        {BINDING} delete p; assumed 0; fail p GONE; is gone p; schedule q cpu=2; is binding q""",
    "a failed binding wakes a pod that waits for the capacity": f"{WAITING} fail; is backoff q",
    "a pod that is deleted while it is bound wakes a pod that waits for the capacity": f"""
        {WAITING} delete p; is backoff q""",
    "a pod bound elsewhere by another scheduler wakes a pod that waits for the capacity": f"""
        {WAITING} change p on=n2; is backoff q; fail p CONFLICT; is gone p; hold; drain q=n1""",
    "a confirmed binding wakes no pod that waits for capacity": f"""
        {WAITING} done; is unschedulable q""",
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_pod_is_bound_or_not(story):
    play(story, reported=reported)


def reported(cluster: Cluster, count: str) -> None:
    assert len(cluster.bound) == int(count)


@pytest.fixture
def cluster() -> Cluster:
    return play(BINDING)


def test_a_bound_pod_is_removed_from_the_queue_and_gets_an_event(cluster):
    assert cluster.held == [Bind(cluster.ref("p"), "n1", OURS)]

    play("wait 3; done; is gone p", cluster)

    assert cluster.bound == [Bound(cluster.ref("p"), "n1", OURS, 1, 3.0, flushed=False)]
    assert cluster.asked(RecordEvent) == [
        RecordEvent(
            cluster.ref("p"), "Normal", "Scheduled", "Binding",
            "Successfully assigned default/p to n1", OURS, "1",
        )
    ]  # fmt: skip


def test_the_reason_is_reported_for_a_pod_that_could_not_be_bound(cluster):
    cluster.fail()

    error = 'running Bind plugin "DefaultBinder": no'
    assert cluster.asked(SetCondition) == [
        SetCondition(cluster.ref("p"), "SchedulerError", error, 0)
    ]
    assert [each.note for each in cluster.asked(RecordEvent)] == [error]


def test_a_late_state_without_a_node_does_not_unbind(cluster):
    play("lag; done", cluster)

    cluster.observe(PodObserved(pod("p").cpu("2").version(1).build()))

    play(f"catch-up; is gone p; {NO_ROOM}", cluster)


def test_a_pod_that_changed_while_it_was_bound_is_tried_with_its_new_state(cluster):
    cluster.change("p", lambda own: own.selects(disk="ssd"))
    play("fail; wait 3", cluster)

    (attempt,) = cluster.drain()

    assert attempt.plugins == ("NodeAffinity",)
