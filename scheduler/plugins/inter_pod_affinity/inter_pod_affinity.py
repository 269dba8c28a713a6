"""InterPodAffinity: near to some pods, away from others, by topology; in both directions.

Filters by the required terms of the incoming pod and by the required anti-affinity of running
pods; scores by preferred terms of both sides, and by the required affinity of running pods.

Source: kube-scheduler v1.36.3 plugins/interpodaffinity.

Axes: n rows of a view, D values of a label and *absent*.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
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
from scheduler.plugins.inter_pod_affinity import hints
from scheduler.plugins.inter_pod_affinity.counters import Carried, Wanted
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
    """Rejects nodes for the pods around them, and likes or dislikes others for theirs."""

    name: ClassVar[str] = "InterPodAffinity"

    def __init__(
        self, hard_pod_affinity_weight: int = 1, *, ignore_preferred_of_running: bool = False
    ) -> None:
        """Make the rule.

        Args:
            hard_pod_affinity_weight: What a required affinity term of a running pod counts in the
                score.
            ignore_preferred_of_running: Whether pods without preferred terms are not scored.
        """
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
            each is not None and each.preferred
            for each in (affinity.pod_affinity, affinity.pod_anti_affinity)
        )
        if self._ignore and not prefers:
            return None
        return _Liked(pod, affinity_terms.compiled(pod), self._hard_weight, cluster)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL
        return (
            ClusterEventWithHint(Resource.POD, pods, hints.after_pod),
            ClusterEventWithHint(Resource.NODE, nodes, hints.after_node),
        )


class _Required(CompiledFilter):
    """Rejects nodes by required terms. What `prepare` found holds for the whole attempt."""

    reads = Reads.CLUSTER

    def __init__(
        self, pod: Pod, own: AffinityTerms, cluster: Cluster, codes: tuple[int, int, int]
    ) -> None:
        self._pod = pod
        #: The verdict of each rule, in the order of the rules; then that of none.
        self._verdicts: Codes = np.array([*codes, 0], dtype=np.uint16)
        affinity = [(term, 1) for term in own.affinity]
        anti_affinity = [(term, 1) for term in own.anti_affinity]
        self._affinity = Wanted(affinity, cluster, Counted.JOINTLY)
        self._anti_affinity = Wanted(anti_affinity, cluster, Counted.ONCE)
        self._existing = Carried(pod, cluster, "refusing", _refusals, anti=True)
        self._asks = bool(own.affinity or own.anti_affinity)
        # A pod more can be the one that is wanted; otherwise it can only be in the way.
        self.monotone = not own.affinity
        self._starts: bool | None = None
        self._near: list[TopologyCounter] = []
        #: Counters of what must not be around, each with its rule; the last rule first.
        self._against: list[tuple[int, TopologyCounter]] = []

    def prepare(self) -> Prepared:
        """Bring the counters up to date.

        Upstream skips the rule for a pod without required terms that nothing refuses now, so that
        pods which are only nominated cannot refuse it either. Here such a pod passes, and verdicts
        that are 0 everywhere read nothing: what is kept of the other rules stays in force.
        """
        refusing = self._existing.counters()
        if not self._asks and not any(each.sums.any() for each in refusing):
            self._against = []
            self.reads = Reads.NODE
            return PASS
        self.reads = Reads.CLUSTER
        self._starts = None
        self._near = self._affinity.counters()
        self._against = [(_EXISTING, each) for each in refusing]
        self._against += [(_ANTI_AFFINITY, each) for each in self._anti_affinity.counters()]
        return PASS

    def codes(self, nodes: NodeView) -> Codes:
        if not self._near and not self._against:
            return np.zeros(len(nodes), dtype=np.uint16)
        any_counter = self._near[0] if self._near else self._against[0][1]
        if any_counter.shift(nodes) is None:
            return self._verdicts.take(self._first_rule(nodes))
        return self._codes_if(nodes)

    def _first_rule(self, nodes: NodeView) -> NDArray[np.uint8]:
        """Return, (n,), the first rule that rejects each node as it is, found by domain."""
        tables: dict[LabelColumn, NDArray[np.uint8]] = {}
        for rule, counter in self._against:
            table = _table(tables, counter)
            np.putmask(table, counter.sums[: table.shape[0]] > 0, rule)
        starts = not any(each.sums.any() for each in self._near) and self._may_start()
        for counter in self._near:
            table = _table(tables, counter)
            if starts:
                table[ABSENT] = _AFFINITY
            else:
                np.putmask(table, counter.sums[: table.shape[0]] <= 0, _AFFINITY)
        found = (each.take(nodes.label_codes(column)) for column, each in tables.items())
        return reduce(np.minimum, found)

    def _codes_if(self, nodes: NodeView) -> Codes:
        """Return, (n,), the verdicts on nodes that are not as they are."""
        rule = np.full(len(nodes), _NO_RULE, dtype=np.uint8)
        for number, counter in self._against:
            rule[_around(counter, nodes) > 0] = number
        if self._near:
            rule[~self._attracted(nodes)] = _AFFINITY
        return self._verdicts.take(rule)

    def _attracted(self, nodes: NodeView) -> Bool:
        """Return, (n,), which nodes have all keys, and the wanted pods around them."""
        keyed = np.ones(len(nodes), dtype=np.bool_)
        near = keyed.copy()
        total: Int = np.zeros(len(nodes), dtype=np.int64)
        for counter in self._near:
            around = _around(counter, nodes)
            keyed &= counter.domains.values(nodes) != ABSENT
            near &= around > 0
            total += around - counter.at(nodes) + counter.sums.sum()
        if self._may_start():
            near |= total == 0
        return keyed & near

    def _may_start(self) -> bool:
        """Return whether the pod matches its own terms: where no pod does, it may be the first."""
        if self._starts is None:
            self._starts = self._affinity.all_about(self._pod)
        return self._starts


class _Liked(CompiledScore):
    """Adds up, by topology, what preferred terms and required affinity around a node count."""

    reads = Reads.CLUSTER
    needs_normalising = True

    def __init__(self, pod: Pod, own: AffinityTerms, hard_weight: int, cluster: Cluster) -> None:
        liked = [(each, each.weight) for each in own.preferred_affinity]
        disliked = [(each, -each.weight) for each in own.preferred_anti_affinity]
        question = ("liked", hard_weight)
        self._wanted = Wanted([*liked, *disliked], cluster)
        self._carried = Carried(pod, cluster, question, _liking(hard_weight), anti=False)
        self._counters: list[TopologyCounter] = []

    def prepare(self) -> PrepareStatus:
        """Bring the counters up to date. Scores that are 0 everywhere count as none."""
        self._counters = [*self._wanted.counters(), *self._carried.counters()]
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
        """Scale from the least to the greatest; the order of operations decides the last bit."""
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
    """Return, (D,), the rule that rejects the nodes of each domain of a topology key so far."""
    column = counter.domains.column
    found = tables.get(column)
    if found is None:
        found = tables[column] = np.full(len(column.values), _NO_RULE, dtype=np.uint8)
    return found


def _around(counter: TopologyCounter, nodes: NodeView) -> Int:
    """Return, (n,), the sum in the domain of each node, as it is or would be."""
    found, shift = counter.at(nodes), counter.shift(nodes)
    return found if shift is None else found + shift


def _refusals(carried: AffinityTerms, meant: Callable[[TermList], Sequence[AffinityTerm]]) -> int:
    return len(meant(carried.anti_affinity))


def _liking(
    hard_weight: int,
) -> Callable[[AffinityTerms, Callable[[TermList], Sequence[AffinityTerm]]], int]:
    def judge(carried: AffinityTerms, meant: Callable[[TermList], Sequence[AffinityTerm]]) -> int:
        required = len(meant(carried.affinity)) if hard_weight else 0
        liked = sum(each.weight for each in meant(carried.preferred_affinity))
        disliked = sum(each.weight for each in meant(carried.preferred_anti_affinity))
        return hard_weight * required + liked - disliked

    return judge
