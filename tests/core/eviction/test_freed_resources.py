"""Capacity freed for a preemptor that does not use it: which pods get it or wait for it."""

import pytest

from scheduler.core.eviction.state import USE_WITHIN
from scheduler.model.releases import V1_37
from tests.support.cluster import Cluster
from tests.support.stories import play

LATER = f"wait {USE_WITHIN}"
FULL = "node n1 cpu=4; pod a@n1 cpu=2 priority=1; pod b@n1 cpu=2 priority=1;"
#: Two pods left `n1` for a preemptor that fits on `n2` now.
ABANDONED = f"{FULL} schedule high; node n2 cpu=4; wait 3; drain; placed high=n2;"
#: A node whose pod is cheaper to evict.
CHEAPER = "pod cheaper@n3 cpu=4; node n3 cpu=4; forget;"
STORIES = {
    # Pods that use it
    **{
        f"it is used by {who}": f"""
        {ABANDONED} finish; schedule x {words}; placed x=n1; {LATER}; wasted {waste}"""
        for who, words, waste in (
            ("an equal preemptor", "cpu=4 priority=100", ""),
            ("a more important pod", "cpu=4 priority=200", ""),
            ("a pod that could have evicted them", "cpu=4 priority=2", ""),
            ("a pod no more important than they", "cpu=4 priority=1", "placed_elsewhere=2"),
            ("one that takes half of it", "cpu=2 priority=100", "placed_elsewhere=1"),
        )
    },
    "what another scheduler takes is wasted even if the rest is used": f"""
        {ABANDONED} finish; pod foreign@n1 cpu=2 priority=100 scheduler=other not_started
        schedule x cpu=2 priority=100; {LATER}; placed x=n1; wasted placed_elsewhere=1""",
    "a host port in use is not free": f"""
        node n1 cpu=4; pod a@n1 cpu=2 priority=1 port=80; schedule web cpu=1 port=80 priority=100
        node n2 cpu=1; wait 3; drain; finish; schedule other cpu=1 port=80 priority=50
        placed other=n1; {LATER}; wasted""",
    "of two plans on a node the one whose capacity is used is not wasted": f"""
        {FULL} schedule first cpu=2 priority=100; schedule second cpu=2 priority=100
        node n2 cpu=4; wait 3; drain; finish; schedule x cpu=2 priority=100; placed x=n1
        {LATER}; wasted placed_elsewhere=1""",
    "it is not wasted while a pod is nominated to it": f"""
        node n1 cpu=6; pod a@n1 cpu=2 priority=1; pod b@n1 cpu=2 priority=1
        pod c@n1 cpu=2 priority=1; schedule high; delete a; node n2 cpu=4; wait 3; drain
        hold Evict; schedule x cpu=6 priority=100; preempts x n1 c b; {LATER}; wasted
        delete x; {LATER}; wasted placed_elsewhere=2""",
    "on a deleted node it is wasted": f"""
        {ABANDONED} schedule x cpu=4 priority=100; delete-node n1
        {LATER}; wasted placed_elsewhere=2""",
    "a new leader knows the pods placed since the evictions": f"""
        {FULL} schedule high; finish; schedule top; placed top=n1; restart; node n2 cpu=4
        drain; {LATER}; placed high=n2; wasted""",
    "freed before a plan failed it is used by a more important preemptor": f"""
        {FULL} node n2 cpu=4; pod c@n2 cpu=2 priority=90; pod d@n2 cpu=2 priority=90
        hold Evict; schedule high; done; finish; fail; hold; schedule top
        wait 15; drain; finish; wait 15; drain; finish; wait 15; drain; finish
        {LATER}; placed top=n1 high=n2; evicted a b b c d; wasted""",
    "that of a deleted preemptor is used": f"""
        node n1 cpu=4; node n2 cpu=4; pod v@n1 cpu=4 priority=0; pod u@n2 cpu=4 priority=5
        schedule x cpu=4 priority=100; delete x
        schedule b cpu=4 priority=100; preempts b n1 v; evicted v
        finish; wait 15; drain; {LATER}; wasted""",
    # Pods that wait for it
    "no pod is evicted while it is unclaimed": f"""
        {ABANDONED} {CHEAPER} schedule x cpu=4 priority=100; preempts x n1 a b; evicted
        finish; wait 15; drain x=n1; {LATER}; wasted""",
    "where it is too little for a preemptor that does not wait": f"""
        {ABANDONED} pod cheaper@n3 cpu=5; node n3 cpu=5; forget
        schedule x cpu=5 priority=100; evicted cheaper""",
    "where a pod waits for it it is not offered again": f"""
        {ABANDONED} schedule x cpu=4 priority=100; {CHEAPER}
        schedule y cpu=4 priority=100; evicted cheaper""",
    "a pod that preempts no pod is not nominated to it": f"""
        {ABANDONED} schedule x cpu=4 priority=1; nominated""",
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_freed_capacity(story):
    play(story)


def test_an_attempt_that_waits_for_freed_capacity_reports_the_node_where_it_waits():
    cluster = Cluster(reference=V1_37)

    play(f"{ABANDONED} {CHEAPER} schedule x cpu=4 priority=100", cluster)

    assert cluster.attempts[-1].decision.message.endswith("pod on node n1, preempting 2 victims")
