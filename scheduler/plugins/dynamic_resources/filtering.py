"""The filter: nodes where the claims of a pod are available, or can be allocated.

Source: kube-scheduler v1.36.3 dynamicresources.PreFilter, Filter.

Axes: n rows of a view.
"""

from typing import Final

import numpy as np

from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import (
    SKIP,
    CompiledFilter,
    CompiledScore,
    PluginError,
    PreFilter,
    Prepared,
    PrepareStatus,
    Reads,
    Rejected,
    normalise_to_max,
)
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.model.times import Seconds
from scheduler.plugins.dynamic_resources import binding_conditions
from scheduler.plugins.dynamic_resources.allocation_cache import (
    AllocationCache,
    Outcome,
    ToAllocate,
    timed_out,
)
from scheduler.plugins.dynamic_resources.attempt import ClaimsOfPod, resolve
from scheduler.plugins.dynamic_resources.pod_claims import UnusableClaimError
from scheduler.plugins.node_affinity.node_terms import NodeTerms
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Int, Scores
from scheduler.state.views.node_view import HypotheticalView, NodeView

__all__ = ["NAME", "ChoiceScore", "ClaimAllocator", "DeviceFilter", "claims_in"]

NAME: Final = "DynamicResources"
CANNOT: Final = "cannot allocate all claims"
INVALID: Final = "invalid resource pools were encountered"
UNAVAILABLE: Final = "resourceclaim not available on the node"
STALE: Final = "cannot schedule extended resource claim"
#: The feature of nodes that can leave out operations for a device.
OPTIONAL_OPERATIONS: Final = "DRAOptionalNodeOperations"
NO_RESOURCE: Final = "cannot fit resource"
DISABLED: Final = "pod needs devices, and this scheduler is configured with allocateDevices: false"


