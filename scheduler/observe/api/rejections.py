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
from scheduler.framework.verdicts import Verdict
from scheduler.model.api.objects import Node
from scheduler.model.policy_vetoes import RuleVeto, ending
from scheduler.model.rest import explanations
from scheduler.model.rest.preemptions import PolicyVeto
from scheduler.model.times import Seconds, earliest
from scheduler.observe.api.lists import slices
from scheduler.state.cluster import Cluster

__all__ = ["Rejections", "VetoCounts", "grouped", "nodes_by_name", "veto_text"]

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
    #: On how many nodes each veto forbids evictions.
    veto_counts: VetoCounts

    async def verdicts(self) -> tuple[explanations.RejectionGroup, ...]:
        """Return why nodes reject the pod, by plugin and reason, the most frequent ones first."""
        counts: Counter[tuple[str, str]] = Counter()
        examples: dict[tuple[str, str], list[str]] = {}
        resolvable: dict[tuple[str, str], bool] = {}
        for part in slices(self.names.items(), _SLICE):
            for verdict, names in part:
                plugin = verdict.plugin or verdict.shown_as
                for reason in verdict.reasons:
                    key = (plugin, reason)
                    counts[key] += len(names)
                    known = examples.get(key, [])
                    examples[key] = sorted([*known, *names[:_EXAMPLES]])[:_EXAMPLES]
                    resolvable[key] = resolvable.get(key, False) or verdict.resolvable
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


async def grouped(result: AttemptResult) -> Rejections:
    """Group the results of an attempt."""
    names: dict[Verdict, list[str]] = {}
    veto_counts = VetoCounts()
    for part in slices(result.results, _SLICE):
        for each in part:
            _collect(each, names, veto_counts)
        await asyncio.sleep(0)
    return Rejections(names, veto_counts)


def _collect(each: NodeResult, names: dict[Verdict, list[str]], veto_counts: VetoCounts) -> None:
    if each.verdict is not None:
        names.setdefault(each.verdict, []).append(each.name)
    for veto in each.vetoes:
        veto_counts.add(veto)


def veto_text(veto: object) -> str:
    """Return why a veto forbids evictions, and until when."""
    end = ending(veto.until) if isinstance(veto, RuleVeto) else ""
    return f"{_without_end(veto)[2]}{end}"


def _without_end(veto: object) -> tuple[str, str, str]:
    """Return policy, rule and text; failed preemptions of the past are no policy's."""
    if isinstance(veto, RuleVeto):
        return veto.policy, veto.rule.value, veto.text
    return "", "failedPreemptions", str(getattr(veto, "text", ""))
