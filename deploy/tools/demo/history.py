"""Collects the state of the cluster and the actions of the scheduler for the view.

The input is from `feed`: objects of the API and records of the scheduler's log. The screens and
`completion` use the result. The module does no I/O; times are seconds since the start of the
demonstration. A log record may be read long after its effect was seen in the API, so deleted pods
are remembered.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.model.api import resources
from scheduler.model.api.objects import Node, Pod
from scheduler.model.times import Seconds
from scheduler.terminal.values import (
    AttemptResult,
    AttemptView,
    NodeView,
    NominationView,
    PlacementView,
    PodPhase,
    PodView,
    QueueView,
    Totals,
    VictimView,
    ViewSnapshot,
)

__all__ = ["History", "SeenPod"]

Json: TypeAlias = dict[str, Any]

#: Attempts that are kept for the view.
ATTEMPTS: Final = 500
#: Pods of a queue that are listed.
NAMED: Final = 20


@dataclass(frozen=True)
class SeenPod:
    """A pod that exists."""

    pod: Pod
    #: Empty for none.
    priority_class: str
    since: Seconds
    nominated_at: Seconds | None = None

    @property
    def unschedulable(self) -> bool:
        """Whether the scheduler has reported it as unschedulable."""
        condition = self.pod.condition("PodScheduled")
        return condition is not None and condition.reason == "Unschedulable"

    @property
    def queue(self) -> str:
        """The queue that it is in, as far as the API shows it: backoff is not visible there."""
        if self.pod.spec.scheduling_gates:
            return "gated"
        return "unschedulable" if self.unschedulable else "active"


class History:
    """Collects the changes.

    Args:
        scheduler_name: the scheduler whose pods are counted; others only appear on their nodes.
        classes: priorities by PriorityClass, for the legend of the view.
    """

    def __init__(self, scheduler_name: str, classes: Mapping[str, int]) -> None:
        self._scheduler_name = scheduler_name
        self._classes = dict(classes)
        self._pods: dict[str, SeenPod] = {}
        self._gone_at: dict[str, Seconds] = {}
        self._nodes: list[Node] = []
        self._attempts: deque[AttemptView] = deque(maxlen=ATTEMPTS)
        self._victims: dict[str, VictimView] = {}
        self._placements: dict[str, PlacementView] = {}
        self._preemptions = 0
        #: Whether the scheduler is the leader.
        self.leads = False

    @property
    def pods(self) -> list[SeenPod]:
        """The pods of the scheduler that exist and have not finished."""
        return [
            seen
            for seen in self._pods.values()
            if seen.pod.spec.scheduler_name == self._scheduler_name and not seen.pod.terminal
        ]

    # Input

    def see_nodes(self, nodes: Iterable[Json]) -> None:
        """Replace all nodes by their current states."""
        self._nodes = [msgspec.convert(node, Node) for node in nodes]

    def see_pods(self, pods: Iterable[Json], at: Seconds) -> None:
        """Replace all pods by their current states."""
        before, self._pods = self._pods, {}
        for pod in pods:
            uid = pod["metadata"]["uid"]
            seen = _seen(pod, before.get(uid), at)
            self._pods[uid] = seen
            if seen.pod.spec.node_name and seen.pod.spec.scheduler_name == self._scheduler_name:
                self._placed(seen, at)
        for uid in before.keys() - self._pods.keys():
            self._gone(before[uid].pod.key, at)

    def see_record(self, record: Mapping[str, Any], at: Seconds) -> None:
        """Add a record of the scheduler's log."""
        pod, node = record.get("pod", ""), record.get("node", "")
        message = record.get("message", "")
        match record["event"]:
            case "became_leader":
                self.leads = True
            case "pod_bound":
                self._tried(AttemptView(at, pod, AttemptResult.PLACED, node))
            case "pod_unschedulable":
                self._tried(AttemptView(at, pod, AttemptResult.UNSCHEDULABLE, message=message))
            case "attempt_failed" | "bind_failed":
                self._tried(AttemptView(at, pod, AttemptResult.FAILED, node, message=message))
            case "preemption_planned":
                victims = tuple(record["victims"])
                self._tried(AttemptView(at, pod, AttemptResult.PREEMPTING, node, victims))
                self._preemptions += 1
                for victim in victims:
                    self._evicted(VictimView(victim, 0, node, pod, at))
            case _:
                pass

    # Output

    def snapshot(self, title: str, elapsed: Seconds) -> ViewSnapshot:
        """Return the current state."""
        pods = self.pods
        waiting = [seen for seen in pods if not seen.pod.spec.node_name]
        existing = {seen.pod.key for seen in pods}
        placements = (pod for pod in self._placements.values() if pod.pod in existing)
        return ViewSnapshot(
            title=title,
            elapsed=elapsed,
            totals=Totals(
                pods=len(pods),
                placed=len(pods) - len(waiting),
                waiting=len(waiting),
                preemptions=self._preemptions,
                evicted=sum(victim.gone_at is not None for victim in self._victims.values()),
            ),
            queues=_queues(waiting),
            nodes=tuple(self._node(node) for node in self._nodes),
            attempts=tuple(self._attempts),
            nominations=tuple(_nominations(waiting)),
            victims=tuple(reversed(self._victims.values())),
            placements=tuple(sorted(placements, key=lambda pod: -pod.at)),
            classes=self._classes,
        )

    def _node(self, node: Node) -> NodeView:
        name = node.metadata.name
        whole = resources.amounts(node.status.allocatable)
        cpu, memory = 0, 0
        shown = []
        for seen in self._pods.values():
            pod = seen.pod
            if pod.terminal or name not in (pod.spec.node_name, pod.status.nominated_node_name):
                continue
            phase = PodPhase.TERMINATING if pod.terminating else PodPhase.BOUND
            if not pod.spec.node_name:
                phase = PodPhase.NOMINATED
            else:
                used = resources.pod_requests(pod, status_aware=True)
                cpu += used.get(resources.CPU, 0)
                memory += used.get(resources.MEMORY, 0)
            shown.append(PodView(pod.key, pod.priority, seen.priority_class, phase))
        return NodeView(
            name,
            cpu,
            whole.get(resources.CPU, 0),
            memory,
            whole.get(resources.MEMORY, 0),
            tuple(shown),
        )

    # Details

    def _tried(self, attempt: AttemptView) -> None:
        """Add an attempt; it replaces the pod's last one if that had the same result."""
        last = next((other for other in self._attempts if other.pod == attempt.pod), None)
        if last is not None and replace(last, at=attempt.at) == attempt:
            self._attempts.remove(last)
        self._attempts.appendleft(attempt)

    def _placed(self, seen: SeenPod, at: Seconds) -> None:
        pod = seen.pod
        if pod.key not in self._placements:
            self._placements[pod.key] = PlacementView(
                pod.key, pod.priority, pod.spec.node_name, at, waited=at - seen.since
            )

    def _evicted(self, victim: VictimView) -> None:
        placement = self._placements.get(victim.pod)
        self._victims.setdefault(
            victim.pod,
            replace(
                victim,
                priority=0 if placement is None else placement.priority,
                gone_at=self._gone_at.get(victim.pod),
            ),
        )

    def _gone(self, key: str, at: Seconds) -> None:
        self._gone_at[key] = at
        victim = self._victims.get(key)
        if victim is not None and victim.gone_at is None:
            self._victims[key] = replace(victim, gone_at=at)


def _seen(raw: Json, before: SeenPod | None, at: Seconds) -> SeenPod:
    pod = msgspec.convert(raw, Pod)
    nominated = pod.status.nominated_node_name
    nominated_at = None
    if nominated:
        nominated_at = at
        if before is not None and before.pod.status.nominated_node_name == nominated:
            nominated_at = before.nominated_at
    return SeenPod(
        pod,
        raw["spec"].get("priorityClassName", ""),
        at if before is None else before.since,
        nominated_at,
    )


def _queues(waiting: Iterable[SeenPod]) -> tuple[QueueView, ...]:
    names: dict[str, list[str]] = {"active": [], "unschedulable": [], "gated": []}
    for seen in sorted(waiting, key=lambda seen: (-seen.pod.priority, seen.since)):
        names[seen.queue].append(seen.pod.key)
    return tuple(QueueView(name, len(keys), tuple(keys[:NAMED])) for name, keys in names.items())


def _nominations(waiting: Iterable[SeenPod]) -> Iterable[NominationView]:
    for seen in waiting:
        if seen.nominated_at is not None:
            node = seen.pod.status.nominated_node_name
            yield NominationView(seen.pod.key, node, seen.nominated_at)
