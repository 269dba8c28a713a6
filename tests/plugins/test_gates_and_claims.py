"""The small plugins: gates, device claims, and those that are names only."""

import pytest

from scheduler.framework.cluster_events import Action, Resource
from scheduler.framework.plugin import PostFilterMessage
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import PodResourceClaim
from scheduler.plugins.default_binder import DefaultBinder
from scheduler.plugins.default_preemption import DefaultPreemption
from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources
from scheduler.plugins.node_name import NodeName
from scheduler.plugins.priority_sort import PrioritySort
from scheduler.plugins.scheduling_gates import SchedulingGates
from tests.support.builders import node, pod
from tests.support.plugin_checks import hint, rejected_as_a_whole, state_of

GATES = SchedulingGates()
CLAIMING = pod("p").spec(resource_claims=[PodResourceClaim("device", "c")])


def test_a_pod_with_gates_waits_for_all_of_them():
    assert (
        GATES.pre_enqueue(pod("p").gated("a", "b").build(), state_of())
        == "waiting for scheduling gates: [a b]"
    )
    assert GATES.pre_enqueue(pod("p").build(), state_of()) is None


def test_the_hint_of_a_gated_pod_queues_for_its_own_change():
    event = (Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)

    assert hint(GATES, event, pod("p"), pod("p").gated("a"), pod("p"))
    assert not hint(GATES, event, pod("q"), pod("p").gated("a"), pod("p"))


def test_a_pod_whose_claim_does_not_exist_is_never_placed():
    verdict = rejected_as_a_whole(DynamicResources(), CLAIMING, state_of(node("n1")))

    assert verdict == Verdict(
        "DynamicResources", ('could not find ResourceClaim "default/c"',), resolvable=False
    )


def test_a_pod_without_claims_is_not_looked_at():
    assert DynamicResources().compile_filter(pod("p").build(), state_of(), Verdicts()) is None


@pytest.mark.parametrize(
    ("rejected_by", "want"),
    [
        (None, PostFilterMessage("no new claims to deallocate")),
        ("DynamicResources", PostFilterMessage("no new claims to deallocate")),
        ("NodeAffinity", PostFilterMessage("not found", ends=True)),
    ],
    ids=["by a filter", "by itself", "by another one as a whole"],
)
def test_the_message_depends_on_the_plugins_that_rejected_the_pod(rejected_by, want):
    said = DynamicResources().post_filter(pod("p").build(), prefilter_rejected_by=rejected_by)

    assert said == want


def test_the_hint_for_a_claim_queues_for_nodes():
    plugin = DynamicResources()

    assert hint(plugin, (Resource.NODE, Action.ADD), CLAIMING, None, node("n"))
    assert hint(plugin, (Resource.NODE, Action.UPDATE_NODE_LABEL), CLAIMING, node("n"), node("n"))
    assert not hint(plugin, (Resource.NODE, Action.DELETE), CLAIMING, node("n"), None)


# Names only


def test_a_pod_that_waits_has_no_node_name_to_check():
    assert NodeName().compile_filter(pod("p").build(), state_of(), Verdicts()) is None
    assert hint(NodeName(), (Resource.NODE, Action.ADD), pod("p"), None, node("n"))


@pytest.mark.parametrize("plugin", [DefaultBinder(), DefaultPreemption(), PrioritySort()])
def test_a_plugin_that_is_only_a_name_waits_for_nothing(plugin):
    assert plugin.events_to_register() == ()
