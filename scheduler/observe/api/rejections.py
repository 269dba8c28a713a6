"""The nodes that reject a pod, by verdict, and the vetoes; collected in parts with pauses.

Thousands of nodes can have as many different verdicts, so nothing here looks at all of them at
once. The results and the nodes are those of the moment of the attempt, whatever changes meanwhile.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.core.attempt.node_results import NodeResult
from scheduler.core.attempt.scheduling_attempt import AttemptResult
from scheduler.core.preemption.dry_run_result import EvictionOutcome
from scheduler.framework.verdicts import Verdict
from scheduler.model.api.objects import Node, Pod
from scheduler.model.messages import joined
from scheduler.model.policy_vetoes import EVICT_ONLY, RuleVeto, ending
from scheduler.model.rest import explanations
from scheduler.model.rest.preemptions import PolicyVeto
from scheduler.model.times import Seconds, earliest
from scheduler.observe.api.lists import slices
from scheduler.observe.api.verdicts import NOTHING_LOWER, STILL_NOT
from scheduler.state.cluster import Cluster

__all__ = [
    "KEPT",
    "NEVER",
    "NOTHING_TO_EVICT",
    "Rejections",
    "VetoCounts",
    "eviction_text",
    "grouped",
    "helps",
    "nodes_by_name",
    "veto_text",
]

#: What a node says about evictions there.
YES: Final = "yes"
NEVER: Final = "the pod never preempts"
NOTHING_TO_EVICT: Final = "nothing to evict"
#: Why evictions free too few devices, or are not tried.
KEPT: Final = "the devices are kept for pods that preempted for them"
_DEVICES: Final = {
    EvictionOutcome.DEVICES_HELD_BY_HIGHER: "pods of its priority or higher have the devices",
    EvictionOutcome.DEVICES_NOMINATED: KEPT,
    EvictionOutcome.DEVICES_HELD_ELSEWHERE: "pods that are not on the node have the devices",
    EvictionOutcome.DEVICES_UNRESERVED: "a claim that no pod has reserved has the devices",
    EvictionOutcome.DEVICES_HELD_BY_OTHERS: "consumers that are no pods have the devices",
    EvictionOutcome.TOO_FEW_DEVICES: "the node has too few devices for its claims",
    EvictionOutcome.NOT_TRIED: "not tried, too many nodes differ",
}
#: Nodes, and verdicts, that are looked at in one slice: less than a millisecond.
_SLICE: Final = 200
#: How many nodes are named as examples of a verdict.
_EXAMPLES: Final = 5


class VetoCounts:
    """On how many nodes each veto forbids evictions, and when the first of these ends.

    Vetoes on many nodes often differ in nothing but their ends.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], tuple[int, Seconds | None]] = {}

    def add(self, veto: object, nodes: int = 1) -> None:
        """Add a veto on some nodes."""
        until = veto.until if isinstance(veto, RuleVeto) else None
        key = _without_end(veto)
        count, known = self._found.get(key, (0, None))
        self._found[key] = count + nodes, earliest((known, until))

    def views(self) -> tuple[PolicyVeto, ...]:
        """Return them by policy, rule and text."""
        return tuple(
            PolicyVeto(policy, rule, f"{text}{ending(until)}", nodes)
            for (policy, rule, text), (nodes, until) in sorted(self._found.items())
        )


class Rejections(NamedTuple):
    """The nodes that reject a pod, by verdict, and the vetoes on all nodes."""

    #: The names of the nodes with each verdict that rejects the pod, in order.
    names: dict[Verdict, list[str]]
    #: For each of these verdicts, what evictions would mean, and on how many nodes.
    evictions: dict[Verdict, Counter[str]]
    #: On how many nodes each veto forbids evictions.
    veto_counts: VetoCounts

    async def verdicts(self) -> tuple[explanations.RejectionGroup, ...]:
        """Return why nodes reject the pod, by plugin and reason, the most frequent ones first."""
        counts: Counter[tuple[str, str]] = Counter()
        examples: dict[tuple[str, str], list[str]] = {}
        resolvable: dict[tuple[str, str], bool] = {}
        evictions: dict[tuple[str, str], Counter[str]] = {}
        for part in slices(self.names.items(), _SLICE):
            for verdict, names in part:
                plugin = verdict.plugin or verdict.shown_as
                for reason in verdict.reasons:
                    key = (plugin, reason)
                    counts[key] += len(names)
                    known = examples.get(key, [])
                    examples[key] = sorted([*known, *names[:_EXAMPLES]])[:_EXAMPLES]
                    resolvable[key] = resolvable.get(key, False) or verdict.resolvable
                    evictions.setdefault(key, Counter()).update(self.evictions[verdict])
            await asyncio.sleep(0)
        found = sorted((-nodes, *key) for key, nodes in counts.items())
        views: list[explanations.RejectionGroup] = []
        for some in slices(found, _SLICE):
            await asyncio.sleep(0)
            views += [
                explanations.RejectionGroup(
                    plugin,
                    reason,
                    -nodes,
                    resolvable[plugin, reason],
                    tuple(examples[plugin, reason]),
                    eviction_text(evictions[plugin, reason]),
                )
                for nodes, plugin, reason in some
            ]
        return tuple(views)

    async def rejected_by(self, plugin: str, nodes: Mapping[str, Node]) -> list["RejectedNode"]:
        """Return the nodes that a plugin rejects, in the order of their names.

        Args:
            plugin: The name of the plugin.
            nodes: The nodes at the moment of the attempt, by name.
        """
        found: list[RejectedNode] = []
        for part in slices(self.names.items(), _SLICE):
            for verdict, names in part:
                if verdict.plugin == plugin:
                    found += [RejectedNode(name, nodes[name], verdict.reasons) for name in names]
            await asyncio.sleep(0)
        found.sort(key=_name)
        return found