class ClaimAllocator:
    """Whether the claims of a pod can be allocated on the nodes of one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        filter_timeout_seconds: Seconds,
        binding_timeout_seconds: Seconds,
        *,
        may_allocate: bool = True,
    ) -> None:
        self.cluster: Final = cluster
        self._may_allocate = may_allocate
        self.allocation_cache: Final = AllocationCache(cluster.devices, filter_timeout_seconds)
        self.binding_timeout_seconds: Final = binding_timeout_seconds

    def begin(self, pod: Pod) -> ClaimsOfPod | None:
        """Begin an attempt for a pod; return its claims, `None` if it needs no devices.

        Raises:
            UnusableClaimError: A claim rejects the pod on all nodes, or no devices are allocated.
        """
        self.allocation_cache.begin()
        claims = resolve(pod, self.cluster.devices)
        if claims is not None and not self._may_allocate:
            raise UnusableClaimError(DISABLED)
        return claims

    def outcomes(self, claims: ClaimsOfPod, nodes: NodeView) -> Int:
        """Return, (n,), values of `Outcome`: whether what has to be allocated can be.

        Raises:
            PluginError: A search met an error.
        """
        if not claims.resources and claims.to_allocate:
            return self.allocation_cache.outcomes(
                claims.to_allocate, nodes.rows, nodes.columns.nodes
            )
        outcomes: Int = np.full(len(nodes), Outcome.FITS, dtype=np.int64)
        for positions, wanted in self._wanted(claims, nodes):
            outcomes[positions] = self.allocation_cache.outcomes(
                wanted, nodes.rows[positions], nodes.columns.nodes
            )
        return outcomes

    def choice_scores(self, claims: ClaimsOfPod, nodes: NodeView) -> Scores:
        """Return, (n,), the scores of the choices that are taken; 0 where nothing is allocated.

        Raises:
            PluginError: A search met an error.
        """
        earlier = sum(map(_earlier, claims.claims))
        scores: Scores = np.zeros(len(nodes), dtype=np.int64)
        for positions, wanted in self._wanted(claims, nodes):
            scores[positions] = earlier + self.allocation_cache.scores(
                wanted, nodes.rows[positions], nodes.columns.nodes
            )
        return scores

    def _wanted(self, claims: ClaimsOfPod, nodes: NodeView) -> list[tuple[Int, list[ToAllocate]]]:
        """Return what has to be allocated, by the nodes that take the same from devices.

        Nodes where nothing has to be are left out.
        """
        if not claims.resources:
            return [(np.arange(len(nodes)), claims.to_allocate)] if claims.to_allocate else []
        names = tuple(claims.resources)
        pattern = np.zeros(len(nodes), dtype=object)
        for position, name in enumerate(names):
            pattern |= self.lacks(nodes, name) * (1 << position)
        wanted = []
        for bits in sorted(set(pattern.tolist())):
            chosen = tuple(name for position, name in enumerate(names) if bits >> position & 1)
            everything = [*claims.to_allocate, *self.extended(claims, chosen)]
            if everything:
                wanted.append((np.flatnonzero(pattern == bits), everything))
        return wanted

    def extended(self, claims: ClaimsOfPod, names: tuple[str, ...]) -> list[ToAllocate]:
        """Return the claim for the extended resources that a node takes from devices, if any.

        Differs from kube-scheduler, which makes one without requests for a pod that has claims of
        its own; the API server refuses what the pod's status says of it.
        """
        return [claims.extended_claim(claims.backed_by(names))] if names else []

    def lacks(self, nodes: NodeView, resource: str) -> Bool:
        """Return, (n,), which nodes have none of an extended resource."""
        axis = self.cluster.axis
        if resource not in axis.offered():
            return np.ones(len(nodes), dtype=np.bool_)
        lacking: Bool = nodes.allocatable(axis.code(resource)) == 0
        return lacking


class DeviceFilter(PreFilter):
    """Resolves the claims of a pod; `_ClaimFilter` evaluates nodes for them."""

    reads = Reads.CLUSTER

    def __init__(self, allocator: ClaimAllocator, verdicts: Verdicts) -> None:
        self._allocator = allocator
        self._verdicts = verdicts

    def prepare(self, state: AttemptState, /) -> Prepared:
        """Resolve the claims."""
        state.data.pop(NAME, None)
        try:
            claims = self._allocator.begin(state.pod)
        except UnusableClaimError as error:
            return Rejected(_verdict(str(error)))
        if claims is None:
            return SKIP
        state.data[NAME] = claims
        return _ClaimFilter(self._allocator, self._verdicts, claims, state.now)


def claims_in(state: AttemptState) -> ClaimsOfPod | None:
    """Return the claims that the filter has resolved in an attempt; `None` if there are none."""
    claims = state.data.get(NAME)
    return claims if isinstance(claims, ClaimsOfPod) else None


class _ClaimFilter(CompiledFilter):
    """Rejects nodes where the claims of a pod are not available and cannot be allocated."""

    reads = Reads.CLUSTER

    def __init__(
        self, allocator: ClaimAllocator, verdicts: Verdicts, claims: ClaimsOfPod, now: Seconds
    ) -> None:
        self._allocator = allocator
        self._verdicts = verdicts
        self._claims = claims
        #: Where each allocated claim can be used, by index.
        self._where = {
            index: self._place(claim, now - allocator.cluster.clock_ahead)
            for index, claim in enumerate(claims.claims)
            if claim.status.allocation is not None
        }

    def _place(self, claim: ResourceClaim, now: Seconds) -> NodeTerms | bool:
        """Return where an allocated claim can be used: the terms, everywhere or nowhere.

        Args:
            claim: The claim.
            now: The time by the API server's clock.
        """
        ready, allocator = binding_conditions.is_ready(claim), self._allocator
        late = binding_conditions.is_late(claim, now, allocator.binding_timeout_seconds)
        if isinstance(ready, str) or (not ready and late):
            return False
        allocation = claim.status.allocation
        if allocation is None or allocation.node_selector is None:
            return True
        terms = allocation.node_selector.node_selector_terms
        return NodeTerms(terms, allocator.cluster.columns.labels)

    def codes(self, nodes: NodeView) -> Codes:
        """Return, (n,), verdict codes; see `codes_where`."""
        return self.codes_where(nodes, np.ones(len(nodes), dtype=np.bool_))

    def codes_where(self, nodes: NodeView, passing: Bool) -> Codes:
        """Return, (n,), verdict codes; 0 on the nodes that do not pass so far.

        Raises:
            PluginError: A search met an error; in a hypothetical view it only rejects the node.
        """
        claims = self._claims
        codes = np.zeros(len(nodes), dtype=np.uint16)
        if claims.is_rejected_everywhere:
            codes[passing] = self._code(STALE)
            return codes
        for name in claims.unmapped if claims.resources else ():
            lacking = passing & (codes == 0) & self._allocator.lacks(nodes, name)
            codes[lacking & _never_offered(nodes, name)] = self._code(NO_RESOURCE)
        remaining = np.flatnonzero(passing & (codes == 0))
        judge = self._tried if isinstance(nodes, HypotheticalView) else self._judged
        if remaining.shape[0] == len(nodes):
            return judge(claims, nodes)
        if remaining.shape[0]:
            codes[remaining] = judge(claims, nodes.take(remaining))
        return codes

    def _tried(self, claims: ClaimsOfPod, nodes: NodeView) -> Codes:
        """Return, (n,), verdict codes for a hypothetical view: an error rejects its node alone."""
        try:
            return self._judged(claims, nodes)
        except PluginError as error:
            if len(nodes) == 1:
                verdict = Verdict(NAME, (str(error),), resolvable=False, failed=True)
                return np.array([self._verdicts.code(verdict)], dtype=np.uint16)
        each = (nodes.take(np.array([position])) for position in range(len(nodes)))
        return np.concatenate([self._tried(claims, node) for node in each])

    def _judged(self, claims: ClaimsOfPod, nodes: NodeView) -> Codes:
        outcomes = self._allocator.outcomes(claims, nodes)
        codes = np.zeros(len(nodes), dtype=np.uint16)
        codes[outcomes == Outcome.CANNOT] = self._code(CANNOT)
        codes[outcomes == Outcome.INVALID_POOLS] = self._code(INVALID)
        for position in (outcomes == Outcome.GIVEN_UP).nonzero()[0].tolist():
            node = nodes.columns.nodes[int(nodes.rows[position])]
            text = "" if node is None else timed_out(node)
            verdict = Verdict(NAME, (text,), resolvable=False, failed=True, alone=True)
            codes[position] = self._verdicts.code(verdict)
        if not self._where:
            return codes
        fits = codes == 0
        for index, where in self._where.items():
            available = self._is_available(claims.claims[index], where, nodes)
            unavailable = fits & ~available
            if unavailable.any():
                codes[unavailable] = self._code(UNAVAILABLE)
                claims.unavailable.add(index)
        return codes

    def _is_available(self, claim: ResourceClaim, where: NodeTerms | bool, nodes: NodeView) -> Bool:
        """Return, (n,), where an allocated claim can be used."""
        everywhere: Bool = np.ones(len(nodes), dtype=np.bool_)
        available = everywhere & where if isinstance(where, bool) else where.any(nodes)
        reference = self._allocator.cluster.devices.reference
        if reference.skipped_operations_need_feature and _skips_operations(claim):
            of_rows = (nodes.columns.nodes[row] for row in nodes.rows.tolist())
            declared = [
                node is not None and OPTIONAL_OPERATIONS in node.status.declared_features
                for node in of_rows
            ]
            available = available & np.array(declared, dtype=np.bool_)
        return available

    def _code(self, reason: str) -> int:
        return self._verdicts.code(_verdict(reason))


class ChoiceScore(CompiledScore):
    """Prefers nodes where earlier choices of requests can be had.

    Source: kube-scheduler v1.36.3 dynamicresources.Score, computeScore.
    """

    reads = Reads.CLUSTER
    needs_normalising = True

    def __init__(self, allocator: ClaimAllocator, claims: ClaimsOfPod | None = None) -> None:
        self._allocator = allocator
        self._claims = claims

    def prepare(self, state: AttemptState, /) -> PrepareStatus | CompiledScore:
        """Skip pods without choices."""
        claims = claims_in(state)
        if claims is None or not _has_choices(claims):
            return SKIP
        return ChoiceScore(self._allocator, claims)

    def scores(self, nodes: NodeView) -> Scores:
        if self._claims is None:
            return np.zeros(len(nodes), dtype=np.int64)
        return self._allocator.choice_scores(self._claims, nodes)

    def normalise(self, raw: Scores) -> Scores:
        return normalise_to_max(raw)


def _has_choices(claims: ClaimsOfPod) -> bool:
    return any(
        request.first_available
        for claim in claims.claims
        for request in claim.spec.devices.requests
    )


def _earlier(claim: ResourceClaim) -> int:
    """Return the score of the choices in an allocation that was made before."""
    allocation, total = claim.status.allocation, 0
    if allocation is None:
        return 0
    results = {result.request for result in allocation.devices.results}
    for request in claim.spec.devices.requests:
        names = [f"{request.name}/{choice.name}" for choice in request.first_available]
        chosen = next((at for at, name in enumerate(names) if name in results), None)
        total += 0 if chosen is None else 8 - chosen
    return total


def _never_offered(nodes: NodeView, resource: str) -> Bool:
    """Return, (n,), which nodes do not even offer none of a resource."""
    of_rows = (nodes.columns.nodes[row] for row in nodes.rows.tolist())
    never = [node is None or resource not in node.status.allocatable for node in of_rows]
    return np.array(never, dtype=np.bool_)


def _skips_operations(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results
    return any(result.skip_node_operations for result in results)


def _verdict(reason: str) -> Verdict:
    return Verdict(NAME, (reason,), resolvable=False)
