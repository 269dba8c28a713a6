"""InterPodAffinity: places pods near to some pods and away from others, by topology domain.

Filters by the required terms of the incoming pod and the required anti-affinity of running pods.
Scores by preferred terms of both, and by the required affinity of running pods.

Source: kube-scheduler v1.36.3 plugins/interpodaffinity.

Axes: n rows of a view, D values of a label and *absent*.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import (
    MAX_SCORE,
    PASS,
    SKIP,
    CompiledFilter,
    CompiledScore,
    Prepared,
    PrepareStatus,
    Reads,
)
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.releases import OLDEST, Reference
from scheduler.plugins.inter_pod_affinity import hints
from scheduler.plugins.inter_pod_affinity.counters import ExistingTerms, IncomingTerms
from scheduler.plugins.inter_pod_affinity.term_sets import Counted
from scheduler.plugins.invalid_selector import InvalidSelector
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Int, Scores
from scheduler.state.columns.labels import ABSENT, LabelColumn
from scheduler.state.pods import affinity_terms
from scheduler.state.pods.affinity_terms import AffinityTerm, AffinityTerms, TermList
from scheduler.state.views.counters import TopologyCounter
from scheduler.state.views.node_view import NodeView

__all__ = ["InterPodAffinity"]

REASON_AFFINITY: Final = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING: Final = "node(s) didn't satisfy existing pods anti-affinity rules"


#: The rules in their order: the first one that rejects a node names the reason.
_AFFINITY: Final = 0
_ANTI_AFFINITY: Final = 1
_EXISTING: Final = 2
_NO_RULE: Final = 3


class InterPodAffinity:
    """Rejects and scores nodes by the pods in their topology domains."""

    name: ClassVar[str] = "InterPodAffinity"

    def __init__(
        self,
        hard_pod_affinity_weight: int = 1,
        *,
        ignore_preferred_of_running: bool = False,
        reference: Reference = OLDEST,
    ) -> None:
        """Make the rule.

        Args:
            hard_pod_affinity_weight: The weight of a required affinity term of a running pod in
                the score.
            ignore_preferred_of_running: Whether pods without preferred terms are not scored.
            reference: The release of kube-scheduler whose hints count.
        """
        self._reference = reference
        self._hard_weight = hard_pod_affinity_weight
        self._ignore = ignore_preferred_of_running

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        own = affinity_terms.compiled(pod)
        if own.error:
            return InvalidSelector(self.name, f"parsing pod: {own.error}")

        def code(reason: str, *, resolvable: bool = True) -> int:
            return verdicts.code(Verdict(self.name, (reason,), resolvable))

        codes = (
            code(REASON_AFFINITY, resolvable=False),
            code(REASON_ANTI_AFFINITY),
            code(REASON_EXISTING),
        )
        return _Required(pod, own, cluster, codes)

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        affinity = pod.spec.affinity
        prefers = affinity is not None and any(
            terms is not None and terms.preferred
            for terms in (affinity.pod_affinity, affinity.pod_anti_affinity)
        )
        if self._ignore and not prefers:
            return None
        return _Preferred(pod, affinity_terms.compiled(pod), self._hard_weight, cluster)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL
        return (
            ClusterEventWithHint(Resource.POD, pods, partial(hints.after_pod, self._reference)),
            ClusterEventWithHint(Resource.NODE, nodes, hints.after_node),
        )


class _Required(CompiledFilter):
    """Rejects nodes by required terms. What `prepare` finds is valid for the whole attempt."""

    reads = Reads.CLUSTER

    def __init__(
        self, pod: Pod, own: AffinityTerms, cluster: Cluster, codes: tuple[int, int, int]
    ) -> None:
        self._pod = pod
        #: The code of each rule, in the order of the rules; last, 0 for no rule.
        self._verdicts: Codes = np.array([*codes, 0], dtype=np.uint16)
        affinity = [(term, 1) for term in own.affinity]
        anti_affinity = [(term, 1) for term in own.anti_affinity]
        self._affinity = IncomingTerms(affinity, cluster, Counted.JOINTLY)
        self._anti_affinity = IncomingTerms(anti_affinity, cluster, Counted.ONCE)
        self._existing = ExistingTerms(pod, cluster, "refusing", _anti_affinity_terms, anti=True)
        self._has_terms = bool(own.affinity or own.anti_affinity)
        # One more pod can satisfy required affinity; otherwise it can only cause a rejection.
        self.monotone = not own.affinity
        self._is_first: bool | None = None
        self._affinity_counters: list[TopologyCounter] = []
        #: Counters of pods that reject a node, each with its rule; the last rule first.
        self._anti_counters: list[tuple[int, TopologyCounter]] = []

    def prepare(self, _state: AttemptState, /) -> Prepared:
        """Refresh the counters; skip the rule for a pod that no term concerns now.

        So pods that are only nominated cannot reject such a pod either.
        """
        existing = self._existing.counters()
        if not self._has_terms and not any(counter.sums.any() for counter in existing):
            return SKIP
        self._is_first = None
        self._affinity_counters = self._affinity.counters()
        self._anti_counters = [(_EXISTING, counter) for counter in existing]
        self._anti_counters += [
            (_ANTI_AFFINITY, counter) for counter in self._anti_affinity.counters()
        ]
        return PASS

    def codes(self, nodes: NodeView) -> Codes:
        if not self._affinity_counters and not self._anti_counters:
            return np.zeros(len(nodes), dtype=np.uint16)
        any_counter = (
            self._affinity_counters[0] if self._affinity_counters else self._anti_counters[0][1]
        )
        if any_counter.shift(nodes) is None:
            return self._verdicts.take(self._first_rule(nodes))
        return self._hypothetical_codes(nodes)

    def _first_rule(self, nodes: NodeView) -> NDArray[np.uint8]:
        """Return, (n,), the first rule that rejects each node as it is now, found by domain."""
        tables: dict[LabelColumn, NDArray[np.uint8]] = {}
        for rule, counter in self._anti_counters:
            table = _table(tables, counter)
            np.putmask(table, counter.sums[: table.shape[0]] > 0, rule)
        is_first = (
            not any(counter.sums.any() for counter in self._affinity_counters)
            and self._may_be_first()
        )
        for counter in self._affinity_counters:
            table = _table(tables, counter)
            if is_first:
                table[ABSENT] = _AFFINITY
            else:
                np.putmask(table, counter.sums[: table.shape[0]] <= 0, _AFFINITY)
        rules = (table.take(nodes.label_codes(column)) for column, table in tables.items())
        return reduce(np.minimum, rules)

    def _hypothetical_codes(self, nodes: NodeView) -> Codes:
        """Return, (n,), the verdict codes of nodes in a hypothetical view."""
        rule = np.full(len(nodes), _NO_RULE, dtype=np.uint8)
        for number, counter in self._anti_counters:
            rule[_around(counter, nodes) > 0] = number
        if self._affinity_counters:
            rule[~self._attracted(nodes)] = _AFFINITY
        return self._verdicts.take(rule)

    def _attracted(self, nodes: NodeView) -> Bool:
        """Return, (n,), which nodes have all topology keys, and matching pods in each domain."""
        keyed = np.ones(len(nodes), dtype=np.bool_)
        near = keyed.copy()
        total: Int = np.zeros(len(nodes), dtype=np.int64)
        for counter in self._affinity_counters:
            around = _around(counter, nodes)
            keyed &= counter.domains.values(nodes) != ABSENT
            near &= around > 0
            total += around - counter.at(nodes) + counter.sums.sum()
        if self._may_be_first():
            near |= total == 0
        return keyed & near

    def _may_be_first(self) -> bool:
        """Return whether the pod matches its own terms; if no other pod does, it may be first."""
        if self._is_first is None:
            self._is_first = self._affinity.all_match(self._pod)
        return self._is_first


class _Preferred(CompiledScore):
    """Sums the weights of preferred terms and of required affinity by topology domain."""

    reads = Reads.CLUSTER
    needs_normalising = True

    def __init__(self, pod: Pod, own: AffinityTerms, hard_weight: int, cluster: Cluster) -> None:
        affinity = [(term, term.weight) for term in own.preferred_affinity]
        anti_affinity = [(term, -term.weight) for term in own.preferred_anti_affinity]
        question = ("liked", hard_weight)
        self._incoming = IncomingTerms([*affinity, *anti_affinity], cluster)
        self._existing = ExistingTerms(pod, cluster, question, _preference(hard_weight), anti=False)
        self._counters: list[TopologyCounter] = []

    def prepare(self, _state: AttemptState, /) -> PrepareStatus:
        """Refresh the counters; skip the score when it is 0 everywhere."""
        self._counters = [*self._incoming.counters(), *self._existing.counters()]
        return PASS if self._counters else SKIP

    def scores(self, nodes: NodeView) -> Scores:
        by_column: dict[LabelColumn, list[Int]] = {}
        for counter in self._counters:
            column = counter.domains.column
            by_column.setdefault(column, []).append(counter.sums[: len(column.values)])
        return reduce(
            np.add,
            (
                reduce(np.add, sums).take(nodes.label_codes(column))
                for column, sums in by_column.items()
            ),
        )

    def normalise(self, raw: Scores) -> Scores:
        """Scale from lowest to highest; the order of operations decides the last bit."""
        if not raw.shape[0]:
            return raw
        least, most = int(raw.min()), int(raw.max())
        if least == most:
            return np.zeros_like(raw)
        shares = (raw - least) / float(most - least)
        shares *= float(MAX_SCORE)
        return shares.astype(np.int64)


def _table(
    tables: dict[LabelColumn, NDArray[np.uint8]], counter: TopologyCounter
) -> NDArray[np.uint8]:
    """Return, (D,), the first rule found so far that rejects each domain of a topology key."""
    column = counter.domains.column
    table = tables.get(column)
    if table is None:
        table = tables[column] = np.full(len(column.values), _NO_RULE, dtype=np.uint8)
    return table


def _around(counter: TopologyCounter, nodes: NodeView) -> Int:
    """Return, (n,), the sum in the domain of each node, now or in the hypothetical view."""
    sums, shift = counter.at(nodes), counter.shift(nodes)
    return sums if shift is None else sums + shift


def _anti_affinity_terms(
    terms: AffinityTerms, matching: Callable[[TermList], Sequence[AffinityTerm]]
) -> int:
    return len(matching(terms.anti_affinity))


def _preference(
    hard_weight: int,
) -> Callable[[AffinityTerms, Callable[[TermList], Sequence[AffinityTerm]]], int]:
    def weight(terms: AffinityTerms, matching: Callable[[TermList], Sequence[AffinityTerm]]) -> int:
        required = len(matching(terms.affinity)) if hard_weight else 0
        affinity = sum(term.weight for term in matching(terms.preferred_affinity))
        anti_affinity = sum(term.weight for term in matching(terms.preferred_anti_affinity))
        return hard_weight * required + affinity - anti_affinity

    return weight
