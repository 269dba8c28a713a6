"""The next leader continues the plan of a preemption, or cancels it."""

import pytest

from scheduler.core.eviction.plan import EVICT_WITHIN
from tests.support.stories import play

#: The process ends while victims are evicted.
CRASHED = "victims; hold Evict; schedule high; restart; forget;"
STORIES = {
    **{
        f"the same plan goes on {when}": f"""
        victims; hold Evict; schedule high; {done} restart; forget
        drain; evicted {evicted}; asked; finish; wait 15; drain high=n1; wasted"""
        for when, done, evicted in (
            ("before any victim was evicted", "", "a b"),
            ("between the first and the second", "done a;", "b"),
            ("between the second and the first", "done b;", "a"),
            ("after all were evicted", "done a; done b;", ""),
        )
    },
    "a plan that goes on is reported unchanged": f"{CRASHED} drain; preempts high n1 a b",
    "the plan goes on though another one would be better now": """
        victims; hold Evict; schedule high cpu=2; restart; pod c@n1 cpu=1; node n1 cpu=5
        node n2 cpu=2; pod d@n2 cpu=2; forget; drain; evicted b; nominated high=n1""",
    "a plan that is not enough any more is cancelled": """
        victims; hold Evict; schedule high; pod more@n1 cpu=1 priority=200; restart; forget
        drain; evicted; nominee high=; has-plan high=no; nominated""",
    "a plan goes on however long the fail-over took": f"""
        victims; hold Evict; schedule high; later {10 * EVICT_WITHIN}; restart; forget
        drain; asked; evicted a b""",
    "a preemptor that fits now evicts no pod": f"""
        {CRASHED} node n2 cpu=4; drain high=n2; evicted; wasted""",
    "a plan that the nomination does not belong to is ignored": """
        victims; hold Evict; schedule high; change high nominated=n2; restart; forget
        drain; asked Nominate""",
    "a plan is not resumed when a more important preemptor has ended it": """
        victims; hold Nominate Evict ClearNomination
        schedule first cpu=2 priority=200; schedule high cpu=2; done; done; nominee high=n1
        restart; forget; drain; effects ClearNomination Evict Nominate Evict
        cleared high; evicted b a; nominated first=n1 high=n1""",
    "a plan whose node is deleted is cancelled": """
        victims; hold Evict; schedule high; done; lose n1; restart; node n2 cpu=1; forget
        drain; evicted""",
    "a standby does not take a plan up twice": f"""
        {CRASHED} drain; forget; change high label=x,y; wait 15; drain; evicted""",
    **{
        f"a plan that goes on waits for nominations that are not written: {back} s": f"""
        victims; hold Evict; schedule high cpu=2; restart; hold Nominate; forget
        pod first cpu=2 priority=200; step; later -{back}; drain; evicted; done; evicted b"""
        for back in (0.0, 0.0003, 5.0)
    },
}  # fmt: skip


def asked(cluster, *kinds):
    """Check which nominations and deletions of nominations were asked for."""
    found = [type(each).__name__ for each in cluster.effects]
    assert [each for each in found if "Nominat" in each] == list(kinds)


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_after_a_crash(story):
    play(story, asked=asked, lose=lambda cluster, name: cluster.nodes.pop(name))
