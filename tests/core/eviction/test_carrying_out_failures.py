"""Preemptions that cannot be completed, and nominations that block other pods."""

import pytest

from scheduler.model.decisions import Unschedulable
from scheduler.model.effects import RecordEvent, SetCondition
from scheduler.model.events import FailureKind, NodeObserved
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.stories import play

EVICTING = "victims; hold Evict; schedule high;"
#: A pod waits because a preemptor without answers is nominated to the capacity.
BLOCKED = f"""{EVICTING}
    delete a b; schedule mid cpu=2 priority=50 never_preempts; is unschedulable mid;"""
#: The preemptor's victims are gone, and another node is for it alone.
ELSEWHERE = f"""{BLOCKED}
    done; done; node n2 cpu=4 taint=only-for-high;"""
STORIES = {
    # The nomination is not taken
    **{
        f"no victim is evicted without a nomination: {kind.name}": f"""
        victims; hold Nominate; schedule high
        fail high {kind.name}; evicted; nominated; cleared; is backoff high"""
        for kind in FailureKind
    },
    "a preemptor whose nomination failed tries again after a back-off": """
        victims; hold Nominate; schedule high; fail; hold
        quiet; wait 12; drain; preempts high n1 a b; evicted a b""",
    # Evictions fail
    **{
        f"a plan is cancelled when every eviction is answered and {failing} failed": f"""
        {EVICTING} fail {failing} FORBIDDEN; is preempting high; nominated high=n1
        done {other}; is backoff high; nominated; cleared high; nominee high=
        noted preemption: evicting pod default/{failing}: no"""
        for failing, other in ("ab", "ba")
    },
    "a victim whose eviction failed is evicted again and a terminating one is not": f"""
        {EVICTING} done a; fail b; hold; wait 12; drain; preempts high n1 a b; evicted a b b""",
    "the first failure is the one that is reported": f"""
        {EVICTING} fail b; fail a; noted preemption: evicting pod default/b: no""",
    "a nomination that cannot be cleared stops nothing": """
        victims; hold Evict ClearNomination; schedule high; fail; fail; fail
        nominated; is backoff high""",
    "an Event that cannot be written stops nothing": """
        victims; hold RecordEvent; schedule high; fail; fail; fail; held
        is unschedulable high""",
    # Pods blocked by a nomination
    "a cancelled plan wakes pods blocked by its nomination": f"""
        {BLOCKED} fail; fail; is backoff mid""",
    "a deleted preemptor wakes pods blocked by its nomination": f"""
        {BLOCKED} delete high; is backoff mid""",
    "a preemptor bound elsewhere wakes pods blocked by its nomination": f"""
        {BLOCKED} change high on=n9; is backoff mid""",
    "a preemptor placed elsewhere wakes pods blocked by its nomination": f"""
        {ELSEWHERE} change high tolerates=only-for-high; node n1 cpu=3
        hold Bind; wait 60; drain high=n2 mid=n1""",
    "a preemptor nominated to another node wakes pods blocked by its nomination": f"""
        {ELSEWHERE} pod c@n2 cpu=4 priority=-1; change high tolerates=only-for-high; node n1 cpu=3
        wait 60; drain; nominated high=n2; placed mid=n1""",
    "a preemptor that clears a nomination wakes pods blocked by it": """
        node n1 cpu=4; pod user@n1 cpu=2 port=80
        schedule nominated cpu=3 priority=50 never_preempts nominated=n1
        schedule mid cpu=1 priority=10 never_preempts; is unschedulable mid
        schedule taker port=80 priority=100; nominated taker=n1; is backoff mid""",
    "a cleared nomination wakes lower and equal pods only": """
        node n1 cpu=4; pod nominated scheduler=other cpu=3 priority=50 nominated=n1
        schedule low cpu=2 priority=10 never_preempts
        schedule equal cpu=2 priority=50 never_preempts; schedule high cpu=9 priority=90
        is unschedulable low equal high; pod nominated scheduler=other cpu=3 priority=50
        is backoff low equal; is unschedulable high""",
}  # fmt: skip


def noted(cluster: Cluster, *words: str) -> None:
    last = cluster.asked(RecordEvent)[-1]
    assert isinstance(last, RecordEvent)
    assert last.note == " ".join(words)


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_preemption_fails_or_blocks_others(story):
    play(story, noted=noted)


def test_the_condition_of_a_preemptor_whose_nomination_failed_is_written_later():
    cluster = play("victims; hold Nominate; schedule high; fail")
    assert cluster.pod("high").condition("PodScheduled") is None

    queued = cluster.machine.queue.get(cluster.ref("high").uid)
    assert queued is not None
    assert queued.reported_condition is None
    assert [each.note for each in cluster.asked(RecordEvent)] == [
        "0/1 nodes are available: 1 Insufficient cpu.",
        "preemption: nominating node n1: no",
    ]


# Conditions


def rejected(*holding: type) -> Cluster:
    """Return a cluster in which a pod has been rejected once."""
    cluster = Cluster(node("n1").cpu("1"))
    cluster.hold(*holding)
    assert isinstance(cluster.schedule(pod("p").cpu("2")), Unschedulable)
    return cluster


def test_a_condition_that_could_not_be_written_is_written_next_time():
    cluster = rejected(SetCondition)
    cluster.fail()

    play("node n2 cpu=1; wait 600; wait 600; drain", cluster)

    assert len(cluster.asked(SetCondition)) == 2


def test_a_condition_that_failed_for_a_deleted_pod_is_dropped():
    cluster = rejected(SetCondition)

    play("delete p; fail p GONE; is gone p", cluster)


def test_a_condition_that_says_the_same_is_not_written_again():
    cluster = rejected()

    play("wait 600; wait 600; drain", cluster)

    first, last = cluster.attempts
    assert first.decision == last.decision
    assert len(cluster.asked(SetCondition)) == 1
    assert len(cluster.asked(RecordEvent)) == 2


def test_a_condition_that_the_pod_has_already_is_not_written():
    message = rejected().attempts[0].decision.message
    again = Cluster(node("n1").cpu("1"))

    again.schedule(pod("p").cpu("2").condition("PodScheduled", "False", "Unschedulable", message))

    assert again.asked(SetCondition) == []


def test_a_condition_is_written_to_clear_a_nomination_even_if_it_says_the_same():
    cluster = rejected()

    play("change p nominated=n1; nominated p=n1; wait 600; wait 600; drain; nominated", cluster)

    message = cluster.attempts[0].decision.message
    assert cluster.asked(SetCondition)[-1] == SetCondition(
        cluster.ref("p"), "Unschedulable", message, 0, clear_nomination=True
    )


def test_a_nomination_that_the_watch_has_not_brought_yet_is_cleared_all_the_same():
    cluster = play("victims; pod high")
    cluster.lag()
    play("step; nominated high=n1", cluster)

    cluster.observe(NodeObserved(node("n1").cpu("1").build()))
    play("wait 400; wait 400; drain", cluster)

    assert [effect.clear_nomination for effect in cluster.asked(SetCondition)] == [True]
