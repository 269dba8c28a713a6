"""Plans for one node that wait for pods which another plan evicts."""

import pytest

from scheduler.core.eviction.transitions import TERMINATION_MARGIN
from tests.support.refusing import STRICT, Refusing
from tests.support.stories import play

#: The node is full. Only the eviction of `other` gives `higher` its port, and that of all pods of
#: low priority gives `lower` its capacity; when `other` is deleted, one of them may stay. Both
#: preemptors have a plan, and no nomination is answered.
BOTH_PLANNED = """
    node n1 cpu=7; pod guarded@n1 cpu=2 priority=0; pod second@n1 cpu=2 priority=1
    pod spare@n1 cpu=1 priority=1; pod other@n1 cpu=2 priority=5 port=80; hold Nominate Evict
    schedule lower cpu=5 priority=2; schedule higher cpu=1 priority=9 port=80;"""
STORIES = {
    "a pod of higher priority that only another plan evicts is waited for": f"""
        {BOTH_PLANNED} done lower; evicted guarded; done guarded; evicted guarded second""",
    "a plan is cancelled when the plan that it waits for has failed": f"""
        {BOTH_PLANNED} done lower; done guarded; done second; fail higher FORBIDDEN; delete higher
        wait {TERMINATION_MARGIN + 1}; drain; done lower; held Evict; done spare; held""",
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_plan_relies_on_another(story):
    play(story, Refusing(STRICT))