class RejectedNode(NamedTuple):
    """A node that a plugin rejects."""

    name: str
    node: Node
    reasons: Sequence[str]


def _name(rejected: RejectedNode) -> str:
    return rejected.name


def nodes_by_name(cluster: Cluster) -> dict[str, Node]:
    """Return all nodes of this moment by name, some 0.3 ms for 5,000."""
    columns = cluster.columns
    return {
        name: node
        for name, node in zip(columns.names, columns.nodes, strict=True)
        if node is not None
    }


async def grouped(pod: Pod, result: AttemptResult) -> Rejections:
    """Group the results of an attempt for a pod."""
    found = Rejections({}, {}, VetoCounts())
    refusal = _refusal(pod, result)
    for part in slices(result.results, _SLICE):
        for each in part:
            _collect(each, refusal, found)
        await asyncio.sleep(0)
    return found


def _collect(each: NodeResult, refusal: str, found: Rejections) -> None:
    verdict = each.verdict
    if verdict is not None:
        found.names.setdefault(verdict, []).append(each.name)
        evictions = found.evictions.setdefault(verdict, Counter())
        if verdict.resolvable or each.outcome in _DEVICES:
            evictions[helps(each.outcome, each.vetoes, refusal)] += 1
    for veto in each.vetoes:
        found.veto_counts.add(veto)


def _refusal(pod: Pod, result: AttemptResult) -> str:
    """Return why the pod evicts no pod on any node; empty where it may."""
    post_filter = result.post_filter
    if post_filter.candidate is not None:
        return ""
    if pod.spec.preemption_policy == "Never":
        return NEVER
    if not post_filter.preemption_tried:
        return "its profile does not preempt"
    if result.vetoes:
        return joined(sorted({_source(veto) for veto in result.vetoes}))
    if post_filter.blocked:
        return "preemption is paused"
    return "evicted pods still terminate" if post_filter.keeps_nomination else NOTHING_TO_EVICT


def helps(outcome: EvictionOutcome | None, vetoes: Sequence[object], refusal: str) -> str:
    """Return whether evictions help, or why not, on nodes with an outcome.

    Args:
        outcome: That of a dry run; `None` without one.
        vetoes: What forbids evictions there.
        refusal: Why the pod evicts no pod on any node; empty where it may.
    """
    if outcome is EvictionOutcome.NO_VICTIMS:
        return NOTHING_LOWER
    if outcome is EvictionOutcome.NOT_ENOUGH:
        return STILL_NOT
    if outcome in _DEVICES:
        return _DEVICES[outcome]
    if outcome is not None and vetoes:
        return joined(sorted({_source(veto) for veto in vetoes}))
    if outcome is EvictionOutcome.HELPS and not refusal:
        return YES
    return refusal or "policies spare the pods there"


def _source(veto: object) -> str:
    """Return what forbids evictions, in a few words."""
    if isinstance(veto, RuleVeto):
        return f'policy "{veto.policy}"' if veto.policy != EVICT_ONLY else "--evict-only"
    return "earlier preemptions did not help"


def eviction_text(nodes: Counter[str]) -> str:
    """Return whether evictions help on some nodes.

    Args:
        nodes: How many nodes say what; empty where evictions cannot lift the rejection.
    """
    if not nodes:
        return "no"
    if YES in nodes:
        others = nodes.total() - nodes[YES]
        return f"yes, on {nodes[YES]} of {nodes.total()}" if others else YES
    if len(nodes) == 1:
        return f"no: {next(iter(nodes))}"
    return f"no: {', '.join(f'{why} ({number})' for why, number in nodes.most_common())}"


def veto_text(veto: object) -> str:
    """Return why a veto forbids evictions, and until when."""
    end = ending(veto.until) if isinstance(veto, RuleVeto) else ""
    return f"{_without_end(veto)[2]}{end}"


def _without_end(veto: object) -> tuple[str, str, str]:
    """Return policy, rule and text; failed preemptions of the past are no policy's."""
    if isinstance(veto, RuleVeto):
        return veto.policy, veto.rule.value, veto.text
    return "", "failedPreemptions", str(getattr(veto, "text", ""))
