"""API objects as they are decoded, and the references that effects carry."""

import msgspec

from scheduler.model.api.objects import Node, Pod, PodDisruptionBudget
from scheduler.model.decisions import NodeTrace
from scheduler.model.effects import PodRef
from tests.support.builders import pod

LINE = b"""{
  "kind": "Pod", "apiVersion": "v1",
  "metadata": {"name": "p", "namespace": "team", "uid": "1", "unknown": {"deep": [1]},
               "deletionTimestamp": "2026-01-01T00:00:00Z"},
  "spec": {"nodeName": "n1", "schedulerName": "x",
           "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
             {"nodeSelectorTerms": [{"matchFields": [
               {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}},
           "containers": [{"name": "c", "resources": {"requests": {"cpu": 1}},
                           "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}]},
  "status": {"phase": "Failed", "nominatedNodeName": "n2",
             "conditions": [{"type": "Ready", "status": "False"}]}
}"""


def test_a_pod_is_decoded_with_the_fields_that_rules_read():
    found = msgspec.json.decode(LINE, type=Pod)

    affinity = found.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    assert affinity.node_affinity.required is not None
    assert found.spec.containers[0].ports[0].host_ip == "10.0.0.1"
    assert found.spec.containers[0].resources.requests == {"cpu": 1}
    assert found.status.nominated_node_name == "n2"


def test_a_decoded_pod_has_its_key_uid_and_state():
    found = msgspec.json.decode(LINE, type=Pod)

    assert (found.key, found.uid, found.terminating, found.terminal) == ("team/p", "1", True, True)


def test_a_pod_is_preempted_while_its_condition_says_so():
    reason = "PreemptionByScheduler"

    assert pod("x").preempted().condition("Ready", "True").build().preempted
    assert pod("x").condition("DisruptionTarget", "True", reason).build().preempted
    assert not pod("x").condition("DisruptionTarget", "False", reason).build().preempted
    assert (
        not pod("x")
        .condition("DisruptionTarget", "True", "DeletionByTaintManager")
        .build()
        .preempted
    )
    assert not pod("x").terminating().build().preempted


def test_a_pod_without_a_priority_has_priority_0():
    assert pod("p").build().priority == 0
    assert pod("p").priority(-7).build().priority == -7


def test_a_condition_is_found_by_its_type():
    built = pod("p").condition("Ready", "True").build()

    found = built.condition("Ready")
    assert found is not None
    assert found.status == "True"
    assert built.condition("PodScheduled") is None


def test_absent_parts_are_empty():
    assert msgspec.json.decode(b"{}", type=Pod) == Pod()
    assert msgspec.json.decode(b"{}", type=Node) == Node()
    assert msgspec.json.decode(b"{}", type=PodDisruptionBudget).spec.selector is None


def test_an_empty_selector_is_not_an_absent_one():
    found = msgspec.json.decode(b'{"spec": {"selector": {}}}', type=PodDisruptionBudget)

    assert found.spec.selector is not None


def test_references_are_equal_when_they_mean_the_same_pod():
    assert PodRef("a", "p", "1") == PodRef("b", "q", "1")
    assert PodRef("a", "p", "1") != PodRef("a", "p", "2")
    assert str(PodRef("a", "p", "1")) == "a/p"


def test_the_total_of_a_node_is_the_sum_of_its_scores():
    assert NodeTrace("n1", None, {"A": 100, "B": 7}).total == 107
