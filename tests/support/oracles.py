"""What kube-scheduler decides, worked out the slow way: one node, one pod, one rule at a time.

Written from the rules and not from the scheduler's code: plain loops over API objects, no columns,
nothing kept. Covers resources, host ports, taints, cordons, node selectors, nominated pods,
budgets and preemption, for pods whose containers name whole requests; and what this scheduler does
otherwise: no node is chosen on which a victim hangs, and capacity that is freed for a preemptor
that does not come is taken before other pods are evicted.

The file is longer than others because an oracle must be read as a whole.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api import quantity
from scheduler.model.api.objects import Node, Pod, PodDisruptionBudget

__all__ = ["Nomination", "Verdict", "View", "preemption", "unschedulable"]

HARD = ("NoSchedule", "NoExecute")
CORDON = "node.kubernetes.io/unschedulable"

Port = tuple[str, str, int]


class Nomination(NamedTuple):
    """A pod that is nominated to a node."""

    pod: Pod
    node: str


@dataclass
class View:
    """A cluster: nodes by name, the pods on them in NodeInfo order, nominations, budgets."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, list[Pod]] = field(default_factory=dict)
    nominations: list[Nomination] = field(default_factory=list)
    budgets: list[PodDisruptionBudget] = field(default_factory=list)
    #: Uids of pods that were evicted for a preemptor.
    evicted: set[str] = field(default_factory=set)
    #: Uids of evicted pods whose grace period is over.
    overdue: set[str] = field(default_factory=set)
    #: Nodes with capacity that is being freed for preemptors that do not need it any more.
    freed: set[str] = field(default_factory=set)
    #: What is remembered against evicting some pods from a node for a pod; empty for nothing. What
    #: is remembered is a fact here, as nodes are.
    memory: Callable[[Pod, str, Sequence[Pod]], tuple[str, ...]] = lambda pod, node, victims: ()

    @classmethod
    def of(cls, machine: Machine, budgets: Iterable[PodDisruptionBudget] = ()) -> "View":
        """Return the cluster as a machine knows it, with its disruption budgets."""
        cluster = machine.cluster
        columns = cluster.columns
        view = cls(
            nominations=[Nomination(each.pod, each.node) for each in cluster.nominations],
            budgets=list(budgets),
            overdue=set(cluster.overdue),
            freed=set(machine.preemptions.facts.nodes_with_unneeded_victims()),
        )
        for row, node in enumerate(columns.nodes):
            if node is not None:
                on_row = [cluster.pods.pod(slot) for slot in cluster.pods.on_row(row)]
                view.nodes[node.metadata.name] = node
                view.pods[node.metadata.name] = on_row
                view.evicted |= {pod.uid for pod in on_row if cluster.is_being_preempted(pod)}
        return view


# One pod, one node --------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """Why a node does not take a pod."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool


def requests(pod: Pod) -> dict[str, int]:
    """Return the sum over the containers, milli-units for cpu."""
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        for name, text in container.resources.requests.items():
            total[name] = total.get(name, 0) + _amount(name, str(text))
    return total


def _amount(name: str, text: str) -> int:
    return quantity.milli_value(text) if name == "cpu" else quantity.value(text)


class NodePods:
    """The pods on a node, and the host ports in use there.

    Ports are a set: where two pods use the same one, removing the first of them frees it.
    """

    def __init__(self, pods: Iterable[Pod]) -> None:
        self.pods: list[Pod] = []
        self.ports: set[Port] = set()
        for pod in pods:
            self.add(pod)

    def add(self, pod: Pod) -> None:
        self.pods.append(pod)
        self.ports.update(_ports(pod))

    def remove(self, pod: Pod) -> None:
        self.pods.remove(pod)
        self.ports.difference_update(_ports(pod))

    def copy(self) -> "NodePods":
        other = NodePods(())
        other.pods, other.ports = list(self.pods), set(self.ports)
        return other


