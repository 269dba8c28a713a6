"""Extenders in an attempt: they filter nodes, score them, and choose victims.

Each function is a generator. It yields batches of extender calls, which may run concurrently, and
receives their responses. The cluster may change in between, so the caller reads the cluster again
after the generator has ended.

Source: kube-scheduler v1.36.3 schedule_one.go findNodesThatPassExtenders, prioritizeNodes;
framework/preemption.callExtenders.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from scheduler.config.settings import Extender
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.framework.extender_protocol import EXTENDER, MAX_PRIORITY, verb
from scheduler.framework.plugin import MAX_SCORE, PluginError
from scheduler.framework.verdicts import Verdict
from scheduler.model.effects import NodeVictims, Question, Verb
from scheduler.model.extender_answers import (
    ExtenderAnswer,
    ExtenderVictims,
    Filtered,
    NoAnswer,
    Scored,
    VictimUids,
)
from scheduler.state.cluster import Cluster

__all__ = [
    "Conversation",
    "ExtenderFailedError",
    "ExtenderFilterResult",
    "UnknownVictimError",
    "allowed_preemptions",
    "filter_nodes",
    "has_verb",
    "is_same",
    "score_nodes",
    "without_preemption",
]

T = TypeVar("T")
#: A conversation that ends with a `T`.
Conversation: TypeAlias = Generator[tuple[Question, ...], tuple[ExtenderAnswer, ...], T]
#: Extenders with their indices in the profile.
IndexedExtenders: TypeAlias = Sequence[tuple[int, Extender]]

_NOT_ASKED: Final = Verdict(
    EXTENDER, ("node(s) became feasible after the extender was called",), resolvable=False
)
#: Why a candidate is refused that an extender drops without a reason.
_DROPPED: Final = Verdict(
    EXTENDER, ("node(s) refused by an extender before the preemption",), resolvable=False
)
#: Scores beyond it are cut, so that sums stay within 64 bits.
_MAX_SCALED: Final = 2**56


class ExtenderFailedError(PluginError):
    """An extender that must not be ignored failed."""


class UnknownVictimError(ExtenderFailedError):
    """An extender named a node or a victim that does not exist, or does not exist any more."""


@dataclass(frozen=True, slots=True)
class ExtenderFilterResult:
    """The nodes that the extenders of an attempt were asked about, and their verdicts."""

    #: Names of the nodes that they were asked about, and of those that all of them accept.
    asked: frozenset[str]
    accepted: frozenset[str]
    #: Why they reject nodes; nodes that they dropped without a reason are not in it.
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)

    def verdict(self, node: str, silent: Verdict) -> Verdict:
        """Return why a node is rejected; `silent` where no extender gave a reason."""
        return self.verdicts.get(node, silent if node in self.asked else _NOT_ASKED)

    def refused(self) -> dict[str, Verdict]:
        """Return why nodes are rejected that the extenders were asked about before a preemption."""
        return {node: self.verdict(node, _DROPPED) for node in self.asked - self.accepted}

    def limited_to(self, nodes: Iterable[str]) -> "ExtenderFilterResult":
        """Return the result for the scored nodes only; other accepted nodes count as not asked."""
        scored = frozenset(nodes)
        return ExtenderFilterResult(self.asked - (self.accepted - scored), scored, self.verdicts)


def has_verb(extenders: IndexedExtenders, asked: Verb) -> bool:
    """Return whether an extender has this verb."""
    return any(verb(extender, asked) for _, extender in extenders)


def without_preemption(extenders: IndexedExtenders) -> IndexedExtenders:
    """Return the extenders that filter nodes and do not take part in preemption otherwise."""
    return [item for item in _with(extenders, Verb.FILTER) if not verb(item[1], Verb.PREEMPT)]


def filter_nodes(
    extenders: IndexedExtenders, nodes: Sequence[str]
) -> Conversation[ExtenderFilterResult]:
    """Ask one extender after the other which nodes take the pod, each about the remaining ones.

    Raises:
        ExtenderFailedError: An extender failed that must not be ignored.
    """
    verdicts: dict[str, Verdict] = {}
    remaining = tuple(nodes)
    for index, extender in _with(extenders, Verb.FILTER):
        if not remaining:
            break
        (answer,) = yield (Question(index, Verb.FILTER, remaining),)
        if isinstance(answer, Filtered):
            for node, reason in answer.failed.items():
                verdicts[node] = Verdict(EXTENDER, (reason,), resolvable=True)
            for node, reason in answer.unresolvable.items():
                verdicts[node] = Verdict(EXTENDER, (reason,), resolvable=False)
            remaining = answer.nodes
        else:
            _ignore(extender, answer)
    return ExtenderFilterResult(frozenset(nodes), frozenset(remaining), verdicts)


def score_nodes(
    extenders: IndexedExtenders, nodes: Sequence[str]
) -> Conversation[dict[str, Mapping[str, int]]]:
    """Call all extenders that score nodes at once; there must be one.

    Returns:
        By extender and node, weighted and scaled to the range of our own scores. An extender that
        fails is left out.
    """
    asked = _with(extenders, Verb.PRIORITIZE)
    answers = yield tuple(Question(index, Verb.PRIORITIZE, tuple(nodes)) for index, _ in asked)
    by_extender: dict[str, Mapping[str, int]] = {}
    for (_, extender), answer in zip(asked, answers, strict=True):
        if isinstance(answer, Scored):
            sums: Counter[str] = Counter()
            for node, score in answer.scores:
                scaled = score * extender.weight * (MAX_SCORE // MAX_PRIORITY)
                sums[node] += max(-_MAX_SCALED, min(_MAX_SCALED, scaled))
            by_extender[extender.url_prefix] = sums
    return by_extender


def allowed_preemptions(
    extenders: IndexedExtenders, candidates: Mapping[str, Candidate], cluster: Cluster
) -> Conversation[dict[str, Candidate]]:
    """Ask one extender after the other which preemptions may happen, and for their victims.

    Raises:
        ExtenderFailedError: An extender failed that must not be ignored, or named victims that do
            not exist.
    """
    remaining = dict(candidates)
    for index, extender in _with(extenders, Verb.PREEMPT):
        (answer,) = yield (Question(index, Verb.PREEMPT, victims=_asked(remaining)),)
        try:
            remaining = _allowed(extender, answer, cluster)
        except ExtenderFailedError:
            if not extender.ignorable:
                raise
        if not remaining:
            break
    return remaining


def is_same(one: Candidate | None, other: Candidate | None) -> bool:
    """Return whether two preemptions on a node have the same victims and violations."""
    if one is None or other is None:
        return one is other
    return one.violations == other.violations and (
        [pod.uid for pod in one.victims] == [pod.uid for pod in other.victims]
    )


def _with(extenders: IndexedExtenders, asked: Verb) -> IndexedExtenders:
    return [item for item in extenders if verb(item[1], asked)]


def _ignore(extender: Extender, answer: ExtenderAnswer) -> None:
    """Ignore an answer that cannot be used, if the extender may be ignored.

    Raises:
        ExtenderFailedError: It must not be ignored.
    """
    if not extender.ignorable:
        raise ExtenderFailedError(_problem(answer))


def _problem(answer: ExtenderAnswer) -> str:
    return (
        answer.error
        if isinstance(answer, NoAnswer)
        else "the extender returned a response of the wrong type for this call"
    )


def _asked(candidates: Mapping[str, Candidate]) -> tuple[NodeVictims, ...]:
    return tuple(
        NodeVictims(node, tuple(pod.ref for pod in candidate.victims), candidate.violations)
        for node, candidate in candidates.items()
    )


def _allowed(extender: Extender, answer: ExtenderAnswer, cluster: Cluster) -> dict[str, Candidate]:
    """Return the preemptions of an answer.

    Raises:
        ExtenderFailedError: The answer cannot be used.
    """
    if not isinstance(answer, ExtenderVictims):
        raise ExtenderFailedError(_problem(answer))
    allowed: dict[str, Candidate] = {}
    for victims in answer.nodes:
        candidate = _candidate(extender, victims, cluster)
        if candidate.victims:
            allowed[victims.node] = candidate
        elif not extender.ignorable:
            raise ExtenderFailedError(f'expected at least one victim pod on node "{victims.node}"')
    return allowed


def _candidate(extender: Extender, victims: VictimUids, cluster: Cluster) -> Candidate:
    """Return the preemption on one node.

    Raises:
        UnknownVictimError: The node or a victim does not exist.

    Source: kube-scheduler v1.36.3 extender.go convertToVictims, convertPodUIDToPod.
    """
    columns = cluster.columns
    row = columns.row(victims.node)
    if row is None or columns.nodes[row] is None:
        raise UnknownVictimError(f'nodeinfo not found for node name "{victims.node}"')
    pods = {pod.uid: pod for pod in cluster.pods.pods_on(row)}
    for uid in victims.uids:
        if uid not in pods:
            raise UnknownVictimError(
                f"extender: {extender.url_prefix} claims to preempt pod (UID: &{{{uid}}}) on node:"
                f" {victims.node}, but the pod is not found on that node"
            )
    return Candidate(row, tuple(pods[uid] for uid in victims.uids), victims.violations)
