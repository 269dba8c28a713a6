"""Filter: nodes on which the claims of a pod are available, or can be allocated.

Source: kube-scheduler v1.36.3 dynamicresources.PreFilter, Filter.

Axes: n rows of a view.
"""

from collections.abc import Hashable, Mapping
from typing import Final

import numpy as np

from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import (
    SKIP,
    CompiledFilter,
    PluginError,
    PreFilter,
    Prepared,
    Reads,
    Rejected,
)
from scheduler.framework.verdicts import EvictionOutcome, Verdict, Verdicts
from scheduler.model.api.device_claims import Allocation
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.times import Seconds
from scheduler.plugins.dynamic_resources.allocation_cache import (
    AllocationStatus,
    NodeDevices,
    timed_out,
)
from scheduler.plugins.dynamic_resources.binding_conditions import (
    is_ready_for_binding,
    is_timed_out,
)
from scheduler.plugins.dynamic_resources.claim_allocator import ClaimAllocator
from scheduler.plugins.dynamic_resources.hypothetical_devices import (
    HypotheticalDevices,
    NodesWithout,
)
from scheduler.plugins.dynamic_resources.pod_claims import UnusableClaimError
from scheduler.plugins.dynamic_resources.state_data import NAME, StateData
from scheduler.plugins.dynamic_resources.why_held import why_held
from scheduler.plugins.node_affinity.node_terms import NodeTerms
from scheduler.state.columns.arrays import Bool, Codes, Int, Rows
from scheduler.state.views.node_view import HypotheticalView, NodeView

__all__ = ["DeviceFilter"]

NOT_ALLOCATABLE: Final = "cannot allocate all claims"
INVALID_POOLS: Final = "invalid resource pools were encountered"
NOT_AVAILABLE: Final = "resourceclaim not available on the node"
EXTENDED_RESOURCE_CLAIM: Final = "cannot schedule extended resource claim"
NO_RESOURCE: Final = "cannot fit resource"
#: The feature of nodes that can skip operations for a device.
OPTIONAL_OPERATIONS: Final = "DRAOptionalNodeOperations"


NOT_TRIED: Final = "too many nodes differ to try evictions on all of them"
MAY_BE_FREED: Final = Verdict(NAME, (NOT_ALLOCATABLE,), resolvable=True)


class DeviceFilter(PreFilter):
    """Resolves the claims of a pod; `_ClaimFilter` evaluates nodes for them."""

    reads = Reads.CLUSTER

    def __init__(self, allocator: ClaimAllocator, verdicts: Verdicts) -> None:
        self._allocator = allocator
        self._verdicts = verdicts

    def prepare(self, state: AttemptState, /) -> Prepared:
        """Write the `StateData` of the attempt."""
        state.data.pop(NAME, None)
        try:
            data = self._allocator.pre_filter(state.pod)
        except UnusableClaimError as error:
            return Rejected(_verdict(str(error)))
        if data is None:
            return SKIP
        state.data[NAME] = data
        return _ClaimFilter(self._allocator, self._verdicts, data, state.now)


