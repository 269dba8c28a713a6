"""NodePorts: two pods cannot have the same port of a node."""

import pytest

from scheduler.framework.cluster_events import Action, Resource
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.plugins.node_ports import NodePorts
from tests.support.builders import node, pod
from tests.support.plugin_checks import hint, rejections, state_of, verdicts_of

PLUGIN = NodePorts()
REASON = "node(s) didn't have free ports for the requested pod ports"


def test_a_pod_without_host_ports_is_never_looked_at():
    assert PLUGIN.compile_filter(pod("p").build(), state_of(node("n1")), Verdicts()) is None


def test_a_taken_port_rejects_and_preemption_may_help():
    state = state_of(node("n1"), node("n2"), pod("q").on("n1").port(80))

    assert verdicts_of(PLUGIN, pod("p").port(80), state) == {
        "n1": Verdict("NodePorts", (REASON,), resolvable=True),
        "n2": None,
    }


WANTED = {
    "another number": (pod("p").port(81), True),
    "another protocol": (pod("p").port(80, "UDP"), True),
    "another address": (pod("p").port(80, address="10.0.0.2"), True),
    "the same address": (pod("p").port(80, address="10.0.0.1"), False),
    "every address": (pod("p").port(80, address="0.0.0.0"), False),
    "no address, which means every": (pod("p").port(80), False),
    "one free and one taken": (pod("p").port(81).port(80), False),
    "the same port twice itself": (pod("p").port(81).port(81), True),
}


@pytest.mark.parametrize(("wanted", "fits"), WANTED.values(), ids=WANTED)
def test_a_port_of_one_address_is_taken_for(wanted, fits):
    state = state_of(node("n1"), pod("q").on("n1").port(80, address="10.0.0.1"))

    assert rejections(PLUGIN, wanted, state) == ({} if fits else {"n1": REASON})


GONE = (Resource.ASSIGNED_POD, Action.DELETE)
HOLDER = pod("q").port(80)


def test_the_hint_queues_for_the_end_of_a_pod_with_the_port():
    p = pod("p").port(80)
    assert hint(PLUGIN, GONE, p, HOLDER.on("n1"), None)
    assert hint(PLUGIN, GONE, p, HOLDER.nominated("n1"), None)
    assert not hint(PLUGIN, GONE, p, HOLDER, None)
    assert not hint(PLUGIN, GONE, p, pod("q").port(81).on("n1"), None)


def test_the_hint_queues_for_every_new_node():
    assert hint(PLUGIN, (Resource.NODE, Action.ADD), pod("p").port(80), None, node("n"))
