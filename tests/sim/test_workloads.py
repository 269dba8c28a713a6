"""Which pods are made from workload objects, and what is said about it."""

from typing import Any

import pytest
import yaml

from scheduler.sim import workloads
from scheduler.sim.expanded import Expanded
from scheduler.sim.manifests import ManifestError, Manifests, collect
from scheduler.sim.workloads import MAX_PODS, TooManyPodsError
from tests.support.builders import OURS, node, pod

CREATED = "2026-01-01T00:00:00Z"
CONTAINER = {"name": "c", "resources": {"requests": {"cpu": "1"}}}


def template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER], **spec}}


def workload(kind: str, version: str = "apps/v1", name: str = "web", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def expanded(*documents: dict[str, Any], state: Manifests | None = None) -> Expanded:
    named = ((f"objects[{index}]", each) for index, each in enumerate(documents))
    return workloads.expand(named, state or Manifests(), CREATED)


def pods(found: Expanded) -> list[Any]:
    return collect(found.documents, Manifests()).pods


def owned(name: str, kind: str, owner: str):
    return pod(name).on("n1").owner(kind, owner).build()


BATCH = "batch/v1"


@pytest.mark.parametrize(
    ("document", "count", "owner"),
    [
        (workload("Deployment", template=template()), 1, "ReplicaSet"),
        (workload("Deployment", replicas=3, template=template()), 3, "ReplicaSet"),
        (workload("Deployment", replicas=0, template=template()), 0, ""),
        (workload("ReplicaSet", replicas=2, template=template()), 2, "ReplicaSet"),
        (
            workload("ReplicationController", "v1", replicas=2, template=template()), 2,
            "ReplicationController",
        ),
        (workload("StatefulSet", replicas=2, template=template()), 2, "StatefulSet"),
        (workload("Job", BATCH, template=template()), 1, "Job"),
        (workload("Job", BATCH, parallelism=3, template=template()), 3, "Job"),
        (workload("Job", BATCH, parallelism=3, completions=2, template=template()), 2, "Job"),
        (workload("Job", BATCH, suspend=True, template=template()), 0, ""),
        (workload("CronJob", BATCH, jobTemplate={"spec": {"template": template()}}), 1, "Job"),
        (workload("PodTemplate", "v1") | {"template": template()}, 1, ""),
    ],
)  # fmt: skip
def test_a_workload_has_the_pods_of_its_controller(document, count, owner):
    found = expanded(document)

    made = pods(found)
    assert len(made) == count
    assert len({each.metadata.name for each in made}) == count
    assert {ref.kind for each in made for ref in each.metadata.owner_references} == (
        {owner} if owner else set()
    )
    assert all(each.metadata.labels["app"] == "web" for each in made)
    assert set(found.sources.values()) == ({f"{document['kind']}/web"} if count else set())


def test_a_daemon_set_has_a_pod_on_each_node_that_it_may_use():
    nodes = [
        node("plain").build(),
        node("other").label("disk", "ssd").build(),
        node("tainted").label("disk", "ssd").taint("keep-off").build(),
        node("full").label("disk", "ssd").cordoned().taint(
            "node.kubernetes.io/unschedulable"
        ).build(),
    ]  # fmt: skip
    document = workload("DaemonSet", template=template(nodeSelector={"disk": "ssd"}))

    made = pods(expanded(document, state=Manifests(nodes=nodes)))

    terms = [
        each.spec.affinity.node_affinity.required.node_selector_terms[0].match_fields[0].values
        for each in made
    ]
    assert sorted(terms) == [["full"], ["other"]]


def test_pods_of_a_stateful_set_are_numbered_and_have_their_claims():
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}
    document = workload(
        "StatefulSet", replicas=2, ordinals={"start": 5}, template=template(),
        volumeClaimTemplates=[claim],
    )  # fmt: skip

    found = collect(expanded(document).documents, Manifests())

    assert [each.metadata.name for each in found.pods] == ["web-5", "web-6"]
    assert [each.metadata.name for each in found.storage] == ["data-web-5", "data-web-6"]
    assert found.pods[0].spec.volumes[0].persistent_volume_claim.claim_name == "data-web-5"


def test_only_replicas_that_are_missing_are_made():
    state = Manifests(pods=[owned("web-1", "ReplicaSet", "web"), owned("x", "ReplicaSet", "other")])

    found = expanded(workload("ReplicaSet", replicas=3, template=template()), state=state)

    assert len(pods(found)) == 2
    assert found.warnings == [
        "ReplicaSet default/web has 1 of 3 pods already; they are kept as they are, also where the"
        " template has changed"
    ]


