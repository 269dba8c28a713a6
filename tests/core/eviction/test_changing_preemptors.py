"""A pod that changes while its victims terminate is evaluated in its new state and class."""

import pytest

from tests.support.stories import play

APP = "cpu=4 priority=10 label=app,a"
TWO = "pod low1@n1 cpu=2 priority=1; pod low2@n1 cpu=2 priority=1;"
#: A preemptor waits for two victims; an important pod wants no pod of the app b beside it.
WAITING = f"""
    node n1 cpu=4 label=host,n1; guard; {TWO} schedule p {APP};"""
END_VICTIMS = "delete low1; wait 30; drain; delete low2; wait 30; drain;"
STORIES = {
    **{
        f"one that does not fit any more is not placed: {change}": f"""
        {WAITING} change p {change}; {END_VICTIMS} placed p=
        schedule twin {twin} priority=9; is unschedulable twin"""
        for change, twin in (("cpu=6", "cpu=6"), ("label=app,b", "cpu=1 label=app,b"))
    },
    "one that tolerates another node now is placed there": f"""
        {WAITING} change p tolerates=t; delete low1; node n2 cpu=4 taint=t; wait 30; drain
        placed p=n2; delete p; schedule other {APP} tolerates=t; placed other=n2""",
    "one that changes before its victims are evicted is evaluated again": f"""
        node n1 cpu=4; {TWO} hold Nominate; schedule p {APP}; change p cpu=6
        done; drain; evicted""",
    **{
        f"what it reserves follows it: {change}, {step}": f"""
        node n1 cpu=4; pod low@n1 cpu=4 priority=1; hold {step}; schedule p {APP} cpu=2
        change p {change}; reserves p n1"""
        for step in ("Nominate", "Evict")
        for change in ("cpu=4", "cpu=1", "label=app,b")
    },
    "a pod fits beside one that shrinks while its plan is carried out": """
        node n1 cpu=10; pod low1@n1 cpu=4 priority=1; pod low2@n1 cpu=4 priority=1
        hold Evict; schedule p cpu=7 priority=10; delete low1; schedule next cpu=5 priority=1
        is unschedulable next; change p cpu=1; wait 3; drain; placed next=n1""",
}  # fmt: skip


def guard(cluster):
    play("pod guard@n1 cpu=0 priority=100", cluster)
    cluster.change("guard", lambda own: own.apart("host", app="b"))


def reserves(cluster, name, where):
    (nomination,) = cluster.machine.cluster.nominations
    own = cluster.pod(name)
    assert nomination.node == where
    assert nomination.pod.spec == own.spec
    assert nomination.pod.metadata.labels == own.metadata.labels


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_preemptor_changes(story):
    play(story, guard=guard, reserves=reserves)