def judge(pod: Pod, node: Node, node_pods: NodePods) -> Verdict | None:
    """Return why a node with some pods on it does not take another, `None` when it does."""
    for rule in (_cordoned, _tainted, _not_selected):
        verdict = rule(pod, node)
        if verdict is not None:
            return verdict
    return _port_taken(pod, node_pods.ports) or _no_capacity(pod, node, node_pods.pods)


def _cordoned(pod: Pod, node: Node) -> Verdict | None:
    if node.spec.unschedulable and not _tolerated(pod, CORDON, "", "NoSchedule"):
        return Verdict("NodeUnschedulable", ("node(s) were unschedulable",), resolvable=False)
    return None


def _tainted(pod: Pod, node: Node) -> Verdict | None:
    for taint in node.spec.taints:
        if taint.effect in HARD and not _tolerated(pod, taint.key, taint.value, taint.effect):
            return Verdict("TaintToleration", ("node(s) had untolerated taint(s)",), False)
    return None


def _tolerated(pod: Pod, key: str, value: str, effect: str) -> bool:
    return any(
        each.effect in ("", effect)
        and each.key in ("", key)
        and (each.operator == "Exists" or (each.operator in ("", "Equal") and each.value == value))
        for each in pod.spec.tolerations
    )


def _not_selected(pod: Pod, node: Node) -> Verdict | None:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in (pod.spec.node_selector or {}).items()):
        reason = "node(s) didn't match Pod's node affinity/selector"
        return Verdict("NodeAffinity", (reason,), resolvable=False)
    return None


