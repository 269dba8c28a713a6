"""Random budgets, Services and controllers."""

from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.labels import pod_selector
from tests.oracle.generating.placement import NAMESPACES

__all__ = ["budgets", "namespaces", "workloads"]

_OWNERS = (("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController"))


def namespaces() -> list[Object]:
    """Return all namespaces that pods are in."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/metadata.name": name}
                | ({"team": name} if name == "blue" else {}),
            },
        }
        for name in NAMESPACES
    ]


def budgets(dice: Dice, pods: list[Object]) -> list[Object]:
    """Return disruption budgets; few select nothing."""
    return [_budget(dice, f"b{number}", pods) for number in range(dice.number(1, 3))]


def _budget(dice: Dice, name: str, pods: list[Object]) -> Object:
    spec: Object = {"minAvailable": 1}
    if dice.chance(0.95):
        spec["selector"] = pod_selector(dice)
    status: Object = {
        "disruptionsAllowed": dice.pick((0, 0, 1, 1, 2)),
        "currentHealthy": 3,
        "desiredHealthy": 1,
        "expectedPods": 3,
    }
    if dice.chance(0.3):
        names = [pod["metadata"]["name"] for pod in dice.some(pods, 1, 4)]
        status["disruptedPods"] = dict.fromkeys(names, "2026-01-01T00:00:00Z")
    namespace = "default" if dice.chance(0.85) else "blue"
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": spec,
        "status": status,
    }


def workloads(dice: Dice, pods: list[Object]) -> list[Object]:
    """Return Services, and one controller of each kind, which own some of the pods."""
    found = [
        _workload("v1", "Service", f"s{number}", {"app": dice.pick(("web", "db"))})
        for number in range(dice.number(0, 2))
    ]
    for number, (version, kind) in enumerate(_OWNERS):
        selector: Object = {"tier": dice.pick(("x", "y"))}
        if kind != "ReplicationController":
            selector = pod_selector(dice)
        found.append(_workload(version, kind, f"o{number}", selector))
    for pod in pods:
        if dice.chance(0.4):
            _own(dice, pod)
    return found


def _own(dice: Dice, pod: Object) -> None:
    number = dice.number(0, len(_OWNERS) - 1)
    version, kind = _OWNERS[number]
    name = f"o{number}" if dice.chance(0.9) else "absent"
    owner = {
        "apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True,
    }  # fmt: skip
    pod["metadata"]["ownerReferences"] = [owner]


def _workload(version: str, kind: str, name: str, selector: Object) -> Object:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"selector": selector},
    }
