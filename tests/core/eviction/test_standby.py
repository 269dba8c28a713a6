"""A standby writes nothing: outdated nominations are cleared when it leads."""

import pytest

from scheduler.model.effects import ClearNomination, Effect
from scheduler.model.events import EffectFailed, FailureKind
from tests.support.cluster import Cluster, failure
from tests.support.stories import play

#: A standby observes, decides nothing, and writes nothing.
STANDBY = "node n1 cpu=4; node n2 cpu=4; hold-all;"
#: Fills a node and cannot be evicted.
FULL = "pod full@n2 cpu=4 priority=1000;"
TAKE_OVER = "delete-node n1; lose-writes high; nominee high=n1; hold"
STORIES = {
    **{
        f"a nomination to a node deleted before the take-over is cleared, {what}": f"""
        {STANDBY} {FULL} pod high nominated=n1 {words}; {TAKE_OVER}; drain
        is unschedulable high; nominee high=; nominated"""
        for what, words in (
            ("a pod that may preempt", ""),
            ("a pod that may not preempt", "never_preempts"),
            ("a pod with a plan", "planned=nonsense"),
        )
    },
    "a pod that fits elsewhere after the take-over is bound": f"""
        {STANDBY} pod high nominated=n1; {TAKE_OVER}; drain high=n2; nominated""",
    "a pod that preempts elsewhere after the take-over is nominated there": f"""
        {STANDBY} pod full@n2 cpu=4 priority=1; pod high nominated=n1; {TAKE_OVER}
        drain; preempts high n2 full; nominee high=n2; nominated high=n2""",
    "a nomination whose capacity others have is cleared": f"""
        {STANDBY} {FULL} pod high nominated=n1; pod other@n1 cpu=4 priority=1000
        nominated high=n1; hold; drain; nominee high=; nominated""",
}  # fmt: skip


def lose_writes(cluster: Cluster, *names: str) -> None:
    """Let the writer refuse the deletion of these nominations: it does not lead."""
    lost = cluster.held.copy()
    cluster.held.clear()
    for each in lost:
        cluster.observe(EffectFailed(each, failure(FailureKind.ABANDONED)))
    assert lost == [ClearNomination(cluster.ref(name)) for name in names]


MORE = {"hold-all": lambda cluster: cluster.hold(Effect), "lose-writes": lose_writes}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_standby_takes_over(story):
    play(story, **MORE)


def test_each_nomination_is_cleared_by_an_attempt():
    names = [f"high-{number}" for number in range(5)]
    pods = ";".join(f"pod {name} cpu=4 priority=100 nominated=n1" for name in names)
    cluster = play(f"{STANDBY} {FULL} {pods}; delete-node n1", **MORE)
    lose_writes(cluster, *names)

    play("hold; drain; wait 600; drain", cluster)

    assert {each.pod.name for each in cluster.attempts} >= set(names)
    left = [each.status.nominated_node_name for each in cluster.pods.values()]
    assert set(left) == {""}
