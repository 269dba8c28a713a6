"""Objects for the tests on a real control plane, and what to wait for on them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from deploy.tools.controlplane.api import ApiClient
from deploy.tools.controlplane.manifests import documents
from tests.support.control_plane import followed

Json: TypeAlias = dict[str, Any]

BASE = Path(__file__).parents[2] / "deploy" / "manifests" / "base"

#: What we ship, without the scheduler itself.
SHIPPED = ("namespace.yaml", "service-account.yaml", "rbac.yaml", "flow-schemas.yaml")

#: PriorityClasses of the tests; `urgent` preempts no pod.
PRIORITIES: Mapping[str, int] = {"low": 100, "middle": 500, "high": 1000, "urgent": 1000}

#: Makes KWOK let a deleted pod hang in termination until the annotation is removed.
HANGS = {"pod-delete.stage.kwok.x-k8s.io/delay": "never"}


#: What the message of a pod without claims says about claims.
NO_CLAIMS = "no new claims to deallocate, " if followed().reports_nothing_to_deallocate else ""


def preempts(rejection: str, node: str, victims: int = 1) -> str:
    """Return the message of a pod that fits nowhere and preempts on a node."""
    if not followed().reports_preemption:
        return rejection
    found = f"found a potential placement for pod on node {node}, preempting {victims} victims"
    return f"{rejection} preemption: {found}"


def prepare(api: ApiClient) -> None:
    """Create what the tests share: our ServiceAccount with its rights, and PriorityClasses."""
    for name in SHIPPED:
        api.apply(BASE / name)
    api.apply(own_writes())
    api.apply([priority_class(name) for name in PRIORITIES])


def forget_history(api: ApiClient) -> None:
    """Delete what schedulers have written down of their preemptions."""
    folder = "/api/v1/namespaces/preemptive-scheduler/configmaps"
    for each in api.items(folder):
        name = each["metadata"]["name"]
        if "-history-" in name:
            api.delete(f"{folder}/{name}")


def own_writes() -> list[Json]:
    """Return the admission policy that we ship, for every profile but that of kube-scheduler.

    Each test has a profile of its own, and all share the ServiceAccount. That Events may come from
    `preemptive-scheduler` does not follow from a profile, as where no profile has that name.
    """
    policy, binding = documents(BASE / "admission.yaml")
    named = "[dyn(oldObject), dyn(object)].filter(o, o != null).map(o, "
    named += "o.?spec.?schedulerName.orValue('') != '' ? o.spec.schedulerName : "
    named += "o.?reportingController.orValue('').replace('preemptive-scheduler', ''))"
    first, *others = policy["spec"]["variables"]
    assert first["name"] == "profiles"
    every = {"name": "profiles", "expression": f"{named}.filter(n, n != 'default-scheduler')"}
    policy["spec"]["variables"] = [every, *others]
    return [policy, binding]


def priority_class(name: str) -> Json:
    """Return one of the PriorityClasses."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": PRIORITIES[name],
        "preemptionPolicy": "Never" if name == "urgent" else "PreemptLowerPriority",
    }


def pod(
    name: str,
    cpu: str = "1",
    priority: str = "",
    *,
    on: str = "",
    by: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    ports: tuple[int, ...] = (),
    image: str = "none",
    **spec: Any,
) -> Json:
    """Return a pod.

    Args:
        name: its name.
        cpu: what it asks for.
        priority: its PriorityClass.
        on: the node that it is created on.
        by: its schedulerName; `Scene.create` fills in that of the scheduler under test.
        labels: its labels.
        annotations: its annotations.
        requests: what it requests in addition to cpu; limits are equal, as extended resources need.
        ports: host ports.
        image: of its container.
        **spec: further fields.
    """
    amounts = {"cpu": cpu, **(requests or {})}
    container: Json = {
        "name": "main",
        "image": image,
        "resources": {"requests": amounts, "limits": amounts},
        "ports": [{"containerPort": port, "hostPort": port} for port in ports],
    }
    placed = {"nodeName": on} if on else {}
    named = {"schedulerName": by} if by else {}
    ranked = {"priorityClassName": priority} if priority else {}
    return {
        "metadata": {
            "name": name,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": {"containers": [container], **placed, **named, **ranked, **spec},
    }


def budget(name: str, min_available: int, **labels: str) -> Json:
    """Return a PodDisruptionBudget for the pods with these labels."""
    return {
        "metadata": {"name": name},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": labels}},
    }


# What to wait for: predicates on a pod, or on None where there is none.


def is_running(found: Json | None) -> bool:
    """Return whether a pod runs and is not terminating."""
    return (
        found is not None
        and found["status"].get("phase") == "Running"
        and "deletionTimestamp" not in found["metadata"]
    )


def is_bound(found: Json | None) -> bool:
    """Return whether a pod has a node."""
    return found is not None and bool(found["spec"].get("nodeName"))


def is_gone(found: Json | None) -> bool:
    """Return whether there is no pod."""
    return found is None


def is_terminating(found: Json | None) -> bool:
    """Return whether a pod is being deleted, by any client, and still exists."""
    return found is not None and "deletionTimestamp" in found["metadata"]


def is_nominated(node: str) -> Callable[[Json | None], bool]:
    """Return whether a pod is nominated to a node; "" for to none."""

    def predicate(found: Json | None) -> bool:
        return found is not None and found["status"].get("nominatedNodeName", "") == node

    return predicate


def is_rejected(message: str = "") -> Callable[[Json | None], bool]:
    """Return whether a pod's condition says that it fits nowhere, with this in its message."""

    def predicate(found: Json | None) -> bool:
        said = condition(found or {}, "PodScheduled")
        return said.get("reason") == "Unschedulable" and message in said["message"]

    return predicate


def condition(found: Json, kind: str) -> Json:
    """Return a condition of an object, empty if it has none of that type."""
    conditions = found.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})
