"""Wasted victims are counted by reason, and no others."""

import pytest

from scheduler.core.eviction.state import USE_WITHIN
from tests.support.stories import play

LATER = f"wait {USE_WITHIN}"
PREEMPTED = "victims; schedule high;"
#: The first victim is evicted, the second is not.
HALF_FAILED = "victims; hold Evict; schedule high; done a; fail b;"
STORIES = {
    "victims of a preemptor that gets the capacity are not wasted": f"""
        {PREEMPTED} finish; wait 3; drain; placed high=n1; wasted; preempting 0""",
    "victims of a deleted preemptor are wasted": f"""
        {PREEMPTED} delete high; finish; {LATER}; wasted preemptor_gone=2""",
    "victims on a deleted node are wasted": f"{PREEMPTED} delete-node n1; wasted node_gone=2",
    # Perhaps an earlier request, whose answer was lost, has evicted the second.
    "victims on a node that is deleted during the evictions are wasted": """
        victims; hold Evict; schedule high; delete-node n1
        done; unchanged; wasted node_gone=2""",
    "victims of a preemptor that is placed elsewhere are wasted": f"""
        {PREEMPTED} node n2 cpu=4; wait 3; drain high=n2; wasted
        {LATER}; wasted placed_elsewhere=2""",
    "victims whose capacity others take are wasted": f"""
        {PREEMPTED} delete a; pod foreign@n1 cpu=2 scheduler=other; delete b
        wait 3; drain; wait 12; drain; evicted a b foreign; wasted room_lost=2""",
    "capacity that a more important pod takes over is not wasted": f"""
        {PREEMPTED} finish; schedule top; wait 15; drain; placed top=n1; wasted; evicted a b""",
    "a preemptor whose capacity is taken waits for other freed capacity": f"""
        node n1 cpu=2; node n2 cpu=2; node n3 cpu=2
        pod a@n1 cpu=2; pod b@n2 cpu=2 priority=1; pod c@n3 cpu=2 priority=2
        schedule top cpu=2; schedule high cpu=2; nominated top=n1 high=n2
        delete b; wait 3; drain; placed top=n2; nominated high=n1; evicted a b
        delete a; wait 15; drain; {LATER}; placed high=n1; wasted""",
    "victims that the more important preemptor needs too are not wasted": """
        victims; schedule high cpu=2; schedule top; finish; wait 15; drain
        placed top=n1; wasted""",
    "capacity freed by a partly failed plan is used by the next one": f"""
        {HALF_FAILED} hold; finish; wait 15; drain; finish; wait 15; drain
        placed high=n1; wasted""",
    "unused capacity freed by a partly failed plan is wasted": f"""
        {HALF_FAILED} node n2 cpu=4; wait 15; drain; placed high=n2; wasted
        {LATER}; wasted plan_failed=1""",
    "a victim that was terminating already is not counted as wasted": f"""
        victims; change a terminating; schedule high
        delete high; finish; {LATER}; wasted preemptor_gone=1""",
    "after a crash what an earlier leader has asked for counts": f"""
        {PREEMPTED} finish; restart; node n1 cpu=3; node n2 cpu=4
        drain; {LATER}; placed high=n2; wasted room_lost=2""",
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_victims_are_wasted_or_not(story):
    play(story)
