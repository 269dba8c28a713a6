"""The answer in one sentence; drains within disruption budgets; budgets that would be violated."""

import pytest

from scheduler.sim.hiding import hide
from scheduler.sim.manifests import ManifestError
from tests.sim.test_what_if import OWNED, REPLICA, asked, new, state
from tests.support.builders import OURS, node, pdb

GUARDED = f"{OWNED} label=app,web"
#: Two pods of one budget on two nodes, and a node where one of them finds room.
TWO = f"""node n1 cpu=1; node n2 cpu=1; node n3 cpu=1
    {REPLICA}-a@n1 {GUARDED}; {REPLICA}-b@n2 {GUARDED}"""


def web(allowed: int):
    return pdb("web").selects(app="web").allows(allowed)


@pytest.mark.parametrize(
    ("around", "objects", "fields", "impact", "verdict"),
    [
        pytest.param(
            ["node n1 cpu=1"], [new("x")], {}, "none",
            "Applying this would evict no pod.",
            id="nothing is lost",
        ),
        pytest.param(
            ["node n1 cpu=1"], [new("x"), new("y")], {}, "none",
            "Applying this would evict no pod; 1 of 2 pods would stay pending.",
            id="a pod finds no room",
        ),
        pytest.param(
            [f"node n1 cpu=2; {REPLICA}-a@n1 {OWNED}; {REPLICA}-b@n1 {OWNED}"],
            [new("x", "2", priority=9)], {}, "evictions",
            "Applying this would evict 2 pods (1 owner); 2 evicted pods would find no other node.",
            id="pods are evicted",
        ),
        pytest.param(
            [f"node n1 cpu=1; {REPLICA}-a@n1 {GUARDED}; node n2 cpu=1 taint=only", web(0)],
            [new("x", priority=9)], {"settle": False}, "budgets",
            "Applying this would evict 1 pod (1 owner) and violate 1 disruption budget:"
            " default/web.",
            id="a budget is violated",
        ),
        pytest.param(
            [f"node n1 cpu=1; node n2 cpu=1; {REPLICA}-a@n1 {GUARDED}; {REPLICA}-b@n2 {GUARDED}",
             web(1)],
            [new("x", priority=9), new("y", priority=9)], {}, "budgets",
            "Applying this would evict 2 pods (1 owner) and violate 1 disruption budget:"
            " default/web; 2 evicted pods would find no other node.",
            id="two preemptions violate a budget together",
        ),
        pytest.param(
            ["node n1 cpu=1"], [new("x"), new("y", schedulerName="other")], {}, "none",
            "Applying this would evict no pod; 1 pod is of another scheduler.",
            id="a pod is of another scheduler",
        ),
        pytest.param(
            [TWO, web(1)], [], {"drain": ("n1",)}, "evictions",
            "Draining n1 would evict 1 pod (1 owner).",
            id="a drain",
        ),
        pytest.param(
            [TWO, web(0)], [], {"drain": ("n1", "n2")}, "none",
            "Draining 2 nodes would evict no pod; the drain of n1 stops at default/web-1-a: budget"
            " default/web allows 0.",
            id="a drain that stops",
        ),
        pytest.param(
            [f"node n1 cpu=1; node n2 cpu=1; {REPLICA}-a@n1 {OWNED} priority=5; pod low@n2 cpu=1"],
            [], {"drain": ("n1",)}, "evictions",
            "Draining n1 would evict 1 pod, and 1 more for them (2 owners).",
            id="pods are evicted for drained ones",
        ),
    ],
)  # fmt: skip
def test_the_verdict_names_what_would_be_lost(around, objects, fields, impact, verdict):
    answer = asked(state(*around), *objects, **fields)

    assert (answer.verdict, answer.impact) == (verdict, impact)


def test_nodes_that_share_a_budget_are_drained_as_replacements_start():
    """One pod may go at a time: the other one when the first runs elsewhere."""
    nodes = {"drain": ("n1", "n2")}
    full = TWO.replace("node n3 cpu=1", "node n3 cpu=0")

    moved = asked(state(TWO, web(1)), **nodes)
    once = asked(state(TWO, web(1)), **nodes, settle=False)
    stuck = asked(state(full, web(1)), **nodes)

    assert (moved.blockers, len(moved.displaced)) == ((), 2)
    assert [each.node for each in once.blockers] == ["n2"]
    assert [each.node for each in stuck.blockers] == ["n2"]
    assert [(each.pod.name, each.cause) for each in stuck.displaced] == [("web-1-a", "drain")]


@pytest.mark.parametrize(
    ("pods", "budgets", "blocks"),
    [
        pytest.param("pod a@n1 label=app,web finished=Pending", [web(0)], False, id="not started"),
        pytest.param("pod a@n1 label=app,web", [web(0).healthy(2, desired=2)], False,
                     id="not ready"),
        pytest.param("pod a@n1 label=app,web", [web(5), pdb("all").selects().allows(5)], True,
                     id="two budgets"),
        pytest.param("pod a@n1 label=app,web owner=DaemonSet,agent", [web(0)], False,
                     id="of a DaemonSet"),
    ],
)  # fmt: skip
def test_a_drain_asks_budgets_as_the_eviction_api_does(pods, budgets, blocks):
    answer = asked(state(f"node n1; {pods}", *budgets), drain=("n1",))

    assert bool(answer.blockers) is blocks


def test_budgets_and_blockers_of_hidden_namespaces_are_only_counted():
    here, there = "pod a@n1 cpu=1 label=app,web", "pod b@n1 cpu=1 label=app,web namespace=secret"
    budgets = [web(0), web(0).namespace("secret")]
    around = state(f"node n1 cpu=2; {here}; {there}", *budgets)

    def seen(answer):
        return hide(answer, lambda name: name == "default")

    broken = seen(asked(around, new("x", "2", priority=9)))
    drained = seen(asked(around, drain=("n1",)))

    assert broken.verdict == (
        "Applying this would evict 2 pods and violate 2 disruption budgets: default/web, and 1"
        " that you may not see."
    )
    assert [(each.pod.name, each.budgets) for each in drained.blockers] == [
        ("a", ("default/web",)),
        ("", ()),
    ]
    assert "secret" not in str((broken, drained))


def test_a_new_budget_is_in_the_plan_of_its_pods():
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
              "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}  # fmt: skip
    around = state("node n1 cpu=1; pod a@n1 cpu=1 label=app,web")

    answer = asked(around, budget, new("x", priority=9), scheduler_name=OURS)

    assert [(each.namespace, each.name) for each in answer.budgets] == [("default", "web")]
    assert any("is new, so it allows no disruption yet" in each for each in answer.warnings)


@pytest.mark.parametrize(
    ("labels", "drained"),
    [
        pytest.param(("zone=a",), ("n1", "n3"), id="those with a label"),
        pytest.param(("zone=a,!gpu",), ("n1",), id="but those with another"),
        pytest.param(("n3", "zone in (a)"), ("n3", "n1"), id="each once"),
    ],
)
def test_nodes_are_drained_by_their_labels(labels, drained):
    around = state(node("n1").label("zone", "a"), node("n2"),
                   node("n3").label("zone", "a").label("gpu", "x"))  # fmt: skip

    assert asked(around, drain=labels).drain == drained


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ("zone=b", "drain: no node has the labels zone=b"),
        ("zone=a,", "drain: not a label selector: zone=a,"),
    ],
)
def test_labels_that_select_no_node_are_refused(labels, problem):
    with pytest.raises(ManifestError) as error:
        asked(state(node("n1")), drain=(labels,))

    assert str(error.value) == problem
