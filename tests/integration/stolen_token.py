"""What a thief can try with the token of the scheduler, as requests that RBAC allows."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from scheduler.model.api.devices import EXTENDED_RESOURCE_CLAIM
from scheduler.model.plan_record import CONDITION
from tests.integration.objects import Json

US: Final = "preemptive-scheduler"
#: The other scheduler, whose profile is none of ours.
FOREIGN: Final = "default-scheduler"
#: More labels, annotations and finalizers than a loop of the policy could go through in a minute.
CROWD: Final = 30_000
#: One more than the policy looks through.
TOO_MANY: Final = 1001
#: The most consumers that a claim can have.
MAX_CONSUMERS: Final = 256
MERGE, STRATEGIC = "merge", "strategic"


class Request(NamedTuple):
    """A request; the paths have the places that `places` fills in."""

    verb: str
    path: str
    body: Mapping[str, Any]
    #: What the policy says, or how that begins; empty where it lets the request pass.
    says: str = ""


def patched(path: str, says: str = "", /, **body: Any) -> Request:
    return Request(MERGE, path, body, says)


def status(name: str, says: str = "", /, **fields: Any) -> Request:
    return patched(f"{{pods}}/{name}/status", says, status=fields)


def conditions(name: str, says: str, /, *found: Json) -> Request:
    return Request(STRATEGIC, f"{{pods}}/{name}/status", {"status": {"conditions": found}}, says)


def eviction(namespace: str, says: str = "", /, name: str = "any", **fields: Any) -> Request:
    body = {"metadata": {"name": name, "namespace": namespace}, **fields}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    return Request("create", path, {"apiVersion": "policy/v1", "kind": "Eviction", **body}, says)


def binding(name: str, says: str = "", /, **metadata: Any) -> Request:
    target = {"kind": "Node", "name": "any"}
    body = {"metadata": {"name": name, **metadata}, "target": target}
    return Request("create", f"{{pods}}/{name}/binding", body, says)


def event(name: str, controller: str, says: str = "") -> Request:
    body = {
        "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": controller,
        "reportingInstance": "a",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "{namespace}", "name": "p"},
    }
    return Request("create", "{events}", body, says)


def named(path: str, name: str, says: str = "") -> Request:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": US, "uid": "0"}
    metadata = {"name": name, "ownerReferences": [owner], "labels": {"app": US}}
    return Request("create", path, {"metadata": metadata}, says)


def disrupted(reason: str = "PreemptionByScheduler") -> Json:
    return {"type": "DisruptionTarget", "status": "True", "reason": reason}


def reserved(*names: str, group: str = "") -> list[Json]:
    return [
        {"apiGroup": group, "resource": "pods", "name": name, "uid": f"uid-{name}"}
        for name in names
    ]


ADDRESS: Final = "203.0.113.7"
SPEC: Final = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{US}/leases"
CONFIG_MAPS: Final = f"/api/v1/namespaces/{US}/configmaps"
ANNOTATED: Final = {"annotations": {EXTENDED_RESOURCE_CLAIM: "true"}}
GRACE: Final = "does not shorten the grace period of a pod"
DEPENDENTS: Final = "does not choose what becomes of the dependents of a pod"
HIGH: Final = "evicts no pods above priority 1000000000"
TAKES: Final = "does not take a volume from its claim"

#: Each by what the thief wants.
ATTACKS: Final[Mapping[str, Request]] = {
    "add a pod to a Service, or take it out of a NetworkPolicy": patched(
        "{pods}/runs/status",
        "does not set these labels: app",
        metadata={"labels": {"app": "dns"}},
    ),
    "remove a label": patched(
        "{pods}/runs/status", "does not set these labels: app", metadata={"labels": {"app": None}}
    ),
    "annotate a pod": patched(
        "{pods}/runs/status",
        "does not set these annotations: a",
        metadata={"annotations": {"a": "b"}},
    ),
    "have the API server look through more annotations than it can": patched(
        "{claims}/crowded",
        "does not set these annotations: of an object with too many",
        metadata={"annotations": {"volume.kubernetes.io/selected-node": "n"}},
    ),
    "have the API server look through more finalizers than it can": patched(
        "{devices}/crowded", "does not change finalizers", metadata={"finalizers": ["a.b/c"]}
    ),
    "keep a pod from being deleted": patched(
        "{pods}/runs/status", "does not change finalizers", metadata={"finalizers": ["a.b/c"]}
    ),
    "receive the traffic of a Service": status(
        "runs",
        "does not write these fields of the status: podIP",
        podIP=ADDRESS,
        podIPs=[{"ip": ADDRESS}],
    ),
    "move a pod to another host": status(
        "runs",
        "does not write these fields of the status: hostIP",
        hostIP=ADDRESS,
        hostIPs=[{"ip": ADDRESS}],
    ),
    "end a pod": status("runs", "does not write these fields of the status: phase", phase="Failed"),
    "forge what a container does": status(
        "runs",
        "does not write these fields of the status: containerStatuses",
        containerStatuses=None,
    ),
    "take a pod out of all Services": conditions(
        "runs", "writes its own conditions only", {"type": "Ready", "status": "False"}
    ),
    "remove the conditions of a pod": status(
        "runs", "writes its own conditions only", conditions=[]
    ),
    "forge that a pod is scheduled": conditions(
        "waits",
        "writes no other status than False to the condition PodScheduled",
        {"type": "PodScheduled", "status": "True"},
    ),
    "nominate a pod of another scheduler": status(
        "foreign",
        "nominates and reports pods that name one of its profiles only",
        nominatedNodeName="any",
    ),
    "forge the plan of a pod of another scheduler": conditions(
        "foreign",
        "nominates and reports pods that name one of its profiles only",
        {"type": CONDITION, "status": "True", "message": "x"},
    ),
    "have a Job ignore a failure": conditions(
        "runs",
        "writes the condition DisruptionTarget to victims of preemption only",
        disrupted("EvictionByEvictionAPI"),
    ),
    "mark a system pod as a victim": conditions("system", HIGH, disrupted()),
    "mark a static pod as a victim": conditions("static", "evicts no static pods", disrupted()),
    "delete a system pod": Request("delete", "{pods}/system", {}, HIGH),
    "delete a static pod": Request("delete", "{pods}/static", {}, "evicts no static pods"),
    "delete a replica of the scheduler": Request(
        "delete", f"/api/v1/namespaces/{US}/pods/own", {}, "does not evict its own pods"
    ),
    "delete a pod while it runs": Request(
        "delete", "{pods}/runs", {"gracePeriodSeconds": 0}, GRACE
    ),
    "delete a terminating pod while it runs": Request(
        "delete", "{pods}/ends", {"gracePeriodSeconds": 1}, GRACE
    ),
    "evict a pod while it runs": eviction(
        "{namespace}", GRACE, name="runs", deleteOptions={"gracePeriodSeconds": 0}
    ),
    "keep the claims of a pod when it is gone": Request(
        "delete", "{pods}/runs", {"propagationPolicy": "Orphan"}, DEPENDENTS
    ),
    "keep the claims of a pod when it is evicted": eviction(
        "{namespace}", DEPENDENTS, name="runs", deleteOptions={"orphanDependents": True}
    ),
    "evict a pod of the control plane": eviction(
        "kube-system", "evicts no pods of namespace kube-system through the Eviction API"
    ),
    "evict a replica of the scheduler": eviction(
        US, f"evicts no pods of namespace {US} through the Eviction API"
    ),
    "label a pod by its binding": binding(
        "waits", "does not set these labels: app", labels={"app": "dns"}
    ),
    "annotate a pod by its binding": binding(
        "waits", "does not set these annotations: a", annotations={"a": "b"}
    ),
    "read the volume of another tenant": patched(
        "{volumes}/taken", TAKES, spec={"claimRef": {"namespace": "mine", "name": "mine"}}
    ),
    "read the volume of another claim of that name": patched(
        "{volumes}/taken", TAKES, spec={"claimRef": {"uid": "uid-mine"}}
    ),
    "free the volume of a claim": patched("{volumes}/taken", TAKES, spec={"claimRef": None}),
    "have a volume freed by its controller": patched(
        "{volumes}/taken",
        "marks a volume only when it reserves it",
        metadata={"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
    ),
    "have a volume freed by its controller, with a change that says nothing": patched(
        "{volumes}/taken",
        "marks a volume only when it reserves it",
        metadata={"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        spec={"claimRef": {"resourceVersion": "7"}},
    ),
    "have a volume deleted": patched(
        "{volumes}/free",
        "does not write these fields of the spec: persistentVolumeReclaimPolicy",
        spec={"persistentVolumeReclaimPolicy": "Delete"},
    ),
    "mount a volume differently": patched(
        "{volumes}/free",
        "does not write these fields of the spec: mountOptions",
        spec={"mountOptions": ["suid"]},
    ),
    "label a volume": patched(
        "{volumes}/free", "does not set these labels: a", metadata={"labels": {"a": "b"}}
    ),
    "lift the protection of a volume": patched(
        "{volumes}/free", "does not change finalizers", metadata={"finalizers": None}
    ),
    "bind a claim to a volume": patched(
        "{claims}/data",
        "does not write these fields of the spec: volumeName",
        spec={"volumeName": "free"},
    ),
    "have a claim provisioned by another driver": patched(
        "{claims}/data",
        "does not set these annotations: volume.kubernetes.io/storage-provisioner",
        metadata={"annotations": {"volume.kubernetes.io/storage-provisioner": "mine"}},
    ),
    "lift the protection of a claim": patched(
        "{claims}/data", "does not change finalizers", metadata={"finalizers": None}
    ),
    "create a claim for devices": Request(
        "create",
        "{devices}",
        {"metadata": {"name": "mine"}, "spec": SPEC},
        "creates and deletes only claims for the extended resources of a pod",
    ),
    "keep a namespace from being deleted by a claim": Request(
        "create",
        "{devices}",
        {
            "metadata": {
                "name": "mine",
                **ANNOTATED,
                "finalizers": ["a.b/c"],
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": "p",
                        "uid": "u",
                        "controller": True,
                    }
                ],
            },
            "spec": SPEC,
        },
        "does not change finalizers",
    ),
    "create a claim for devices that looks like ours": Request(
        "create",
        "{devices}",
        {"metadata": {"name": "mine", **ANNOTATED}, "spec": SPEC},
        "creates and deletes only claims for the extended resources of a pod",
    ),
    "delete a claim for devices": Request(
        "delete",
        "{devices}/shared",
        {},
        "creates and deletes only claims for the extended resources of a pod",
    ),
    "make a claim for devices look like ours": patched(
        "{devices}/shared",
        f"does not set these annotations: {EXTENDED_RESOURCE_CLAIM}",
        metadata=ANNOTATED,
    ),
    "keep a claim for devices from being deleted": patched(
        "{devices}/shared", "does not change finalizers", metadata={"finalizers": ["a.b/c"]}
    ),
    "take devices that pods use": patched(
        "{devices}/shared/status",
        "does not take devices from a claim that several pods use",
        status={"allocation": None, "reservedFor": None},
    ),
    "release a claim for devices that pods use": patched(
        "{devices}/shared/status",
        "adds or removes one pod of a claim at a time",
        status={"reservedFor": None},
    ),
    "have a controller release a claim, because its pods cannot be found": patched(
        "{devices}/shared/status",
        "adds or removes one pod of a claim at a time",
        status={"reservedFor": [each | {"name": "no-such"} for each in reserved("a", "b")]},
    ),
    "reserve a claim for what no controller releases": Request(
        STRATEGIC,
        "{devices}/shared/status",
        {"status": {"reservedFor": reserved("c", group="x.y")}},
        "adds or removes one pod of a claim at a time",
    ),
    "reserve a claim for something else": patched(
        "{devices}/shared/status",
        "adds or removes one pod of a claim at a time",
        status={
            "reservedFor": [
                *reserved("a", "b", group="x.y"),
                {"resource": "nodes", "name": "n", "uid": "u"},
            ]
        },
    ),
    "report an Event of another scheduler": event(
        "mine", FOREIGN, "writes Events of its own profiles only"
    ),
    "take over an Event": Request(
        STRATEGIC,
        "{events}/theirs",
        {"series": {"count": 7, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}},
        "writes Events of its own profiles only",
    ),
    "create the lease of another controller": named(
        LEASES, "other", "creates no other leases than its own"
    ),
    "create a part of the history that nobody reads": named(
        CONFIG_MAPS, f"{US}-history-8", "creates no other configmaps than its own"
    ),
    "create a configmap that others read": named(
        CONFIG_MAPS, "other", "creates no other configmaps than its own"
    ),
}

#: What the code does, as far as no other test sends it.
OURS: Final[Mapping[str, Request]] = {
    "fill in the uid of a claim that an administrator has named": patched(
        "{volumes}/named", spec={"claimRef": {"uid": "uid-data", "kind": "PersistentVolumeClaim"}}
    ),
    "reserve a claim that has as many consumers as it can have": Request(
        STRATEGIC, "{devices}/full/status", {"status": {"reservedFor": reserved("one-more")}}
    ),
    "delete a pod with the grace period that it has": Request(
        "delete", "{pods}/runs", {"gracePeriodSeconds": 30}
    ),
    "delete a pod that terminates": Request("delete", "{pods}/ends", {}),
    "delete a pod without a node": Request("delete", "{pods}/waits", {}),
    "mark a pod with very many labels as a victim": conditions("crowded", "", disrupted()),
    "delete a pod with very many labels": Request("delete", "{pods}/crowded", {}),
    "report a policy that is refused, where no profile has this name": event("policy", US),
    "create the ledger": named(f"{CONFIG_MAPS}", f"{US}-ledger"),
    "create the last part of the history": named(f"{CONFIG_MAPS}", f"{US}-history-7"),
    "create the attempts of the history": named(f"{CONFIG_MAPS}", f"{US}-history-attempts"),
    "create the lease": named(LEASES, US),
}

#: Attacks that remain, because a request to these resources does not show the pod.
REMAINS: Final[Mapping[str, Request]] = {
    "bind a pod of another scheduler": binding("foreign"),
    "evict a system pod within its disruption budgets": eviction("{namespace}", name="system"),
}