class _ClaimFilter(CompiledFilter):
    """Rejects nodes where the claims of a pod are not available and cannot be allocated.

    Writes `StateData.unavailable_claims` for PostFilter.
    """

    reads = Reads.CLUSTER

    def __init__(
        self, allocator: ClaimAllocator, verdicts: Verdicts, data: StateData, now: Seconds
    ) -> None:
        self._allocator = allocator
        self._verdicts = verdicts
        self._data = data
        self._hypothetical: HypotheticalDevices | None = None
        #: Whether verdicts say if evictions may help; and whether a further attempt may find others
        #: although nothing has changed.
        self._explains = True
        self._is_uncertain = False
        self._visible = allocator.visible_devices(data)
        if allocator.freed is not None:
            self._hypothetical = HypotheticalDevices(
                allocator.cluster, allocator.freed, data, self._visible
            )
        #: The nodes on which allocated claims are available, by index of the claim.
        self._available_on_nodes = {
            index: self._selected_nodes(claim, now - allocator.cluster.clock_ahead)
            for index, claim in enumerate(data.user_claims)
            if claim.status.allocation is not None
        }

    def _selected_nodes(self, claim: ResourceClaim, now: Seconds) -> NodeTerms | bool:
        """Return the node selector of an allocated claim; True for all nodes, False for none.

        Args:
            claim: The claim.
            now: The time by the API server's clock.
        """
        pod, nominations = self._data.pod, self._allocator.cluster.devices.nominations
        if nominations.keeps(claim.key, pod.uid, pod.priority):
            return False
        ready, timeout = is_ready_for_binding(claim), self._allocator.binding_timeout_seconds
        if isinstance(ready, str) or (not ready and is_timed_out(claim, now, timeout)):
            return False
        allocation = claim.status.allocation
        if allocation is None or allocation.node_selector is None:
            return True
        terms = allocation.node_selector.node_selector_terms
        return NodeTerms(terms, self._allocator.cluster.columns.labels)

    def codes(self, nodes: NodeView) -> Codes:
        """Return, (n,), verdict codes; see `codes_where`."""
        return self.codes_where(nodes, np.ones(len(nodes), dtype=np.bool_))

    def codes_where(self, nodes: NodeView, passing: Bool) -> Codes:
        """Return, (n,), verdict codes; 0 on the nodes that do not pass so far.

        Raises:
            PluginError: The allocator met an error; in a hypothetical view this rejects one node.
        """
        data, former = self._data, self._data.extended_resource_claim
        codes = np.zeros(len(nodes), dtype=np.uint16)
        if former is not None and former.spec.devices.requests:
            codes[passing] = self._code(EXTENDED_RESOURCE_CLAIM)
            return codes
        for name in data.unmapped if data.class_names else ():
            lacking = passing & (codes == 0) & self._allocator.lacks(nodes, name)
            codes[lacking & _never_offered(nodes, name)] = self._code(NO_RESOURCE)
        devices = self._devices(nodes, passing & (codes == 0))
        given_up = None if self._hypothetical is None else self._hypothetical.given_up(nodes)
        if given_up is not None:
            self._is_uncertain |= bool(given_up[passing].any())
            codes[passing & (codes == 0) & given_up] = self._code(NOT_TRIED)
        remaining = np.flatnonzero(passing & (codes == 0))
        is_dry_run = isinstance(nodes, HypotheticalView)
        claim_codes = self._claim_codes_by_node if is_dry_run else self._claim_codes
        if remaining.shape[0] == len(nodes):
            return claim_codes(nodes, devices)
        if remaining.shape[0]:
            codes[remaining] = claim_codes(nodes.take(remaining), devices.take(remaining))
        return codes

    def _devices(self, nodes: NodeView, passing: Bool) -> NodeDevices:
        """Return the devices of nodes as the pod sees them, without what evictions free."""
        needed = self._data.to_allocate or self._data.class_names
        if needed and self._hypothetical is not None and isinstance(nodes, HypotheticalView):
            return self._hypothetical.of(nodes, passing)
        return self._visible.of(nodes)

    def fits(self, nodes: NodeView) -> Bool:
        self._explains = False
        try:
            return super().fits(nodes)
        finally:
            self._explains = True

    def cache_key(self) -> Hashable:
        data, devices = self._data, self._allocator.cluster.devices
        own = self._available_on_nodes or data.extended_resource_claim is not None
        if self._hypothetical is None or self._is_uncertain or own or self._visible.freed:
            return None
        specs = tuple(each.encoded_spec for each in data.to_allocate)
        classes = (*data.class_names.items(), *data.unmapped)
        return specs, classes, data.kept, devices.version, devices.classes_version

    def given_up(self, nodes: NodeView) -> Codes | None:
        given_up = None if self._hypothetical is None else self._hypothetical.given_up(nodes)
        if given_up is None or not given_up.any():
            return None
        return np.where(given_up, self._code(NOT_TRIED), 0).astype(np.uint16)

    def _claim_codes_by_node(self, nodes: NodeView, devices: NodeDevices) -> Codes:
        """Return, (n,), verdict codes; an error rejects its node alone."""
        try:
            return self._claim_codes(nodes, devices)
        except PluginError as error:
            self._is_uncertain = True
            if len(nodes) == 1:
                verdict = Verdict(NAME, (str(error),), resolvable=False, failed=True)
                return np.array([self._verdicts.code(verdict)], dtype=np.uint16)
        at = [np.array([position]) for position in range(len(nodes))]
        single = [(nodes.take(position), devices.take(position)) for position in at]
        return np.concatenate([self._claim_codes_by_node(*each) for each in single])

    def _claim_codes(self, nodes: NodeView, devices: NodeDevices) -> Codes:
        """Return, (n,), verdict codes for the claims, and record those that are unavailable."""
        statuses = self._statuses(nodes, devices)
        self._is_uncertain |= bool((statuses >= AllocationStatus.TIMED_OUT).any())
        codes = np.zeros(len(nodes), dtype=np.uint16)
        held = (statuses == AllocationStatus.NOT_ALLOCATABLE).nonzero()[0]
        codes[held] = self._not_allocatable(nodes.rows[held])
        given_up = (statuses == AllocationStatus.GIVEN_UP).nonzero()[0]
        if given_up.shape[0] and isinstance(devices, NodesWithout):
            devices.give_up(given_up)
            codes[given_up] = self._code(NOT_TRIED)
        codes[statuses == AllocationStatus.INVALID_POOLS] = self._code(INVALID_POOLS)
        for position in (statuses == AllocationStatus.TIMED_OUT).nonzero()[0].tolist():
            node = nodes.columns.nodes[int(nodes.rows[position])]
            text = "" if node is None else timed_out(node)
            verdict = Verdict(NAME, (text,), resolvable=False, failed=True, alone=True)
            codes[position] = self._verdicts.code(verdict)
        if not self._available_on_nodes:
            return codes
        fits = codes == 0
        for index, selected in self._available_on_nodes.items():
            available = self._is_available(self._data.user_claims[index], selected, nodes)
            unavailable = fits & ~available
            if unavailable.any():
                codes[unavailable] = self._code(NOT_AVAILABLE)
                if self._are_allocatable_now(nodes.take(unavailable.nonzero()[0]), devices):
                    self._data.unavailable_claims.add(index)
        return codes

    def _are_allocatable_now(self, nodes: NodeView, devices: NodeDevices) -> bool:
        """Return whether the other claims can be allocated on one of the nodes as they are."""
        if not isinstance(devices, NodesWithout):
            return True
        now = self._statuses(nodes, self._visible.of(nodes))
        return bool((now == AllocationStatus.ALLOCATABLE).any())

    def _not_allocatable(self, rows: Rows) -> Codes | int:
        """Return, (n,), verdict codes of rows that lack devices: whether evictions may help."""
        lost = self._code(NOT_ALLOCATABLE)
        if self._hypothetical is None or not self._explains:
            return lost
        may_help = self._hypothetical.may_help(rows, self._data.pod.priority)
        return np.where(may_help, self._verdicts.code(MAY_BE_FREED), lost).astype(np.uint16)

    def expected_devices(self, nodes: HypotheticalView) -> Mapping[str, Allocation]:
        if self._hypothetical is None:
            return {}  # another profile preempts for devices
        node = nodes.columns.nodes[int(nodes.rows[0])]
        devices = self._devices(nodes, np.ones(1, dtype=np.bool_))
        if node is None:
            return {}
        return self._allocator.allocate(self._data, node, devices.allocated_state(0))[0]

    def outcomes(self, codes: Codes) -> Mapping[int, EvictionOutcome]:
        if self._hypothetical is None:
            return {}
        lacking = (self._code(NOT_ALLOCATABLE), self._verdicts.code(MAY_BE_FREED))
        rows, allocator, data = np.isin(codes, lacking).nonzero()[0], self._allocator, self._data
        untried = (codes == self._code(NOT_TRIED)).nonzero()[0].tolist()
        outcomes = dict.fromkeys(untried, EvictionOutcome.NOT_TRIED)
        try:
            held = why_held(rows, data.kept, allocator.cluster, self._hypothetical, self._statuses)
        except PluginError:
            return outcomes
        return outcomes | dict(held)

    def _statuses(self, nodes: NodeView, devices: NodeDevices) -> Int:
        """Return, (n,), an `AllocationStatus` per node.

        Raises:
            PluginError: The allocator met an error.
        """
        statuses: Int = np.full(len(nodes), AllocationStatus.ALLOCATABLE, dtype=np.int64)
        for positions, claims in self._allocator.claims_by_node(self._data, nodes):
            statuses[positions] = self._allocator.cache.statuses(claims, devices.take(positions))
        return statuses

    def _is_available(
        self, claim: ResourceClaim, selected: NodeTerms | bool, nodes: NodeView
    ) -> Bool:
        """Return, (n,), the nodes on which an allocated claim is available."""
        everywhere: Bool = np.ones(len(nodes), dtype=np.bool_)
        available = everywhere & selected if isinstance(selected, bool) else selected.any(nodes)
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


def _never_offered(nodes: NodeView, resource: str) -> Bool:
    """Return, (n,), the nodes whose allocatable does not name a resource, not even with 0."""
    of_rows = (nodes.columns.nodes[row] for row in nodes.rows.tolist())
    never = [node is None or resource not in node.status.allocatable for node in of_rows]
    return np.array(never, dtype=np.bool_)


def _skips_operations(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results
    return any(result.skip_node_operations for result in results)


def _verdict(reason: str) -> Verdict:
    return Verdict(NAME, (reason,), resolvable=False)
