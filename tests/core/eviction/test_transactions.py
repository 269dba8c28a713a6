"""A preemption is one transaction: its plan is carried out, or given up by a deadline."""

import pytest

from scheduler.core.eviction.transitions import TERMINATION_MARGIN
from scheduler.model.effects import Nominate
from scheduler.model.plan_record import VERSION, PlanRecord, decode, fingerprint
from tests.support.evictions import HIGH, two_victims
from tests.support.stories import play

NOMINATING = "victims; hold Nominate; schedule high;"
#: Two preemptors with plans of an earlier leader.
INHERITED = """
    pod one cpu=1 priority=100 nominated=n1 plan=a
    pod other cpu=1 priority=100 nominated=n1 plan=b;"""
STORIES = {
    # When a plan is executed
    "a preemptor is tried again only when enough of its victims have terminated": """
        victims; schedule high; delete a; quiet; delete b; drain high=n1""",
    "a preemptor that fits before all its victims have terminated does not wait": """
        victims; schedule high; node n1 cpu=6; drain; delete a; drain high=n1""",
    "the plan is removed with the nomination": """
        victims; hold Evict; schedule high; has-plan high=yes; fail; fail
        cleared high; has-plan high=no""",
    # Right before victims are evicted
    "victims that are no longer needed are not evicted": f"""
        {NOMINATING} node n1 cpu=6; done; evicted b""",
    "no victim is evicted when the preemptor fits meanwhile": f"""
        {NOMINATING} node n1 cpu=8; done; evicted; drain high=n1""",
    "no pod is evicted when a more important pod has taken the capacity": """
        node n1 cpu=4; pod a@n1 cpu=1 priority=1; hold Nominate; schedule high
        schedule top cpu=2; hold; done; placed top=n1; evicted; nominated""",
    # One victim is enough: the capacity of one is free already.
    **{
        f"of two preemptors each does not rely on the other's victims: {first} {second}": f"""
        node n1 cpu=3; pod a@n1 cpu=1 priority={first}; pod b@n1 cpu=1 priority={second}
        {INHERITED} drain; finish; drain; evicted {evicted}; placed one=n1 other=n1"""
        for first, second, evicted in ((0, 0, "a"), (0, 1, "a"), (1, 0, "a"))
    },
    "a victim that was not needed is not a victim of the next plan either": f"""
        node n1 cpu=3; pod a@n1 cpu=1; pod b@n1 cpu=1; {INHERITED} hold Evict; drain; evicted a
        pod c@n1 cpu=1; done; hold; finish; drain; finish; drain
        evicted a b; placed one=n1 other=n1""",
    # The decision for `two` keeps b and evicts a and c.
    "victims are spared when another plan evicts a pod that the decision has kept": """
        node n1 cpu=4; pod most@n1 cpu=1 priority=200; pod a@n1 cpu=1; pod b@n1 cpu=1 priority=5
        pod c@n1 cpu=1; pod one cpu=1 priority=100 nominated=n1 plan=b
        hold Evict; drain; evicted b
        schedule two cpu=1 priority=100; done; done; finish; drain
        evicted b c; placed one=n1 two=n1""",
    # Deadlines
    "a victim that hangs releases the node and the preemptor tries another one": f"""
        victims; schedule high; node n2 cpu=4; pod c@n2 cpu=4 priority=50; delete a
        wait {TERMINATION_MARGIN - 1}; drain; evicted a b; nominated high=n1
        wait 1; drain; preempts high n2 c; evicted a b c; nominated high=n2
        wasted victim_hangs=2""",
    "a node where a victim hangs is no candidate until that has terminated": f"""
        victims; schedule high; delete a; wait {TERMINATION_MARGIN}; drain
        nominated; nominee high=
        says high 1 node(s) with an evicted pod that does not terminate
        finish; wait 15; drain high=n1""",
    "the end of the grace period counts not its begin": f"""
        victims; hold Evict; schedule high; later 60; done; done; later -60
        wait {TERMINATION_MARGIN + 59}; nominated high=n1; wait 1; nominated""",
    "an eviction without an answer is requested again until the deadline of two minutes": """
        victims; hold Evict; schedule high cpu=2
        later 30; fail UNAVAILABLE; later 30; fail UNAVAILABLE; later 30; fail UNAVAILABLE
        evicted b b b b; is preempting high; cleared
        later 30; fail UNAVAILABLE; evicted b b b b; cleared high; is backoff high""",
    "an eviction that fails at once is not requested again": """
        victims; hold Evict; schedule high cpu=2; fail UNAVAILABLE; evicted b; is backoff high""",
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_plan_is_carried_out_or_given_up(story):
    play(story)


# What is written


def test_the_plan_is_written_together_with_the_nomination():
    cluster = two_victims()
    cluster.change("a", lambda own: own.owner("StatefulSet", "db").terminating())
    cluster.hold(Nominate)

    cluster.schedule(HIGH)

    (nominate,) = cluster.held
    assert isinstance(nominate, Nominate)
    own = cluster.ref("high").uid
    assert decode(nominate.plan) == PlanRecord(
        VERSION,
        "n1",
        cluster.now,
        (fingerprint(own, "uid:default/b"),),
        (fingerprint(own, "uid:default/a"),),
    )


def test_what_is_written_names_no_other_pod():
    cluster = two_victims()
    cluster.hold(Nominate)

    cluster.schedule(HIGH)

    (nominate,) = cluster.held
    assert isinstance(nominate, Nominate)
    for each in (cluster.ref("a"), cluster.ref("b")):
        assert each.uid not in nominate.plan
        assert f'"{each.name}"' not in nominate.plan
