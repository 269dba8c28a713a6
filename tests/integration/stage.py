"""One side's run of a workload: its objects, when all is decided, and what became of them."""

import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from deploy.tools.controlplane.api import ApiError
from tests.integration.objects import Json, condition, is_bound, pod
from tests.integration.outcomes import Fate, Outcome, group
from tests.integration.peers import Peer, metrics
from tests.integration.ranks import HIGHEST
from tests.integration.scene import History, Scene

#: Kinds of nodes that are made ready at the same time.
NODE_KINDS = 6

#: Between two looks; what is the same in two that follow one another is settled.
LOOK_SECONDS = 0.15
LOOKS = 200
PATIENT_LOOKS = 60

PENDING, ATTEMPTS = "scheduler_pending_pods", "scheduler_schedule_attempts_total"


class Stage:
    """The objects of a workload, by names that are the same on both sides.

    Nodes have other names in each run; `of` returns them, an outcome never has them.

    Attributes:
        scene: the namespace and the nodes.
        names: the name of each node by the one that it really has.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.api = scene.api
        self.names: dict[str, str] = {}
        #: Reads what to compare in addition to the pods.
        self.facts: list[Callable[[], Mapping[str, str]]] = []
        self._pool = ThreadPoolExecutor(NODE_KINDS)
        self._coming: dict[str, Future[list[str]]] = {}
        self._rank = HIGHEST
        self._made: list[str] = []
        #: The number of pods so far; each is created as soon as it is drafted.
        self._drafted = 0
        self._unscheduled: set[str] = set()
        self._pods = f"/api/v1/namespaces/{scene.namespace}/pods"

    # Create

    def nodes(self, kind: str, count: int = 1, cpu: str = "4", **shape: Any) -> None:
        """Create interchangeable nodes, labelled kind=<kind>; they may still be on their way."""
        labels = {"kind": kind, **shape.pop("labels", {})}
        self._coming[kind] = self._pool.submit(self.scene.nodes, count, cpu, labels=labels, **shape)

    def of(self, kind: str) -> list[str]:
        """Wait until the nodes of a kind are ready; return their real names."""
        if kind in self._coming:
            real = self._coming.pop(kind).result()
            self.names |= {name: f"{kind}-{i}" for i, name in enumerate(real)}
        return [real for real, name in self.names.items() if group(name) == kind]

    def wait_nodes(self) -> None:
        """Wait until all nodes are ready."""
        for kind in list(self._coming):
            self.of(kind)

    def pods(self, kind: str, count: int = 1, cpu: str = "1", **spec: Any) -> list[Json]:
        """Create interchangeable pods, labelled app=<kind> by default.

        They are tried after those that were created before, as `rank` is lower each time.
        """
        return self.scene.create(*self.drafts(kind, count, cpu, **spec))

    def drafts(self, kind: str, count: int = 1, cpu: str = "1", **spec: Any) -> list[Json]:
        """Return pods as `pods` creates them."""
        made = [self.new(f"{kind}-{i}", cpu, **spec) for i in range(count)]
        self._rank -= 1
        return made

    def new(self, name: str, cpu: str = "1", rank: str | int = "", **spec: Any) -> Json:
        """Return a pod of the next rank, or of the one given."""
        spec.setdefault("labels", {"app": group(name)})
        self._drafted += 1
        return pod(name, cpu, f"rank-{rank or self._rank}", **spec)

    def running(self, kind: str, nodes: list[str], rank: int, cpu: str = "1", **spec: Any) -> None:
        """Create pods that run already, one on each of these nodes."""
        made = [self.new(f"{kind}-{i}", cpu, rank, on=node, **spec) for i, node in enumerate(nodes)]
        self._unscheduled |= {each["metadata"]["name"] for each in made}
        self.scene.run(*made)

    def make(self, path: str, item: Json) -> str:
        """Create some other object, removed again if it has no namespace; return its path."""
        namespaced = path.replace("{ns}", f"namespaces/{self.scene.namespace}")
        self.api.post(namespaced, item)
        made = f"{namespaced}/{item['metadata']['name']}"
        if namespaced == path:
            self._made.append(made)
        return made

    # Look

    def settle(self, peer: Peer, bound: int, evicted: int = 0) -> None:
        """Wait until the scheduler has nothing left to do: neither it nor the cluster moves on.

        It cannot act on what it has not observed yet, so it gets some time to reach this number of
        pods with a node, and of evicted ones. This method does not check the numbers.
        """
        self.wait_nodes()
        pause = threading.Event()
        before = seen = ""
        for look in range(LOOKS):
            before, seen = seen, self._look(peer)
            is_enough = look >= PATIENT_LOOKS or self._counts() == (bound, evicted)
            if seen and seen == before and is_enough:
                return
            pause.wait(LOOK_SECONDS)
        raise TimeoutError(f"it goes on: {self._state()} {metrics(peer, PENDING)}")

    def outcome(self) -> Outcome:
        """Return what became of the workload; waits for the events that are still on their way."""
        changes = self._changes()
        evicted = set(History(changes).evicted())
        pods = {each["metadata"]["name"]: each for _, each in changes}
        told = self._told(pods, evicted)
        fates = {
            name: Fate(
                node=self.names.get(_place(each), _place(each)),
                evicted=name in evicted,
                waits=None if is_bound(each) else _condition(each),
                told=frozenset(told[name]),
            )
            for name, each in pods.items()
        }
        facts = {name: fact for read in self.facts for name, fact in read().items()}
        return Outcome(frozenset(self.names.values()), fates, facts)

    def clear(self) -> None:
        """Remove all of it and wait until it is deleted: it must not wake pods of the next one."""
        self._pool.shutdown()
        self.scene.clear()
        claims = f"/api/v1/namespaces/{self.scene.namespace}/persistentvolumeclaims"
        self.api.delete(claims)
        for path in self._made:
            with contextlib.suppress(ApiError):
                self.api.delete(path)
        self.api.wait_for_list(claims, lambda found: not found)
        for path in self._made:
            self.api.wait_for(path, lambda found: found is None)

    def _changes(self) -> list[tuple[str, Json]]:
        """Return all states of all pods so far, in order."""
        (end,) = self.scene.create(pod("the-end", by="no-scheduler"))
        changes = self.scene.changes_until(end)
        self.scene.remove("the-end")
        return changes

    def _counts(self) -> tuple[int, int]:
        """Return how many pods have a node, and how many are gone."""
        found = self.api.items(self._pods)
        return sum(map(is_bound, found)), self._drafted - len(found)

    def _state(self) -> list[Any]:
        return [
            (
                each["metadata"]["name"],
                each["metadata"].get("deletionTimestamp"),
                _place(each),
                _condition(each),
            )
            for each in self.api.items(self._pods)
        ]

    def _look(self, peer: Peer) -> str:
        """Return all that may still change, or nothing if something is certain to change."""
        found = self.api.items(self._pods)
        numbers = metrics(peer, PENDING, ATTEMPTS)
        waiting = [each for each in found if not is_bound(each)]
        queued = {key[1]: number for key, number in numbers.items() if key[0] == PENDING}
        moves = (
            any("deletionTimestamp" in each["metadata"] for each in found)
            or not all(condition(each, "PodScheduled") for each in waiting)
            or queued.get("active", 0) + queued.get("backoff", 0) > 0
            or queued.get("unschedulable", 0) + queued.get("gated", 0) != len(waiting)
        )
        return "" if moves else json.dumps([sorted(map(repr, numbers.items())), self._state()])

    def _told(self, pods: Mapping[str, Json], evicted: set[str]) -> dict[str, set[str]]:
        """Return what the scheduler said of each pod, when all events have arrived."""
        uids = {each["metadata"]["uid"]: group(name) for name, each in pods.items()}
        owed = {(name, "Preempted") for name in evicted}
        for name, each in pods.items():
            if is_bound(each) and name not in self._unscheduled:
                owed.add((name, "Scheduled"))
            if _condition(each)[0] == "Unschedulable":
                owed.add((name, "FailedScheduling"))

        def said(found: list[Json]) -> list[tuple[str, str, str]]:
            return [
                (each["regarding"]["name"], each["reason"], each["note"])
                for each in found
                if each.get("reportingController") == self.scene.scheduler_name
            ]

        def is_complete(found: list[Json]) -> bool:
            return owed <= {(name, reason) for name, reason, _ in said(found)}

        path = f"/apis/events.k8s.io/v1/namespaces/{self.scene.namespace}/events"
        told: dict[str, set[str]] = {name: set() for name in pods}
        for name, reason, note in said(self.api.wait_for_list(path, is_complete)):
            if name in told:
                told[name].add(self._plain(note, uids) if reason == "Preempted" else reason)
        return told

    def _plain(self, note: str, uids: Mapping[str, str]) -> str:
        """Return a text with groups instead of the names that only this run has."""
        named = {**uids, **{real: group(name) for real, name in self.names.items()}}
        return " ".join(named.get(word, word) for word in note.replace(".", " .").split())


def _place(pod: Json) -> str:
    """Return the node of a pod, or that of its nomination."""
    node: str = pod["spec"].get("nodeName") or pod["status"].get("nominatedNodeName") or ""
    return node


def _condition(pod: Json) -> tuple[str, str]:
    """Return why a pod waits, nothing if it does not."""
    said = condition(pod, "PodScheduled")
    return said.get("reason", ""), said.get("message", "")
