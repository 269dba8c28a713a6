"""NodeUnschedulable: cordoned nodes."""

import pytest

from scheduler.framework.cluster_events import Action, Resource
from scheduler.framework.verdicts import Verdict
from scheduler.plugins.node_unschedulable import NodeUnschedulable
from tests.support.builders import node, pod
from tests.support.plugin_checks import hint, rejections, state_of, verdicts_of

CORDON = "node.kubernetes.io/unschedulable"
REASON = "node(s) were unschedulable"
PLUGIN = NodeUnschedulable()
NODES = state_of(node("n1"), node("n2").cordoned(), node("n3").taint(CORDON))


def test_a_cordoned_node_accepts_no_pod_and_preemption_does_not_help():
    assert verdicts_of(PLUGIN, pod("p"), NODES) == {
        "n1": None,
        "n2": Verdict("NodeUnschedulable", (REASON,), resolvable=False),
        "n3": None,
    }


TOLERATIONS = {
    "the cordon": (pod("p").tolerates(CORDON, operator="Exists"), True),
    "the cordon, with its effect": (
        pod("p").tolerates(CORDON, operator="Exists", effect="NoSchedule"),
        True,
    ),
    "the cordon by its empty value": (pod("p").tolerates(CORDON), True),
    "everything": (pod("p").tolerates(operator="Exists"), True),
    "the cordon, for eviction only": (
        pod("p").tolerates(CORDON, operator="Exists", effect="NoExecute"),
        False,
    ),
    "the cordon with a value": (pod("p").tolerates(CORDON, "x"), False),
    "something else": (pod("p").tolerates("x", operator="Exists"), False),
}


@pytest.mark.parametrize(("wanted", "fits"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_a_pod_may_tolerate(wanted, fits):
    assert rejections(PLUGIN, wanted, NODES) == ({} if fits else {"n2": REASON})


NODE_ADD = (Resource.NODE, Action.ADD)
TAINTS = (Resource.NODE, Action.UPDATE_NODE_TAINT)
OWN = (Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_TOLERATION)


def test_the_hint_queues_for_nodes_that_are_schedulable_now():
    p = pod("p")
    assert hint(PLUGIN, NODE_ADD, p, None, node("n"))
    assert not hint(PLUGIN, NODE_ADD, p, None, node("n").cordoned())
    assert hint(PLUGIN, TAINTS, p, node("n").cordoned(), node("n"))
    assert not hint(PLUGIN, TAINTS, p, node("n"), node("n"))
    assert not hint(PLUGIN, TAINTS, p, node("n").cordoned(), node("n").cordoned())


def test_the_hint_queues_for_a_new_toleration_of_the_pod():
    tolerating = pod("p").tolerates(CORDON, operator="Exists")

    assert hint(PLUGIN, OWN, pod("p"), pod("p"), tolerating)
    assert not hint(PLUGIN, OWN, pod("p"), pod("p"), pod("p").tolerates("x"))
    assert not hint(PLUGIN, OWN, pod("q"), pod("p"), tolerating)