def test_the_pods_of_a_deployment_are_those_of_its_replica_sets():
    of_set = pod("web-abc-1").on("n1").owner("ReplicaSet", "web-abc")
    state = Manifests(
        pods=[
            of_set.label("pod-template-hash", "abc").build(),
            owned("other-abc-1", "ReplicaSet", "other-abc"),
        ]
    )

    made = pods(expanded(workload("Deployment", replicas=2, template=template()), state=state))

    assert len(made) == 1
    assert made[0].metadata.name.startswith("web-abc-")
    assert made[0].metadata.labels["pod-template-hash"] == "abc"


def test_finished_pods_do_not_count_as_replicas():
    done = pod("done").on("n1").owner("Job", "web").finished().build()
    going = pod("going").on("n1").owner("Job", "web").terminating().build()
    document = workload("Job", "batch/v1", parallelism=1, template=template())

    assert len(pods(expanded(document, state=Manifests(pods=[done, going])))) == 1


def test_a_finished_job_has_no_pods():
    document = workload("Job", "batch/v1", template=template())
    document["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}

    assert pods(expanded(document)) == []


def test_an_owned_replica_set_and_one_without_a_template_make_no_pods():
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "controller": True}
    of_deployment = workload("ReplicaSet", template=template())
    of_deployment["metadata"]["ownerReferences"] = [owner]

    assert pods(expanded(of_deployment, workload("ReplicaSet", name="bare"))) == []


def test_each_claim_template_becomes_a_claim_with_defaults():
    requests = yaml.safe_load("""
        - {name: one, exactly: {deviceClassName: gpu}}
        - {name: any, firstAvailable: [{name: a, deviceClassName: x}]}
        - {name: all, exactly: {deviceClassName: gpu, allocationMode: All}}""")
    spec = {"devices": {"requests": requests}}
    claims = workload("ResourceClaimTemplate", "resource.k8s.io/v1", "gpu", spec=spec)
    document = workload(
        "Job", "batch/v1",
        template=template(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "gpu"}]),
    )  # fmt: skip

    found = collect(expanded(claims, document).documents, Manifests())

    (claim,), (made,) = found.devices, found.pods
    one, any_, all_ = claim.spec.devices.requests
    assert (one.exactly.allocation_mode, one.exactly.count) == ("ExactCount", 1)
    assert any_.first_available[0].count == 1
    assert (all_.exactly.allocation_mode, all_.exactly.count) == ("All", 0)
    assert made.status.resource_claim_statuses[0].resource_claim_name == claim.metadata.name
    assert claim.metadata.owner_references[0].uid == made.uid


def test_ephemeral_volumes_have_their_claims():
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}

    found = expanded(workload("Job", "batch/v1", template=template(volumes=[volume])))

    objects = collect(found.documents, Manifests())
    (claim,), (made,) = objects.storage, objects.pods
    assert claim.metadata.name == f"{made.metadata.name}-v"
    assert "default class" in found.warnings[0]


@pytest.mark.parametrize(
    ("document", "warning"),
    [
        (
            workload("Rollout", "argoproj.io/v1alpha1", template=template()),
            "objects[0]: Rollout default/web is not simulated: its pods are not known",
        ),
        (
            workload("Job", "batch/v1", template=template(priorityClassName="gold")),
            "PriorityClass gold is not among the objects and no pod has it; it counts as 0",
        ),
        (
            workload(
                "Job", "batch/v1",
                template=template(
                    resourceClaims=[{"name": "g", "resourceClaimTemplateName": "gpu"}]
                ),
            ),
            "ResourceClaimTemplate default/gpu is not among the objects, so its claims are missing",
        ),
        (
            workload("Job", "batch/v1", template=template(runtimeClassName="kata")),
            "RuntimeClass kata is not known, so its overhead and its nodes do not count",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_simulated_is_said(document, warning):
    assert expanded(document).warnings == [warning]


def test_other_kinds_are_ignored_as_before():
    assert (
        expanded({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}).warnings
        == []
    )


@pytest.mark.parametrize(
    "document",
    [
        workload("Deployment", replicas=100_000, template=template()),
        workload("Job", "batch/v1", parallelism=2**31 - 1, template=template()),
        workload("StatefulSet", replicas=MAX_PODS + 1, template=template()),
    ],
)
def test_too_many_pods_are_refused_before_they_are_made(document):
    with pytest.raises(TooManyPodsError, match=r"pods or more; at most 10000 are planned"):
        expanded(document)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (workload("Deployment", replicas="many", template=template()), "Deployment: Expected `int"),
        (workload("Deployment", template=[]), "Deployment: Expected `object"),
        (workload("Deployment", template=template(containers="c")), "containers"),
        (workload("DaemonSet", template=template(tolerations=3)), "DaemonSet"),
        (workload("CronJob", "batch/v1", jobTemplate={"spec": 7}), "CronJob: spec.jobTemplate"),
        (workload("Job", "batch/v1", name="", template=template()), "metadata.name is missing"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": 3}, "Pod: "),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": 3}, "Pod: "),
        ({"kind": 3}, "not a Kubernetes object"),
    ],
)
def test_a_malformed_object_is_one_clear_line(document, problem):
    with pytest.raises(ManifestError) as refused:
        expanded(document)

    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_objects_that_an_api_server_has_returned_are_taken_as_they_are():
    given = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "namespace": "default", "uid": "x"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]},
    }

    (made,) = pods(expanded(given))

    assert made.spec.containers[0].resources.requests == {}
    assert made.spec.tolerations == []