def _ports(pod: Pod) -> list[Port]:
    return [
        (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    ]


def _port_taken(pod: Pod, used: set[Port]) -> Verdict | None:
    for address, *wanted in _ports(pod):
        for their_address, *theirs in used:
            if wanted == theirs and (
                address == their_address or "0.0.0.0" in (address, their_address)
            ):
                reason = "node(s) didn't have free ports for the requested pod ports"
                return Verdict("NodePorts", (reason,), resolvable=True)
    return None


def _no_capacity(pod: Pod, node: Node, others: Sequence[Pod]) -> Verdict | None:
    has = {name: _amount(name, str(text)) for name, text in node.status.allocatable.items()}
    used: dict[str, int] = {}
    for other in others:
        for name, amount in requests(other).items():
            used[name] = used.get(name, 0) + amount
    reasons, unresolvable = [], False
    if len(others) + 1 > has.get("pods", 0):
        reasons.append("Too many pods")
    first = ["cpu", "memory", "ephemeral-storage"]
    wanted = requests(pod)
    for name in [*first, *sorted(set(wanted) - set(first))]:
        need = wanted.get(name, 0)
        if need > 0 and need > has.get(name, 0) - used.get(name, 0):
            reasons.append(f"Insufficient {name}")
            unresolvable = unresolvable or need > has.get(name, 0)
    return Verdict("NodeResourcesFit", tuple(reasons), not unresolvable) if reasons else None


# One pod, the cluster -----------------------------------------------------------------------------


def _respected(view: View, pod: Pod, node: str) -> list[Pod]:
    """Return the nominated pods that a pod has to respect on a node."""
    return [
        each.pod
        for each in view.nominations
        if each.node == node and each.pod.priority >= pod.priority and each.pod.uid != pod.uid
    ]


def judge_with_nominated(view: View, pod: Pod, node: str, node_pods: NodePods) -> Verdict | None:
    """Evaluate a node with the nominated pods on it, and then without."""
    nominated = _respected(view, pod, node)
    if nominated:
        more = node_pods.copy()
        for other in nominated:
            more.add(other)
        verdict = judge(pod, view.nodes[node], more)
        if verdict is not None:
            return verdict
    return judge(pod, view.nodes[node], node_pods)


def verdicts(view: View, pod: Pod) -> dict[str, Verdict | None]:
    """Return, for each node, why it does not take the pod."""
    return {
        name: judge_with_nominated(view, pod, name, NodePods(view.pods[name]))
        for name in view.nodes
    }


def feasible(view: View, pod: Pod) -> list[str]:
    """Return the nodes that the pod may go to: the one it is nominated to, if that takes it."""
    found = [name for name, verdict in verdicts(view, pod).items() if verdict is None]
    own = [each.node for each in view.nominations if each.pod.uid == pod.uid]
    return own if own and own[0] in found else found


# Preemption ---------------------------------------------------------------------------------------


class Candidate(NamedTuple):
    """A node, and its victims, most important first."""

    node: str
    victims: tuple[Pod, ...]
    violations: int


def _started(pod: Pod) -> float:
    moment = times.parse(pod.status.start_time)
    return float("inf") if moment is None else moment


def _by_importance(pods: Sequence[Pod]) -> list[Pod]:
    """Sort: higher priority first, then the earlier start; see also below.

    An insertion sort whose comparison is always true for two pods that have not started (each
    counts as starting now, one after the other) turns the order of such pods around.
    """
    ordered: list[Pod] = []
    for pod in pods:
        place = len(ordered)
        while place and _more_important(pod, ordered[place - 1]):
            place -= 1
        ordered.insert(place, pod)
    return ordered


def _more_important(pod: Pod, other: Pod) -> bool:
    if pod.priority != other.priority:
        return pod.priority > other.priority
    if _started(pod) == _started(other) == float("inf"):
        return True
    return _started(pod) < _started(other)


def _violating(view: View, pods: Sequence[Pod]) -> set[str]:
    """Return the uids of pods that overdraw a budget, charged in the order given."""
    left = {each.metadata.name: each.status.disruptions_allowed for each in view.budgets}
    found = set()
    for pod in pods:
        for budget in view.budgets:
            if _protects(budget, pod) and pod.metadata.name not in budget.status.disrupted_pods:
                left[budget.metadata.name] -= 1
                if left[budget.metadata.name] < 0:
                    found.add(pod.uid)
    return found


def _protects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Return whether a budget, by labels only, protects a pod."""
    selector = budget.spec.selector
    if selector is None or not selector.match_labels or not pod.metadata.labels:
        return False
    same = budget.metadata.namespace == pod.metadata.namespace
    labels = pod.metadata.labels
    return same and all(labels.get(key) == value for key, value in selector.match_labels.items())


def dry_run(view: View, pod: Pod, node: str) -> Candidate | Verdict:
    """Return the victims on a node for a pod, or why nothing helps."""
    lower = [other for other in view.pods[node] if other.priority < pod.priority]
    if not lower:
        return Verdict(
            "DefaultPreemption", ("No preemption victims found for incoming pod",), False
        )
    node_pods = NodePods(view.pods[node])
    for other in lower:
        node_pods.remove(other)
    verdict = judge_with_nominated(view, pod, node, node_pods)
    if verdict is not None:
        return verdict
    ordered = _by_importance(lower)
    violating = _violating(view, ordered)
    victims = []
    for first in (True, False):
        for other in ordered:
            if (other.uid in violating) is first:
                node_pods.add(other)
                if judge_with_nominated(view, pod, node, node_pods) is not None:
                    node_pods.remove(other)
                    victims.append(other)
    if len({other.uid in violating for other in ordered}) > 1:
        victims = _by_importance(victims)
    return Candidate(node, tuple(victims), sum(other.uid in violating for other in victims))


def _eligible(view: View, pod: Pod, found: dict[str, Verdict | None]) -> str:
    """Return why a pod must not preempt; empty when it may."""
    if pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    own = [each.node for each in view.nominations if each.pod.uid == pod.uid]
    if own and own[0] in found:
        verdict = found[own[0]]
        waits = any(
            other.priority < pod.priority and _terminates_by_preemption(view, other)
            for other in view.pods[own[0]]
        )
        if verdict is not None and verdict.resolvable and waits:
            return "not eligible due to a terminating pod on the nominated node."
    return ""


def _terminates_by_preemption(view: View, pod: Pod) -> bool:
    target = pod.condition("DisruptionTarget")
    by_status = (
        pod.terminating
        and target is not None
        and (target.status, target.reason) == ("True", "PreemptionByScheduler")
    )
    return by_status or pod.uid in view.evicted


def preemption(view: View, pod: Pod) -> list[Candidate] | str:
    """Return the candidates among which only chance decides, or what is said instead."""
    found = verdicts(view, pod)
    refusal = _eligible(view, pod, found)
    if refusal:
        return refusal
    runs = {
        name: dry_run(view, pod, name)
        for name, verdict in found.items()
        if verdict is not None and verdict.resolvable
    }
    found_runs = [run for run in runs.values() if isinstance(run, Candidate) and run.victims]
    objections = {run.node: _objections(view, pod, run) for run in found_runs}
    candidates = [run for run in found_runs if not objections[run.node]]
    if candidates:
        return _best(candidates)
    reasons = Counter(text for said in objections.values() for text in said)
    for run in runs.values():
        if isinstance(run, Verdict):
            reasons.update(run.reasons)
    rest = len(view.nodes) - len(objections)
    rest -= sum(isinstance(run, Verdict) for run in runs.values())
    if rest:
        reasons["Preemption is not helpful for scheduling"] += rest
    return _listed(view, reasons)


def _objections(view: View, pod: Pod, candidate: Candidate) -> tuple[str, ...]:
    """Return why a candidate must not be tried now; nothing when it may."""
    said = view.memory(pod, candidate.node, candidate.victims)
    hangs = any(victim.uid in view.overdue for victim in candidate.victims)
    return (HANGS, *said) if hangs else said


HANGS = "node(s) with an evicted pod that does not terminate"


def capacity_being_freed(view: View, pod: Pod) -> dict[str, set[str]]:
    """Return the nodes on which a pod only has to wait for terminating pods.

    Pods were evicted there for a preemptor that does not need the node any more; without them the
    pod fits.
    No pod waits for one that hangs.

    Returns:
        The uids of the terminating pods, by node.
    """
    found = {}
    for node in sorted(view.freed & view.nodes.keys()):
        leaving = [
            each for each in view.pods[node]
            if _terminates_by_preemption(view, each) and each.uid not in view.overdue
        ]  # fmt: skip
        node_pods = NodePods(view.pods[node])
        for each in leaving:
            node_pods.remove(each)
        if leaving and judge_with_nominated(view, pod, node, node_pods) is None:
            found[node] = {each.uid for each in leaving}
    return found


def needs_no_eviction(view: View, candidate: Candidate) -> bool:
    """Return whether all victims of a candidate terminate already."""
    return all(victim.terminating or victim.uid in view.evicted for victim in candidate.victims)


def _best(candidates: list[Candidate]) -> list[Candidate]:
    """Keep only the best by each criterion in turn."""
    criteria: list[Callable[[Candidate], float]] = [
        lambda each: each.violations,
        lambda each: each.victims[0].priority,
        lambda each: sum(victim.priority + 2**31 for victim in each.victims),
        lambda each: len(each.victims),
        lambda each: (
            -min(
                _started(victim)
                for victim in each.victims
                if victim.priority == each.victims[0].priority
            )
        ),
    ]
    for criterion in criteria:
        best = min(criterion(each) for each in candidates)
        candidates = [each for each in candidates if criterion(each) == best]
    return candidates


def unschedulable(view: View, pod: Pod) -> str:
    """Return the message for a pod that fits nowhere, without what preemption says."""
    reasons: Counter[str] = Counter()
    for verdict in verdicts(view, pod).values():
        if verdict is not None:
            reasons.update(verdict.reasons)
    return _listed(view, reasons)


def _listed(view: View, reasons: Counter[str]) -> str:
    parts = sorted(f"{count} {reason}" for reason, count in reasons.items())
    listed = f" {', '.join(parts)}." if parts else ""
    return f"0/{len(view.nodes)} nodes are available:{listed}"
