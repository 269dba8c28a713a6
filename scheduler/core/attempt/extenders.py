"""What extenders say in an attempt: which nodes they take, how good those are, whom to preempt.

Each function is a conversation: a generator that yields questions, all of which may be asked at
once, and is sent their answers. The world goes on meanwhile: whoever takes part in a conversation
looks at the cluster anew when it is over.

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
    "anyone",
    "consent",
    "is_same",
    "preemptions",
    "scores",
]

T = TypeVar("T")
#: A conversation that ends with a `T`.
Conversation: TypeAlias = Generator[tuple[Question, ...], tuple[ExtenderAnswer, ...], T]
#: Extenders with their places among those that are configured.
IndexedExtenders: TypeAlias = Sequence[tuple[int, Extender]]

_NOT_ASKED: Final = Verdict(
    EXTENDER, ("node(s) began to fit while an extender was asked",), resolvable=False
)
#: Scores beyond it are cut, so that sums stay within 64 bits.
_MOST: Final = 2**56


class ExtenderFailedError(PluginError):
    """An extender that must not be ignored failed."""


class UnknownVictimError(ExtenderFailedError):
    """It named a node or a victim that is not there; perhaps it was when it was asked."""


@dataclass(frozen=True, slots=True)
class ExtenderFilterResult:
    """What the extenders of an attempt think of nodes."""

    #: Names of the nodes that they were asked about, and of those that all of them take.
    asked: frozenset[str]
    accepted: frozenset[str]
    #: Why they do not take others; those that they dropped without a word are not in it.
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)

    def verdict(self, node: str, silent: Verdict) -> Verdict:
        """Return why a node is not taken; `silent` where nobody gave a reason."""
        return self.verdicts.get(node, silent if node in self.asked else _NOT_ASKED)

    def of_scored(self, nodes: Iterable[str]) -> "ExtenderFilterResult":
        """Return the consent on those nodes only that were scored; others count as not asked."""
        scored = frozenset(nodes)
        return ExtenderFilterResult(self.asked - (self.accepted - scored), scored, self.verdicts)


def anyone(extenders: IndexedExtenders, asked: Verb) -> bool:
    """Tell whether there is an extender to ask this."""
    return any(verb(each, asked) for _, each in extenders)


def consent(
    extenders: IndexedExtenders, nodes: Sequence[str]
) -> Conversation[ExtenderFilterResult]:
    """Ask one extender after the other which nodes take the pod, each about what is left.

    Raises:
        ExtenderError: One failed that must not be ignored.
    """
    verdicts: dict[str, Verdict] = {}
    left = tuple(nodes)
    for place, extender in _with(extenders, Verb.FILTER):
        if not left:
            break
        (answer,) = yield (Question(place, Verb.FILTER, left),)
        if isinstance(answer, Filtered):
            for node, reason in answer.failed.items():
                verdicts[node] = Verdict(EXTENDER, (reason,), resolvable=True)
            for node, reason in answer.unresolvable.items():
                verdicts[node] = Verdict(EXTENDER, (reason,), resolvable=False)
            left = answer.nodes
        else:
            _overlook(extender, answer)
    return ExtenderFilterResult(frozenset(nodes), frozenset(left), verdicts)


def scores(
    extenders: IndexedExtenders, nodes: Sequence[str]
) -> Conversation[dict[str, Mapping[str, int]]]:
    """Ask all extenders at once how good nodes are.

    Returns:
        By extender and node, weighted and scaled to the range of our own; one that fails has no
        say.
    """
    asked = _with(extenders, Verb.PRIORITIZE)
    if not asked:
        return {}
    answers = yield tuple(Question(place, Verb.PRIORITIZE, tuple(nodes)) for place, _ in asked)
    found: dict[str, Mapping[str, int]] = {}
    for (_, extender), answer in zip(asked, answers, strict=True):
        if isinstance(answer, Scored):
            sums: Counter[str] = Counter()
            for node, score in answer.scores:
                scaled = score * extender.weight * (MAX_SCORE // MAX_PRIORITY)
                sums[node] += max(-_MOST, min(_MOST, scaled))
            found[extender.url_prefix] = sums
    return found


def preemptions(
    extenders: IndexedExtenders, candidates: Mapping[str, Candidate], cluster: Cluster
) -> Conversation[dict[str, Candidate]]:
    """Ask one extender after the other which preemptions may happen, and whom they cost.

    Raises:
        ExtenderError: One failed that must not be ignored, or named victims that are not there.
    """
    left = dict(candidates)
    for place, extender in _with(extenders, Verb.PREEMPT):
        (answer,) = yield (Question(place, Verb.PREEMPT, victims=_asked(left)),)
        try:
            left = _allowed(extender, answer, cluster)
        except ExtenderFailedError:
            if not extender.ignorable:
                raise
        if not left:
            break
    return left


def is_same(one: Candidate | None, other: Candidate | None) -> bool:
    """Tell whether two preemptions on a node cost the same pods."""
    if one is None or other is None:
        return one is other
    return one.violations == other.violations and (
        [pod.uid for pod in one.victims] == [pod.uid for pod in other.victims]
    )


def _with(extenders: IndexedExtenders, asked: Verb) -> IndexedExtenders:
    return [each for each in extenders if verb(each[1], asked)]


def _overlook(extender: Extender, answer: ExtenderAnswer) -> None:
    """Go on after an answer that cannot be used, if the extender may be ignored.

    Raises:
        ExtenderError: It must not.
    """
    if not extender.ignorable:
        raise ExtenderFailedError(_problem(answer))


def _problem(answer: ExtenderAnswer) -> str:
    return answer.error if isinstance(answer, NoAnswer) else "an answer to another question"


def _asked(candidates: Mapping[str, Candidate]) -> tuple[NodeVictims, ...]:
    return tuple(
        NodeVictims(node, tuple(pod.ref for pod in each.victims), each.violations)
        for node, each in candidates.items()
    )


def _allowed(extender: Extender, answer: ExtenderAnswer, cluster: Cluster) -> dict[str, Candidate]:
    """Return the preemptions of an answer.

    Raises:
        ExtenderError: It cannot be used.
    """
    if not isinstance(answer, ExtenderVictims):
        raise ExtenderFailedError(_problem(answer))
    found: dict[str, Candidate] = {}
    for each in answer.nodes:
        candidate = _candidate(extender, each, cluster)
        if candidate.victims:
            found[each.node] = candidate
        elif not extender.ignorable:
            raise ExtenderFailedError(f'expected at least one victim pod on node "{each.node}"')
    return found


def _candidate(extender: Extender, said: VictimUids, cluster: Cluster) -> Candidate:
    """Return the preemption on one node.

    Raises:
        UnknownVictimError: Node or victims are not there.

    Source: kube-scheduler v1.36.3 extender.go convertToVictims, convertPodUIDToPod.
    """
    columns = cluster.columns
    row = columns.row(said.node)
    if row is None or columns.nodes[row] is None:
        raise UnknownVictimError(f'nodeinfo not found for node name "{said.node}"')
    there = {pod.uid: pod for pod in cluster.pods.pods_on(row)}
    for uid in said.uids:
        if uid not in there:
            raise UnknownVictimError(
                f"extender: {extender.url_prefix} claims to preempt pod (UID: &{{{uid}}}) on node:"
                f" {said.node}, but the pod is not found on that node"
            )
    return Candidate(row, tuple(there[uid] for uid in said.uids), said.violations)
