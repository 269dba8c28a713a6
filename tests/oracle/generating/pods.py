"""Random pods."""

import copy

from tests.oracle.generating import containers
from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.labels import pod_labels
from tests.oracle.generating.placement import NAMESPACES, placement
from tests.oracle.generating.traits import Traits

__all__ = ["SCHEDULER", "Pods"]

SCHEDULER = "preemptive-scheduler"

_WAITING = (10, 10, 100, 100, 1000, 2_000_000_000)
_PLACED = (-2_000_000_000, -5, 5, 10, 10, 100, 100)
#: What the DisruptionTarget condition of a terminating pod says.
_DISRUPTIONS = (
    ("True", "PreemptionByScheduler"),
    ("True", "PreemptionByScheduler"),
    ("True", "EvictionByEvictionAPI"),
    ("False", "PreemptionByScheduler"),
)


class Pods:
    """Makes the pods of one cluster.

    All their times differ, in random order: what is left to the clock is left to chance.
    """

    def __init__(self, dice: Dice, traits: Traits, nodes: list[str]) -> None:
        self._dice = dice
        self._traits = traits
        self._nodes = nodes
        self._minutes = dice.shuffled(range(1200))

    def placed(self, name: str) -> Object:
        """Return a pod that runs on some node."""
        dice, traits = self._dice, self._traits
        spec = self._spec(dice.pick(_PLACED))
        spec["nodeName"] = "absent" if dice.chance(0.01) else dice.pick(self._nodes)
        status = {"phase": "Running", "startTime": self._time()}
        if dice.chance(traits.resized):
            status |= containers.resized(dice, spec)
        pod = self._pod(name, spec, status)
        if dice.chance(traits.terminating):
            self._terminate(pod)
        if dice.chance(0.02):
            status["phase"] = dice.pick(("Succeeded", "Failed"))
        return pod

    def waiting(self, name: str) -> Object:
        """Return a pod that waits for a node."""
        dice, traits = self._dice, self._traits
        spec = self._spec(dice.pick(_WAITING))
        if dice.chance(traits.never_preempts):
            spec["preemptionPolicy"] = "Never"
        if dice.chance(traits.gates):
            spec["schedulingGates"] = [{"name": "example.com/wait"}]
        status = {"phase": "Pending"}
        if dice.chance(traits.nominated):
            status["nominatedNodeName"] = dice.pick([*self._nodes, *self._nodes, "absent"])
        pod = self._pod(name, spec, status)
        if dice.chance(traits.terminating / 4):
            self._terminate(pod)
        return pod

    def placed_replicas(self, names: list[str]) -> list[Object]:
        """Return pods that run on some node, copies of a few."""
        copies = self._copies([self.placed(f"t{number}") for number in range(4)], names)
        for each in copies:
            each["spec"]["nodeName"] = self._dice.pick(self._nodes)
            if "startTime" in each["status"]:
                each["status"]["startTime"] = self._time()
        return copies

    def waiting_replicas(self, names: list[str]) -> list[Object]:
        """Return pods that wait for a node, copies of a few."""
        return self._copies([self.waiting(f"t{number}") for number in range(3)], names)

    def _copies(self, templates: list[Object], names: list[str]) -> list[Object]:
        copies = []
        for name in names:
            made = copy.deepcopy(self._dice.pick(templates))
            made["metadata"] |= {
                "name": name, "uid": f"uid-{name}", "creationTimestamp": self._time(),
            }  # fmt: skip
            copies.append(made)
        return copies

    def _spec(self, priority: int) -> Object:
        dice, traits = self._dice, self._traits
        priority = priority if dice.chance(traits.priorities) else 0
        spec: Object = {
            "schedulerName": SCHEDULER,
            **({"priority": priority} if priority or dice.chance(0.9) else {}),
            **containers.containers(dice, traits),
            **placement(dice, traits, self._nodes),
        }
        if dice.chance(traits.features):
            spec |= containers.needs_a_feature(dice)
        return spec

    def _pod(self, name: str, spec: Object, status: Object) -> Object:
        dice = self._dice
        metadata = {
            "name": name,
            "namespace": dice.pick(NAMESPACES) if dice.chance(0.2) else "default",
            "uid": f"uid-{name}",
            "creationTimestamp": self._time(),
            "labels": pod_labels(dice),
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        }

    def _terminate(self, pod: Object) -> None:
        dice = self._dice
        pod["metadata"] |= {"deletionTimestamp": self._time(), "deletionGracePeriodSeconds": 30}
        if dice.chance(0.7):
            status, reason = dice.pick(_DISRUPTIONS)
            target = {"type": "DisruptionTarget", "status": status, "reason": reason}
            pod["status"].setdefault("conditions", []).append(target)

    def _time(self) -> str:
        minute = self._minutes.pop()
        return f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z"
