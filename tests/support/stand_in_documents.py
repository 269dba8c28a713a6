"""Believable documents of `/api/v1`, of any size, for tests of the plugin and of the console.

Everything follows from the size and the seed. The documents are made of the structs of
`scheduler.model.rest`, so they stay valid when those change. docs/kubectl-plugin.md shows them, so
texts are those of the scheduler: made by its own functions where these need no cluster.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.evaluate.objective import KUBE_SCHEDULER
from scheduler.model import times
from scheduler.model.comparisons import ComparedCandidate, Comparison
from scheduler.model.rest.cluster import (
    NodeDocument,
    NodeUsage,
    PendingPodView,
    PriorityUse,
    ResourceUse,
)
from scheduler.model.rest.common import OwnerView, PodView
from scheduler.model.rest.explanations import (
    AttemptView,
    NodeVerdict,
    PlacementView,
    PodEviction,
    PodExplanation,
    PossiblePreemption,
    RejectionGroup,
)
from scheduler.model.rest.preemptions import (
    CandidateView,
    DeviceView,
    PolicyVeto,
    PreemptionDevices,
    PreemptionView,
    Replacement,
    UndeallocatedClaim,
    VictimView,
)
from scheduler.observe.api import verdicts
from scheduler.observe.api.views import comparison_views
from tests.support import stand_in_policies as policies

__all__ = ["LARGE", "NOW", "SMALL", "Shape", "World"]

#: The moment of all documents: 2026-05-04T10:00:00Z.
NOW: Final = 1_777_888_800.0
GIB: Final = 2**30
ZONES: Final = ("eu-1a", "eu-1b", "eu-1c")
POOLS: Final = ("general", "batch", "gpu", "system")
#: Priority, and the part of the pods that has it.
PRIORITIES: Final = ((2_000_001_000, 0.05), (100_000, 0.25), (1_000, 0.3), (0, 0.3), (-10, 0.1))
REASONS: Final = (
    ("NodeResourcesFit", "Insufficient cpu", True),
    ("NodeResourcesFit", "Insufficient memory", True),
    ("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", False),
    ("TaintToleration", "node(s) had untolerated taint(s)", False),
    ("PodTopologySpread", "node(s) didn't match pod topology spread constraints", True),
)
GATE: Final = "example.com/quota"
#: A pod that waits in the place of an evicted one.
REPLACES: Final = "batch/worker-13"
#: The criteria by which candidates compare.
LABELS: Final = tuple(criterion.label for criterion in KUBE_SCHEDULER)
COMPARED: Final = Comparison(LABELS, (ComparedCandidate("n", ()),), 1)
CRITERIA: Final = comparison_views(COMPARED, "n").criteria
DRIVER: Final = "gpu.example.com"
GPU: Final = "nvidia.com/gpu=present:NoSchedule"
PHASES: Final = ("unschedulable", "unschedulable", "backoff", "active", "gated", "preempting")


@dataclass(frozen=True)
class Shape:
    """How much there is."""

    nodes: int
    #: Pods on nodes.
    pods: int
    pending: int
    active: int
    past: int


SMALL: Final = Shape(nodes=12, pods=90, pending=14, active=2, past=9)
LARGE: Final = Shape(nodes=5_000, pods=150_000, pending=3_000, active=40, past=1_000)


VETO: Final = policies.veto(NOW)
AUDITED: Final = "victims have run for less than 10m"


def at(seconds_ago: float) -> str:
    """Return the time stamp of a moment before `NOW`."""
    return times.stamp(NOW - seconds_ago)


class World:
    """The state that the documents describe. `tick` changes it."""

    def __init__(self, shape: Shape = SMALL, seed: int = 0) -> None:
        self.shape = shape
        self._random = np.random.default_rng(seed)
        self.revision = 1
        self.labels = {_node_name(i): _labels(i) for i in range(shape.nodes)}
        self.nodes = dict(self._nodes())
        self.pending = {_key(each.pod): each for each in map(self._pending, range(shape.pending))}
        active = [self._preemption(i, active=True) for i in range(shape.active)]
        past = [self._preemption(shape.active + i, active=False) for i in range(shape.past)]
        #: Newest first.
        self.preemptions = active + past
        self.policies = policies.document(NOW)
        #: The revision in which a node changed last, and the names of nodes that are gone.
        self.changed = dict.fromkeys(self.nodes, 1)
        self.removed: dict[str, int] = {}

    def tick(self) -> None:
        """Change a few nodes, and one preemption."""
        self.revision += 1
        names = list(self.nodes)
        for index in self._random.integers(len(names), size=max(1, len(names) // 500)):
            name = names[index]
            self.nodes[name] = self._node(int(name[5:]), self._counts(1)[0])
            self.changed[name] = self.revision
        if self.preemptions:
            changed = self._preemption(self.revision % 3, active=self.revision % 2 == 0)
            self.preemptions[self.revision % min(3, len(self.preemptions))] = changed

    def remove_node(self, name: str) -> None:
        """Remove a node."""
        self.revision += 1
        del self.nodes[name], self.changed[name]
        self.removed[name] = self.revision

    def node(self, name: str) -> NodeDocument:
        """Return a node with its pods.

        Raises:
            KeyError: There is none.
        """
        view = self.nodes[name]
        pods = [
            _pod(f"{_team(i)}", f"app-{i % 7}-{use.priority % 97}-{i:03}", use.priority, i)
            for use in view.priorities
            if not use.nominated
            for i in range(use.pods)
        ]
        nominated = [
            _pod("prod", "api-0", use.priority, 3) for use in view.priorities if use.nominated
        ]
        hidden = [PodView(hidden=True, priority=0)]
        taints = (GPU,) if "gpu" in self.labels[name].values() else ()
        return NodeDocument(
            node=view,
            labels=self.labels[name],
            taints=taints,
            pods=(*pods, *hidden),
            nominated=tuple(nominated),
            hidden=1,
        )

    def explanation(self, key: str, *, nodes: bool = False) -> PodExplanation:
        """Return why a pod waits, or who evicted it, or where it runs.

        Raises:
            KeyError: It is neither in the queue, nor a victim, nor has it preempted.
        """
        document = self._explanation(key, nodes=nodes)
        verdict, impact = verdicts.of_pod(document, NOW)
        return replace(document, verdict=verdict, impact=impact)

    def _explanation(self, key: str, *, nodes: bool) -> PodExplanation:
        for preemption in self.preemptions:
            for victim in preemption.victims:
                if _key(victim.pod) == key:
                    pending = PendingPodView(victim.pod, "preemptive-scheduler", "evicted", "")
                    evictions = (PodEviction(victim, preemption),)
                    message = "the pod was evicted"
                    return PodExplanation(
                        pending, at(0), message, state="evicted", evictions=evictions
                    )
        if key not in self.pending:
            return self._running(key)
        pending = self.pending[key]
        if pending.phase == "gated":
            return PodExplanation(
                pending=pending,
                now=at(0),
                message=pending.message,
                suggestions=(f'Remove the scheduling gate "{GATE}".',),
            )
        total = len(self.nodes)
        first, second = total // 3, total // 5
        rest, refused = total - first - second, min(2, first)
        helped = pending.pod.priority > 1_000
        lower = "yes" if helped else f"no: {verdicts.NOTHING_LOWER}"
        groups = (
            RejectionGroup("NodeResourcesFit", "Insufficient cpu", first, True,
                    self._examples(0), lower),
            RejectionGroup("NodeResourcesFit", "Insufficient memory", second, True,
                    self._examples(3), lower),
            RejectionGroup("TaintToleration", "node(s) had untolerated taint(s)", rest, False,
                    self._examples(6), "no"),
        )  # fmt: skip
        why_not = _message(
            total,
            (refused, VETO),
            (first + second - refused, "No preemption victims found for incoming pod"),
            (rest, "Preemption is not helpful for scheduling"),
        )
        message = _message(total, *((each.nodes, each.reason) for each in groups))
        return PodExplanation(
            pending=pending,
            now=at(0),
            message=message if helped else f"{message} preemption: {why_not}",
            verdicts=groups,
            preemption=self.possible(1) if helped else None,
            preemption_message="" if helped else why_not,
            policies=(PolicyVeto(policies.DATABASES.name, "victimMinRuntime", VETO, refused),),
            suggestions=tuple(self._suggestions(groups)),
            history=tuple(_attempts(pending, message)),
            replaces=PodEviction(self.preemptions[-1].victims[0], self.preemptions[-1])
            if key == REPLACES
            else None,
            devices=self.devices(5, waits=True) if pending.nominated_node else None,
            nodes=tuple(self._verdict(name) for name in self.nodes) if nodes else (),
        )  # fmt: skip

    def _running(self, key: str) -> PodExplanation:
        """Return where a preemptor runs."""
        done = {_key(each.preemptor): each for each in self.preemptions if each.ended_at}
        pod, node = done[key].preemptor, done[key].node
        pending = PendingPodView(pod, "preemptive-scheduler", "running", at(20.0))
        return PodExplanation(
            pending, at(0), f"the pod was bound to node {node}", state="running",
            placement=PlacementView(node, at(20.0)), preempted=done[key].id,
        )  # fmt: skip

    def possible(self, number: int) -> PossiblePreemption:
        """Return one of the preemptions that could be decided."""
        view = self._preemption(number, active=True)
        same = [name for name in PossiblePreemption.__struct_fields__ if name != "hidden_victims"]
        return PossiblePreemption(**{name: getattr(view, name) for name in same})

    def devices(self, i: int, *, waits: bool = False) -> PreemptionDevices:
        """Return devices of a preemption, of which one was free, and the claims that keep them."""
        pool, claims = _node_name(3), [f"train-{i}-{number}-gpu" for number in (0, 1)]
        items = (
            DeviceView(DRIVER, pool, "gpu-0", "batch", claims[0], f"train-{i}-0"),
            DeviceView(DRIVER, pool, "gpu-1", "batch", claims[1], f"train-{i}-1", 2),
            DeviceView(DRIVER, pool, "gpu-2"),
        )
        if not waits:
            return PreemptionDevices(items)
        left = UndeallocatedClaim("batch", claims[0], f"train-{i}-0")
        return PreemptionDevices(items, 2, at(12.0), (left,), 1)

    def _suggestions(self, groups: tuple[RejectionGroup, ...]) -> Iterator[str]:
        """Yield sentences as `scheduler.observe.api.suggestions` makes them."""
        for verdict, missing in zip(groups, ("50m cpu", "128Mi memory"), strict=False):
            if verdict.nodes > 1:
                yield (
                    f"Node {verdict.examples[0]} lacks only {missing}, the least of"
                    f" {verdict.nodes} nodes."
                )
        tainted = sum("gpu" in labels.values() for labels in self.labels.values())
        if tainted > 1:
            yield (
                f"Add a toleration for the taint {GPU}: it is the only untolerated taint on"
                f" {tainted} nodes."
            )

    def _examples(self, start: int) -> tuple[str, ...]:
        return tuple(list(self.nodes)[start : start + 5])

    def _verdict(self, name: str) -> NodeVerdict:
        plugin, reason, resolvable = REASONS[int(name[5:]) % len(REASONS)]
        vetoes = (VETO,) if resolvable else ()
        return NodeVerdict(name, reason, plugin, vetoes=vetoes)

    def _nodes(self) -> Iterator[tuple[str, NodeUsage]]:
        for i, counts in enumerate(self._counts(self.shape.nodes)):
            yield _node_name(i), self._node(i, counts)

    def _counts(self, nodes: int) -> list[list[int]]:
        """Return the number of pods of each priority, by node."""
        mean = self.shape.pods / max(1, self.shape.nodes)
        shares = [mean * part for _, part in PRIORITIES]
        drawn: list[list[int]] = self._random.poisson(shares, size=(nodes, len(shares))).tolist()
        return drawn

    def _node(self, i: int, counts: list[int]) -> NodeUsage:
        cpu, memory, pods = 64_000, 256 * GIB, max(1, sum(counts))
        share = min(1.0, 0.6 + 0.4 * ((i * 37) % 100) / 100)
        uses = tuple(
            PriorityUse(
                priority,
                count,
                cpu=int(cpu * share * count / pods),
                memory=int(memory * share * count / pods),
                terminating=min(count, 2) if i % 11 == 3 and priority == 0 else 0,
            )
            for (priority, _), count in zip(PRIORITIES, counts, strict=True)
            if count
        )
        nominated = (
            (PriorityUse(100_000, 1, 2_000, 4 * GIB, nominated=True),) if i % 11 == 3 else ()
        )
        name, cordoned = _node_name(i), i % 40 == 17
        resources = {
            "cpu": ResourceUse(cpu, sum(use.cpu for use in uses)),
            "memory": ResourceUse(memory, sum(use.memory for use in uses)),
            "pods": ResourceUse(110, sum(counts)),
        }
        if POOLS[i % len(POOLS)] == "gpu":
            resources["nvidia.com/gpu"] = ResourceUse(8, i % 9)
        return NodeUsage(name, cordoned, resources=resources, priorities=uses + nominated)

    def _pending(self, i: int) -> PendingPodView:
        phase = PHASES[i % len(PHASES)]
        plugin, reason, _ = REASONS[i % 4]
        priority = (100_000, 1_000, 0)[i % 3]
        gated = phase == "gated"
        total = self.shape.nodes
        return PendingPodView(
            pod=_pod(_team(i), f"{('api', 'worker', 'train', 'web')[i % 4]}-{i}", priority, i),
            scheduler_name="preemptive-scheduler",
            phase=phase,
            since=at(15.0 + i * 41),
            attempts=0 if gated else 1 + i % 6,
            backoff_until=times.stamp(NOW + 4) if phase == "backoff" else "",
            rejected_by=("SchedulingGates",) if gated else (plugin,),
            nominated_node=_node_name(3) if phase == "preempting" else "",
            message=f"waiting for scheduling gates: [{GATE}]"
            if gated
            else f"0/{total} nodes are available: {total} {reason}.",
        )

    def _preemption(self, i: int, *, active: bool) -> PreemptionView:
        count = 1 + i % 3
        victims = tuple(self._victim(i, number, active=active) for number in range(count))
        violations = sum(victim.violates_pdb for victim in victims)
        candidates = tuple(
            _candidate((i + rank) % self.shape.nodes, rank, count, violations)
            for rank in range(min(4, self.shape.nodes))
        )
        decided = 20.0 + i * 97
        outcome = "" if active else ("bound", "bound", "bound", "elsewhere", "failed")[i % 5]
        phase = ("nominating", "evicting", "awaiting")[i % 3] if active else "done"
        view = PreemptionView(
            id=f"preemption-{i:05}",
            revision=self.revision,
            preemptor=_pod("prod", f"api-{i}", 100_000, i),
            node=_node_name(i % self.shape.nodes),
            phase=phase,
            decided_at=at(decided),
            ended_at="" if active else at(decided - 12),
            outcome=outcome,
            problem=f"evicting a pod of another namespace (uid {victims[0].pod.uid}): refused"
            if outcome == "failed"
            else "",
            victims=victims,
            hidden_victims=1 if i % 7 == 6 else 0,
            pdb_violations=violations,
            devices=self.devices(i) if i % 7 == 1 else None,
            criteria=CRITERIA,
            candidates=candidates,
            candidates_total=len(candidates) + i % 9,
            criterion=candidates[1].lost_by if len(candidates) > 1 else "",
            cost={
                "pods": sum(victim.ran_seconds for victim in victims),
                "cpu": sum(victim.ran_seconds * 500 for victim in victims),
                "memory": sum(victim.ran_seconds * GIB for victim in victims),
            },
            would_refuse=(PolicyVeto("audit-batch", "victimMinRuntime", AUDITED),)
            if i % 4 == 0
            else (),
        )
        evicted = 0 if phase == "nominating" else count
        verdict, impact = verdicts.of_preemption(view, evicted, violations)
        return replace(view, verdict=verdict, impact=impact)

    def _victim(self, i: int, number: int, *, active: bool) -> VictimView:
        again = None
        if not active and number == 0:
            pod = _pod("batch", f"train-{i}-again", 0, i)
            again = (
                Replacement(pod, _node_name(1)) if i % 2 else Replacement(pod, "", "0/12 nodes fit")
            )
        return VictimView(
            pod=_pod("batch", f"train-{i}-{number}", 0, number),
            ran_seconds=600.0 + 61 * i,
            state=("terminating" if number else "evicting") if active else "gone",
            violates_pdb=i % 8 == 5 and number == 0,
            budgets=("batch/train",) if i % 8 == 5 and number == 0 else (),
            evicted_at=at(20.0 + i * 97),
            wasted=not active and i % 5 >= 3,
            replacement=again,
        )


def _key(pod: PodView) -> str:
    return f"{pod.namespace}/{pod.name}"


def _team(i: int) -> str:
    return ("prod", "batch", "team-a", "team-b")[i % 4]


def _node_name(i: int) -> str:
    return f"node-{i:04}"


def _labels(i: int) -> Mapping[str, str]:
    return {
        "kubernetes.io/hostname": _node_name(i),
        "topology.kubernetes.io/zone": ZONES[i % len(ZONES)],
        "example.com/pool": POOLS[i % len(POOLS)],
    }


def _pod(namespace: str, name: str, priority: int, i: int) -> PodView:
    owner = None if i % 5 == 4 else OwnerView("Deployment", name.rpartition("-")[0] or name)
    requests = {"cpu": 250 * (1 + i % 8), "memory": GIB // 2 * (1 + i % 4)}
    uid = f"00000000-0000-4000-8000-{abs(hash_of(namespace + name)):012x}"
    return PodView(namespace, name, uid, owner=owner, priority=priority, requests=requests)


def hash_of(text: str) -> int:
    """Return a number that is the same in each process, unlike `hash`."""
    number = 7
    for byte in text.encode():
        number = (number * 31 + byte) % 2**47
    return number


def _candidate(i: int, rank: int, victims: int, violations: int) -> CandidateView:
    """Return a node that needs `victims`, of which some violate a budget, or more of both."""
    highest = 0 if rank < 2 else 1_000
    values = {
        "pdbViolations": violations + (rank == 3),
        "highestPriority": highest,
        "prioritySum": highest + (victims + rank) * 2**31,
        "victims": victims + rank,
        "earliestStart": at(4_000.0 - rank),
    }
    lost_by = ("", "prioritySum", "highestPriority", "pdbViolations")[rank]
    return CandidateView(_node_name(i), values, lost_by)


def _message(total: int, *reasons: tuple[int, str]) -> str:
    """Return kube-scheduler's message of a pod that fits on none of so many nodes."""
    counted = ", ".join(sorted(f"{count} {reason}" for count, reason in reasons if count))
    return f"0/{total} nodes are available: {counted}."


def _attempts(pending: PendingPodView, message: str) -> Iterator[AttemptView]:
    for number in range(min(3, pending.attempts)):
        yield AttemptView(at(10.0 + 30 * number), "Unschedulable", message=message,
                          repeated=number)  # fmt: skip