# Defaults of the API server


def admitted(*others: dict[str, Any], state: Manifests | None = None, **spec: Any) -> Any:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "labels": {"app": "web"}},
        "spec": {"containers": [CONTAINER], **spec},
    }
    return pods(expanded(*others, document, state=state))[-1]


def priority_class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **fields,
    }


def test_priorities_come_from_classes_given_built_in_or_seen_on_pods():
    gold = priority_class("gold", 7, preemptionPolicy="Never")
    seen = pod("a").priority(9).spec(priority_class_name="silver").build()

    given = admitted(gold, priorityClassName="gold")

    assert (given.priority, given.spec.preemption_policy) == (7, "Never")
    assert admitted(priorityClassName="system-node-critical").priority == 2_000_001_000
    state = Manifests(pods=[seen])
    assert admitted(state=state, priorityClassName="silver").priority == 9
    assert admitted().priority == 0
    assert admitted(priority=4).priority == 4


def test_the_global_default_counts_for_pods_without_a_class():
    made = admitted(priority_class("usual", 3, globalDefault=True))

    assert (made.priority, made.spec.priority_class_name) == (3, "usual")


def test_limits_become_requests_that_are_missing():
    container = {
        "name": "c",
        "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}},
    }

    made = admitted(containers=[container], initContainers=[container])

    want = {"cpu": "1", "memory": "1Gi"}
    assert made.spec.containers[0].resources.requests == want
    assert made.spec.init_containers[0].resources.requests == want


def test_limits_of_the_pod_become_requests_that_no_container_has():
    made = admitted(resources={"limits": {"cpu": "2", "memory": "1Gi"}})

    assert made.spec.resources.requests == {"memory": "1Gi"}


def test_ports_are_ports_of_the_host_in_its_network():
    container = {"name": "c", "ports": [{"containerPort": 80}]}

    assert admitted(containers=[container]).spec.containers[0].ports[0].host_port == 0
    hosted = admitted(containers=[container], hostNetwork=True)
    assert hosted.spec.containers[0].ports[0].host_port == 80


def test_nodes_in_trouble_are_tolerated_for_a_while():
    keys = [each.key for each in admitted().spec.tolerations]
    tolerant = admitted(tolerations=[{"operator": "Exists"}])

    assert keys == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert len(tolerant.spec.tolerations) == 1


def test_label_keys_of_affinities_become_requirements():
    affinity = yaml.safe_load("""
        podAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - &term
            topologyKey: zone
            labelSelector: {matchLabels: {tier: a}}
            matchLabelKeys: [app, absent]
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 1
            podAffinityTerm: {<<: *term, matchLabelKeys: [], mismatchLabelKeys: [app]}""")

    made = admitted(affinity=affinity).spec.affinity

    (same,) = made.pod_affinity.required[0].label_selector.match_expressions
    (preferred,) = made.pod_anti_affinity.preferred
    (other,) = preferred.pod_affinity_term.label_selector.match_expressions
    assert (same.key, same.operator, same.values) == ("app", "In", ["web"])
    assert (other.key, other.operator, other.values) == ("app", "NotIn", ["web"])


def test_a_pod_of_ours_keeps_its_scheduler():
    assert admitted(schedulerName=OURS).spec.scheduler_name == OURS
    assert admitted().spec.scheduler_name == "default-scheduler"
