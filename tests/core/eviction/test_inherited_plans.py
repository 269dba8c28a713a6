"""A new leader checks the plan that it finds on a preemptor as if a stranger had written it."""

import pytest

from scheduler.model.effects import Nominate
from scheduler.model.extender_answers import Filtered
from scheduler.model.policies import Budget, PreemptionPolicy
from scheduler.state.preemption.ledger import UNCERTAIN_FOR
from tests.support.cluster import Cluster
from tests.support.stories import play

SYSTEM = "namespace=kube-system priority=2000001000"
MINE = "pod mine cpu=2 priority=10 nominated=n1"
LOW = "pod low@n1 cpu=4 priority=1"
STORIES = {
    **{
        f"no pod of higher priority is evicted that a plan {what}": f"""
        node n1 cpu=4; pod etcd@n1 cpu=2 {SYSTEM}; pod dns@n1 cpu=2 {SYSTEM}
        {MINE} {what}=kube-system/etcd,kube-system/dns; restart; drain; evicted"""
        for what in ("plan", "waits")
    },
    "no pod of equal priority is evicted": f"""
        node n1 cpu=4; pod a@n1 cpu=2 priority=10; pod b@n1 cpu=2 priority=10
        {MINE} plan=a,b; restart; drain; evicted""",
    "a pod of higher priority is left out and the plan is not enough": f"""
        node n1 cpu=4; pod etcd@n1 cpu=2 {SYSTEM}; pod low@n1 cpu=1 priority=1
        pod dns@n1 cpu=1 {SYSTEM}; {MINE} plan=kube-system/etcd,low; restart; drain; evicted""",
    "a pod that must not preempt evicts no pod": f"""
        node n1 cpu=4; {LOW}; {MINE} plan=low never_preempts; restart; drain; evicted""",
    "a plan for another node than the nomination is ignored": f"""
        node n1 cpu=4; node n2 cpu=2; {LOW}; pod cheaper@n2 cpu=2
        {MINE} plan=low nominated=n2; restart; drain; evicted cheaper""",
    "a policy applies if the ledger has not counted the victims for it": f"""
        node n1 cpu=4; {LOW}; {MINE} plan=low; restart; budget 0; drain; evicted""",
    "a victim that was only waited for is not evicted after a crash": """
        node n1 cpu=4; node n2 cpu=8; pod v@n1 cpu=4 priority=5; pod w@n2 cpu=8 priority=50
        hold Evict; schedule x cpu=4 priority=10; preempts x n1 v; delete w
        change x on=n2 nominated=; pod w2@n2 cpu=4 priority=50; schedule b cpu=4 priority=3
        restart; forget; drain; evicted""",
    # The earlier leader may have sent its request: what is known of the victim may be older.
    "victims that an earlier leader counted count until they are seen to run on": f"""
        node n1 cpu=4; {LOW}; budget 1; hold Evict; schedule high; restart; budget 1; node n2 cpu=4
        drain high=n2; forget; schedule next cpu=4 priority=10; evicted
        wait {UNCERTAIN_FOR}; change low label=seen,later; drain; evicted low""",
}  # fmt: skip


def budget(cluster: Cluster, victims: str) -> None:
    budgets = (Budget(int(victims), 3600.0),)
    cluster.add(PreemptionPolicy("few", generation=1, budgets=budgets))


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_plan_of_an_earlier_leader(story):
    play(story, budget=budget)


def test_a_profile_without_preemption_evicts_no_pod():
    config = "profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}]\n"

    play(f"node n1 cpu=4; {LOW}; {MINE} plan=low; restart; drain; evicted", Cluster(config=config))


def test_a_plan_that_an_error_kept_from_being_checked_is_checked_later():
    cluster = Cluster(config="extenders: [{urlPrefix: http://e, filterVerb: filter}]\n")
    # No extender answers: the attempt fails.
    play(f"node n1 cpu=4; node n2 cpu=2; {LOW}; {MINE} plan=low; restart; drain; evicted", cluster)

    cluster.extender = lambda question: Filtered((), dict.fromkeys(question.nodes, "no"), {})
    play("wait 15; drain; evicted low", cluster)

    assert cluster.asked(Nominate) == []
