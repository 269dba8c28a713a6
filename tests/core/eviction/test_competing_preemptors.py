"""Preemptors that compete for a node, and preemptors, pods and nodes that change meanwhile."""

import pytest

from scheduler.model.decisions import Preempting
from scheduler.model.policies import Budget, BudgetScope, PreemptionPolicy
from tests.support.cluster import Cluster
from tests.support.stories import play

#: Preemptions on a node with two victims; no nomination has an answer yet.
PLANNED = "node n1 cpu=2; pod a@n1 cpu=1; pod b@n1 cpu=1; hold Nominate;"
STORIES = {
    # Two preemptors
    "the second preemptor chooses another node than the first": """
        node n1 cpu=2; node n2 cpu=2; pod cheap@n1 cpu=2 priority=1; pod dear@n2 cpu=2 priority=2
        schedule first cpu=2 priority=100; preempts first n1 cheap
        schedule second cpu=2 priority=100; preempts second n2 dear
        nominated first=n1 second=n2""",
    "a preemptor clears the nomination of a lower one on its node": """
        victims; schedule high cpu=2; nominated high=n1; forget
        schedule top; nominated top=n1; cleared high; nominee high=; is backoff high""",
    "it does also where a terminating pod spares its victim": """
        node n1 cpu=4; pod leaving@n1 cpu=2 priority=5 preempted; pod stays@n1 cpu=2
        schedule low cpu=2 priority=10 nominated=n1; forget
        schedule high cpu=2; preempts high n1 stays; evicted; nominated high=n1; cleared low""",
    "a preemptor keeps the nomination of an equal one on its node": """
        node n1 cpu=4; pod a@n1 cpu=2; pod b@n1 cpu=2
        schedule one cpu=2 priority=100; schedule two cpu=2 priority=100
        nominated one=n1 two=n1; cleared""",
    "no pod is evicted for two before both nominations are written": f"""
        {PLANNED} schedule one cpu=1 priority=100; schedule two cpu=1 priority=100
        done two; evicted; done one; evicted b a""",
    "where the other nomination is refused no pod is evicted for it": f"""
        {PLANNED} schedule one cpu=1 priority=100; schedule two cpu=1 priority=100
        done two; fail one; evicted b""",
    "a preemptor does not wait for later or less important ones": f"""
        {PLANNED} schedule low cpu=1 priority=50; schedule one cpu=1 priority=100
        schedule two cpu=1 priority=100; done one; evicted b""",
    "a preemptor keeps the nominations of other schedulers on its node": """
        victims; pod foreign scheduler=other priority=1 nominated=n1
        schedule high; nominated foreign=n1 high=n1""",
    "a preemptor whose nomination is cleared while it is written evicts no pod": """
        victims; hold Nominate; schedule high cpu=2; schedule top; done top; forget
        done high; evicted; cleared high; nominated top=n1; is active high""",
    "a preemptor whose nomination is cleared while it evicts is tried again": """
        victims; hold Evict; schedule high cpu=2; schedule top; nominated top=n1
        done; is active high; cleared high""",
    "the preemptor of higher priority gets the capacity in any order": """
        victims; schedule high; schedule top; finish; wait 5; drain; placed top=n1 high=""",
    # Things that change meanwhile
    "a deleted preemptor has no nomination and evicts no more pods": """
        victims; hold Nominate; schedule high; delete high; done; nominated; evicted""",
    "answers for a deleted preemptor are processed": """
        victims; hold Evict; schedule high; delete high; done; fail; preempting 0; nominated""",
    "a terminating preemptor has no nomination": """
        victims; schedule high; change high terminating; nominated; is gone high""",
    "a preemptor that another scheduler binds keeps no plan": """
        victims; hold Nominate; schedule high; change high on=n9; done; evicted; nominated""",
    "no pod is evicted when the node is deleted before the nomination is written": """
        victims; hold Nominate; schedule high; delete-node n1
        done; evicted; nominated; cleared high; is active high""",
    "a preemptor is tried again when its node is deleted during the evictions": """
        victims; hold Evict; schedule high; delete-node n1
        done; is preempting high; done; is active high; nominated""",
    "a preemptor loses its nomination when its node is deleted after the evictions": """
        victims; schedule high; delete-node n1; nominated; is backoff high; nominee high=""",
    "a preemptor does not wait when another node becomes free": """
        victims; schedule high; node n2 cpu=4; wait 3; drain high=n2; placed high=n2""",
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_preemptors_compete_and_clusters_change(story):
    play(story)


@pytest.mark.parametrize("explain", [True, False])
def test_a_pod_may_wait_for_a_victim_of_another_whose_eviction_a_budget_counts(explain):
    once = PreemptionPolicy("once", generation=1, budgets=(Budget(1, 600.0, BudgetScope.OWNER),))
    cluster = play(
        """node n1 cpu=4; pod low@n1 cpu=4 owner=Job,j; hold SaveLedger Evict
        schedule first cpu=2 priority=9; schedule second cpu=2 priority=9; is unschedulable second
        done; held Evict; pod third cpu=2 priority=9""",
        Cluster(once),
    )

    attempt = cluster.step(explain=explain)
    while attempt is not None and attempt.pod.name != "third":
        attempt = cluster.step(explain=explain)
    assert attempt is not None
    assert isinstance(attempt.decision, Preempting)
