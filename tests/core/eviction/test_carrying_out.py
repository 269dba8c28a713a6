"""A preemption is executed in order: nominate, evict, wait until the victims have terminated."""

import pytest

from scheduler.model.decisions import Preempting, Unschedulable
from scheduler.model.effects import Evict, Nominate, RecordEvent, SetCondition
from tests.support.builders import node
from tests.support.cluster import Cluster, without_plan
from tests.support.evictions import HIGH, two_victims, victim
from tests.support.stories import play

FULL = "0/1 nodes are available: 1 Insufficient cpu."
#: A preemptor waits for its victim, and pods of another node take its capacity.
ANOTHER_NODE = """
    node n1 cpu=4; node n2 cpu=4; pod a@n1 cpu=2 priority=2
    pod x@n2 cpu=1 priority=1000; pod y@n2 cpu=3 priority=1000
    schedule high; is unschedulable high;"""
STORIES = {
    # Waiting
    "the preemptor is not tried until every eviction is answered": """
        victims; hold Evict; schedule high; is preempting high
        done b; is preempting high; done a; is unschedulable high""",
    "the preemptor takes the capacity when its victims have terminated": """
        victims; schedule high; finish; wait 3; drain high=n1; nominated""",
    "a victim that terminates before all answers wakes the preemptor afterwards": """
        victims; hold Evict; schedule high; delete a b; is preempting high
        unchanged; unchanged; is backoff high""",
    "one terminated victim is not enough while others are being evicted": """
        victims; hold Evict; schedule high; done; finish; done; is unschedulable high""",
    "a preemptor is not tried before its last victim has terminated": """
        victims; schedule high; delete a; is unschedulable high; delete b; is backoff high""",
    "too little capacity elsewhere does not wake a pod that waits for victims": f"""
        {ANOTHER_NODE} delete x; is unschedulable high""",
    "enough capacity elsewhere wakes a pod that waits for victims": f"""
        {ANOTHER_NODE} delete x y; wait 3; drain high=n2""",
    "capacity for another nominated pod does not wake a pod that waits for victims": f"""
        {ANOTHER_NODE} pod theirs scheduler=other cpu=4 priority=100 nominated=n2
        delete x y; is unschedulable high""",
    "capacity elsewhere wakes all pods of a class that wait for victims": """
        node n1 cpu=4; node n2 cpu=4; node n3 cpu=4
        pod a@n1 cpu=2; pod b@n2 cpu=2; pod x@n3 cpu=4 priority=1000
        schedule h1 cpu=4 priority=100; schedule h2 cpu=4 priority=100
        delete x; is backoff h1 h2""",
    "a pod that does not preempt yet is woken by any capacity": """
        node n1 cpu=4; pod x@n1 cpu=1 priority=1000; pod y@n1 cpu=3 priority=1000
        schedule high; delete x; is backoff high""",
    "the nomination keeps lower pods out while the victims terminate": """
        victims; schedule high; finish; schedule mid cpu=1 priority=50; is unschedulable mid""",
    "a preemptor that changes meanwhile still gets its capacity": """
        victims; hold Evict; schedule high; change high label=mutated,true
        done; done; finish; wait 3; drain high=n1""",
    # Victims that need not be evicted
    "a terminating victim is not evicted again": """
        node n1 cpu=4; pod a@n1 cpu=2 priority=1 terminating; pod b@n1 cpu=2
        schedule high; preempts high n1 a b; evicted b""",
    "with every victim terminating the nomination is all there is": """
        node n1 cpu=4; pod a@n1 cpu=2 terminating; pod b@n1 cpu=2 terminating
        schedule high; effects Nominate; is unschedulable high; nominated high=n1""",
    "a victim deleted before the nomination was written is not evicted": """
        victims; hold Nominate; schedule high; delete a; done; evicted b""",
    "a victim that is evicted for another preemptor is not evicted again": """
        node n1 cpu=4; pod a@n1 cpu=2 priority=1; pod b@n1 cpu=2; hold Evict
        schedule first cpu=2 priority=100; evicted b
        schedule second cpu=4 priority=200; preempts second n1 a b; evicted b a""",
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_preemption_is_carried_out(story):
    play(story)


def test_the_nomination_is_written_before_any_victim_is_evicted():
    cluster = two_victims()
    cluster.hold(Nominate)

    decision = cluster.schedule(HIGH)

    assert decision == Preempting("n1", cluster.refs("a", "b"), 0, FULL)
    (nominate,) = cluster.held
    assert without_plan(nominate) == Nominate(cluster.ref("high"), "n1", FULL, 0)
    assert cluster.evicted() == []


def test_the_effects_of_a_preemption_come_in_this_order():
    cluster = two_victims()

    cluster.schedule(HIGH)

    failed, nominate, *rest = cluster.effects
    assert isinstance(failed, RecordEvent)
    assert (failed.reason, failed.note) == ("FailedScheduling", FULL)
    assert without_plan(nominate) == Nominate(cluster.ref("high"), "n1", FULL, 0)
    assert [type(effect) for effect in rest] == [Evict, Evict, RecordEvent, RecordEvent]
    assert [(each.reason, each.regarding.name, each.note) for each in rest[2:]] == [
        ("Preempted", name, "Preempted by pod uid:default/high on node n1") for name in "ab"
    ]
    assert cluster.asked(SetCondition) == []  # the nomination writes it


def test_the_generations_that_were_looked_at_are_named():
    cluster = Cluster(node("n1").cpu("2"), victim("low").meta(generation=3))

    cluster.schedule(HIGH.cpu("2").meta(generation=7))

    assert [effect.generation for effect in cluster.asked(Nominate, Evict)] == [7, 3]


def test_no_further_pod_is_evicted_while_a_victim_terminates():
    cluster = play("""
        node n1 cpu=4; pod a@n1 cpu=2 priority=1; pod b@n1 cpu=2
        schedule high cpu=2; evicted b; node n1 cpu=3; wait 3; node n1 cpu=3.5""")

    (attempt,) = cluster.drain()

    assert attempt.decision == Unschedulable(
        f"{FULL} no new claims to deallocate, "
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    assert cluster.evicted() == ["b"]
    assert cluster.nominations() == {"high": "n1"}


def test_no_event_is_recorded_for_a_victim_that_was_already_gone():
    cluster = play("victims; hold Evict; schedule high; forget; unchanged a; done b")

    assert [each.regarding.name for each in cluster.asked(RecordEvent)] == ["b"]
