"""Each recipe of docs/policy-recipes.md: what it refuses, and what it does not."""

from typing import Final

import pytest

from scheduler.config import policies
from scheduler.model.decisions import Preempting, Unschedulable
from scheduler.model.policies import PolicyMode
from tests.support.builders import namespace, node, pdb
from tests.support.cluster import Cluster
from tests.support.recipes import RECIPES
from tests.support.stories import made, play

#: `fill 2 CALLS` adds nodes that a pod of priority 0 fills; `evicts 2 NAME CALLS` and `refuses NAME
#: CALLS` create pods of priority 100 that need a whole node, one after the other.
STORIES: Final = {
    "Team A evicts at most 10 pods an hour": """
        fill 12; evicts 10 a namespace=a1; refuses a11 namespace=a2; evicts 1 b namespace=b1""",
    "One pod costs at most 3 others": """
        node n1 cpu=4; pod w@n1 cpu=1; pod x@n1 cpu=1; pod y@n1 cpu=1; pod z@n1 cpu=1
        refuses big; evicts 1 smaller cpu=3""",
    "Team A never evicts pods of team C": """
        fill 2 namespace=c1; refuses a namespace=a1; evicts 1 b namespace=b1
        fill 1 namespace=b1; evicts 1 a2 namespace=a1""",
    "Only production evicts pods": """
        fill 1; refuses b namespace=b1; evicts 1 shop namespace=shop""",
    "Evict only pods of one's own namespace": """
        fill 1 namespace=b1; refuses a namespace=a1; fill 1 namespace=a2; evicts 1 own namespace=a2
        evicts 1 own-b namespace=b1""",
    "Never evict pods of this namespace": """
        fill 1 namespace=shop; refuses a; refuses own namespace=shop; fill 1; evicts 1 b""",
    "Never evict pods of priority 1000 or more": """
        fill 1 priority=1000; refuses a priority=2000
        fill 1 priority=999; evicts 1 b priority=2000""",
    "Never evict pods of other schedulers": """
        fill 1 scheduler=default-scheduler; refuses a; fill 1; evicts 1 b""",
    "Never evict what has run for less than 10 minutes": """
        fill 1 started=401; refuses a; fill 1 started=400; evicts 1 b""",
    "A workload loses at most 2 pods an hour": """
        fill 3 owner=Job,web; evicts 2 a; refuses b; fill 1 owner=Job,other; evicts 1 c""",
    "A node loses at most 1 pod an hour": """
        node n1 cpu=4; pod x@n1 cpu=2; pod y@n1 cpu=2; evicts 1 a cpu=2; refuses b cpu=2
        fill 1; evicts 1 c""",
    "Never violate a disruption budget": """
        fill 1 label=app,guarded; refuses a; fill 1; evicts 1 b""",
    "Only the most urgent pods violate disruption budgets": """
        fill 1 label=app,guarded; refuses a priority=999; evicts 1 b priority=1000""",
    "Give an autoscaler 2 minutes before a pod is evicted": """
        fill 1; refuses a; wait 121; step; preempts a full-1 low-1""",
    "A workload preempts at most twice a day": """
        fill 4; evicts 2 a owner=Job,a; refuses b owner=Job,a; evicts 1 c owner=Job,c""",
    "Try a limit without enforcing it": """
        fill 1; evicts 1 a; audited""",
    "Stop all preemption now": """
        fill 1; refuses a""",
}


def fill(cluster: Cluster, count: str, *calls: str) -> None:
    for _ in range(int(count)):
        number = len(cluster.nodes) + 1
        where = f"full-{number}"
        cluster.add(node(where).cpu("4"), made(f"low-{number}@{where}", "cpu=4", *calls))


def evicts(cluster: Cluster, count: str, name: str, *calls: str) -> None:
    for number in range(int(count)):
        wanted = made(f"{name}-{number}", "cpu=4", "priority=100", *calls)
        decision = cluster.schedule(wanted)
        assert isinstance(decision, Preempting), decision


def refuses(cluster: Cluster, name: str, *calls: str) -> None:
    decision = cluster.schedule(made(name, "cpu=4", "priority=100", *calls))
    assert isinstance(decision, Unschedulable), decision
    (policy,) = cluster.machine.cluster.policies
    assert f'PreemptionPolicy "{policy.name}" ' in decision.message


def audited(cluster: Cluster) -> None:
    (veto,) = cluster.attempts[-1].vetoes
    assert veto.mode is PolicyMode.AUDIT


@pytest.mark.parametrize("sentence", RECIPES)
def test_a_recipe_holds(sentence):
    cluster = Cluster(
        namespace("a1", team="a"),
        namespace("a2", team="a"),
        namespace("c1", team="c"),
        namespace("shop", env="production", **{"kubernetes.io/metadata.name": "shop"}),
        pdb("guarded").selects(app="guarded").allows(0),
        policies.read(RECIPES[sentence]),
    )

    steps = (fill, evicts, refuses, audited)
    play(STORIES[sentence], cluster, **{step.__name__: step for step in steps})


def test_each_story_is_of_a_recipe():
    assert [*STORIES] == [*RECIPES]
