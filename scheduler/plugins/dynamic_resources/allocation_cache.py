"""Whether claims can be allocated, for many nodes at once: the results of the allocator, cached.

Pods with equal requests share the results, whatever the names of their claims. The allocator runs
once for each state of devices that some node is in; see `state/devices/signatures`.

Axes: n rows of a view, S signatures.
"""

import copy
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import ClassVar, Final, NamedTuple, Self

import msgspec
import numpy as np

from scheduler.framework.plugin import PluginError
from scheduler.model.api.device_claims import MAX_SUB_REQUESTS, DeviceRequests
from scheduler.model.api.objects import Node
from scheduler.model.times import Seconds
from scheduler.plugins.dynamic_resources.structured.allocator import (
    AllocationError,
    AllocationTimeoutError,
    Allocator,
    InternalAllocationResult,
)
from scheduler.plugins.dynamic_resources.structured.claims import (
    CompiledClaim,
    compile_claim,
)
from scheduler.plugins.dynamic_resources.structured.selectors import (
    CelCache,
    EvaluationLimitError,
)
from scheduler.state.columns.arrays import Int, Rows
from scheduler.state.devices.allocated_state import AllocatedState
from scheduler.state.devices.devices import Devices
from scheduler.state.devices.pools import GatherPoolsError
from scheduler.state.views.node_view import NodeView

__all__ = ["AllocationCache", "AllocationStatus", "ClaimToAllocate", "NodeDevices", "timed_out"]

_encode: Final = msgspec.msgpack.Encoder().encode

#: Sets of claims whose results are kept.
_MAX_CLAIM_SETS: Final = 512
#: Bytes of their specs; one claim may have more than a megabyte.
_MAX_SPEC_BYTES: Final = 16 * 1024 * 1024
#: About how many steps of the allocator Python makes in a second.
_STEPS_PER_SECOND: Final = 200_000
#: No run makes more, whatever the configured limit is; large pools may take longer.
_MAX_STEPS: Final = 50_000
#: A run that needs more is made after those on the other nodes.
_FEW_STEPS: Final = 2_000
#: All runs of an attempt together make no more, beside the one that exceeds it. Short ones count
#: only in part: every node of a large cluster may need one.
_MAX_STEPS_OF_ATTEMPT: Final = 100_000
_SHORT: Final = 500
_PART: Final = 4


class AllocationStatus(IntEnum):
    """The result of the allocator on a node."""

    UNKNOWN = -1
    ALLOCATABLE = 0
    NOT_ALLOCATABLE = 1
    INVALID_POOLS = 2
    #: It ends the attempt.
    ERROR = 3
    #: The allocator took too many steps; the attempt ends if no other node fits.
    TIMED_OUT = 4
    #: It was not run, because there were too many nodes on which evictions could help.
    GIVEN_UP = 5


class ClaimToAllocate(NamedTuple):
    """A claim that has to be allocated."""

    #: Namespace and name, joined by a slash.
    key: str
    uid: str
    spec: DeviceRequests
    #: The spec encoded; equal for claims that request the same.
    encoded_spec: bytes

    @classmethod
    def in_memory(cls, key: str, uid: str, spec: DeviceRequests) -> "ClaimToAllocate":
        """Return a claim that exists in memory only."""
        return cls(key, uid, spec, _encode(spec))


class NodeDevices:
    """The devices of some nodes, as they are; (n,) nodes."""

    #: The status of nodes for which the allocator was not run.
    unknown: ClassVar = AllocationStatus.TIMED_OUT

    def __init__(self, devices: Devices, nodes: NodeView) -> None:
        self._devices = devices
        self._nodes = nodes.columns.nodes
        #: (n,) the rows.
        self.rows: Rows = nodes.rows
        self._signatures: Int | None = None

    def take(self, positions: Int | slice) -> Self:
        """Return those of some of the nodes."""
        taken = copy.copy(self)
        taken.rows = self.rows[positions]
        if self._signatures is not None:
            taken._signatures = self._signatures[positions]
        return taken

    @property
    def signatures(self) -> Int:
        """(n,) the signatures of the nodes."""
        if self._signatures is None:
            self._signatures = self._devices.signatures()[self.rows]
        return self._signatures

    def node(self, position: int) -> Node | None:
        """Return a node."""
        return self._nodes[int(self.rows[position])]

    def may_search(self, wanted: int) -> int:
        """Return for how many of some different nodes the allocator may run."""
        return wanted

    def allocated_state(self, _position: int) -> AllocatedState:
        """Return what is allocated where a node is."""
        return self._devices.allocated_state


class _Results:
    """The results for one set of claims, by signature; (S,) each."""

    __slots__ = ("claims", "scores", "statuses")

    def __init__(self, claims: tuple[CompiledClaim, ...]) -> None:
        self.claims = claims
        self.statuses: Int = np.zeros(0, dtype=np.int64)
        self.scores: Int = np.zeros(0, dtype=np.int64)

    def grow(self, size: int) -> None:
        missing = size - self.statuses.shape[0]
        if missing > 0:
            room = missing + size // 2
            unknown = np.full(room, AllocationStatus.UNKNOWN, dtype=np.int64)
            self.statuses = np.concatenate((self.statuses, unknown))
            self.scores = np.concatenate((self.scores, np.zeros(room, dtype=np.int64)))


class AllocationCache:
    """Allocates devices for sets of claims."""

    def __init__(self, devices: Devices, filter_timeout_seconds: Seconds) -> None:
        """Start without results.

        Args:
            devices: The devices and their allocated state.
            filter_timeout_seconds: How long the allocator may take on one node; 0 for no limit.
        """
        self._devices: Final = devices
        limited = max(1, int(filter_timeout_seconds * _STEPS_PER_SECOND))
        self._max_steps: Final = min(_MAX_STEPS, limited) if filter_timeout_seconds else _MAX_STEPS
        self._cel_cache: Final = CelCache(devices.reference)
        self._results: OrderedDict[tuple[bytes, ...], _Results] = OrderedDict()
        self._spec_bytes = 0
        self._version: tuple[int, int] | None = None
        self._steps_left = _MAX_STEPS_OF_ATTEMPT

    def begin_attempt(self) -> None:
        """Begin an attempt, which has steps of its own."""
        self._steps_left = _MAX_STEPS_OF_ATTEMPT
        self._cel_cache.begin_attempt()
        self._devices.begin_attempt()

    def statuses(self, claims: Sequence[ClaimToAllocate], nodes: NodeDevices) -> Int:
        """Return, (n,), an `AllocationStatus` per node, never an error or an unknown one.

        Args:
            claims: The claims, in their order.
            nodes: The nodes with their devices.

        Raises:
            PluginError: The allocator met an error on one of the nodes.
        """
        signatures = nodes.signatures
        results = self._results_of(claims)
        results.grow(self._devices.signature_space[1])
        statuses: Int = results.statuses[signatures]
        unknown = (statuses == AllocationStatus.UNKNOWN).nonzero()[0]
        if unknown.shape[0]:
            missing = signatures[unknown]
            different, first = np.unique(missing, return_index=True)
            at = zip(different.tolist(), unknown[first].tolist(), strict=True)
            searched = [*at][: nodes.may_search(different.shape[0])]
            self._allocate_all(results, claims, nodes, searched)
            known = results.statuses[missing]
            statuses[unknown] = np.where(known == AllocationStatus.UNKNOWN, nodes.unknown, known)
        failed = (statuses == AllocationStatus.ERROR).nonzero()[0]
        if failed.shape[0]:
            position = int(failed[0])
            node = nodes.node(position)
            if node is not None:
                state = nodes.allocated_state(position)
                raise PluginError(self._error(claims, results, node, state))
        return statuses

    def scores(self, claims: Sequence[ClaimToAllocate], nodes: NodeDevices) -> Int:
        """Return, (n,), the sums over the selected subrequests: the earlier one is, the more.

        Args:
            claims: The claims, in their order.
            nodes: The nodes with their devices.

        Raises:
            PluginError: The allocator met an error on one of the nodes.
        """
        self.statuses(claims, nodes)  # makes all of them known
        scores: Int = self._results_of(claims).scores[nodes.signatures]
        return scores

    def allocate(
        self, claims: Sequence[ClaimToAllocate], node: Node, allocated_state: AllocatedState
    ) -> tuple[tuple[CompiledClaim, ...], InternalAllocationResult]:
        """Return the devices for the claims on one node, with the compiled claims.

        It has evaluations of its own, however many the attempt has made.

        Raises:
            PluginError: The claims cannot be allocated.
        """
        self._cel_cache.begin_attempt()
        results = self._results_of(claims)
        try:
            allocator = self._allocator(results, claims, node, allocated_state)
            result = allocator.allocate(self._max_steps)
        except EvaluationLimitError as error:
            raise PluginError(f"claim allocation failed on {_timed_out(node)}") from error
        except (AllocationError, AllocationTimeoutError, GatherPoolsError) as error:
            raise PluginError(
                f"claim allocation failed on node {node.metadata.name}: {error}"
            ) from error
        if result is None:
            raise PluginError(f"claim allocation not found for node {node.metadata.name}")
        return results.claims, result

    def _results_of(self, claims: Sequence[ClaimToAllocate]) -> _Results:
        version = (self._devices.signature_space[0], self._devices.classes_version)
        if version != self._version:
            self._results.clear()
            self._spec_bytes = 0
            self._version = version
        key = tuple(claim.encoded_spec for claim in claims)
        results = self._results.get(key)
        if results is None:
            classes, cel_cache = self._devices.classes, self._cel_cache
            compiled = (compile_claim(claim.spec, classes, cel_cache) for claim in claims)
            results = self._results[key] = _Results(tuple(compiled))
            self._spec_bytes += sum(map(len, key))
            self._forget_oldest()
        else:
            self._results.move_to_end(key)
        return results

    def _forget_oldest(self) -> None:
        while len(self._results) > 1 and (
            len(self._results) > _MAX_CLAIM_SETS or self._spec_bytes > _MAX_SPEC_BYTES
        ):
            oldest, _ = self._results.popitem(last=False)
            self._spec_bytes -= sum(map(len, oldest))

    def _allocator(
        self,
        results: _Results,
        claims: Sequence[ClaimToAllocate],
        node: Node,
        allocated_state: AllocatedState,
    ) -> Allocator:
        """Return an allocator for a node.

        Raises:
            GatherPoolsError: The pools of the node cannot be determined.
        """
        devices, names = self._devices, [claim.key for claim in claims]
        pools, reference = devices.pools(node), devices.reference
        return Allocator(results.claims, names, pools, allocated_state, reference)

    def _allocate_all(
        self,
        results: _Results,
        claims: Sequence[ClaimToAllocate],
        nodes: NodeDevices,
        missing: Iterable[tuple[int, int]],
    ) -> None:
        """Store the results for signatures, those that take few steps first.

        Those for which the attempt has no steps left stay unknown.

        Args:
            results: Where the results go.
            claims: The claims.
            nodes: The nodes with their devices.
            missing: The signatures, each with the position of a node that has it.
        """
        for max_steps in (min(_FEW_STEPS, self._max_steps), self._max_steps):
            missing = [
                (signature, position)
                for signature, position in missing
                if (node := nodes.node(position)) is not None
                and not self._allocate_signature(
                    results, claims, signature, node, nodes.allocated_state(position), max_steps
                )
            ]

    def _allocate_signature(
        self,
        results: _Results,
        claims: Sequence[ClaimToAllocate],
        signature: int,
        node: Node,
        allocated_state: AllocatedState,
        max_steps: int,
    ) -> bool:
        """Store the result for one signature; return whether it is known."""
        if self._steps_left <= 0:
            return False
        try:
            allocator = self._allocator(results, claims, node, allocated_state)
        except GatherPoolsError:
            results.statuses[signature] = AllocationStatus.ERROR
            return True
        try:
            result = allocator.allocate(max_steps)
        except EvaluationLimitError as error:
            # This is not a result: the next attempt continues from what was evaluated.
            raise PluginError(timed_out(node)) from error
        except AllocationError:
            results.statuses[signature] = AllocationStatus.ERROR
            return True
        except AllocationTimeoutError:
            if max_steps < self._max_steps:
                return False
            # Each run for this signature would end here; other devices have another signature.
            results.statuses[signature] = AllocationStatus.TIMED_OUT
            return True
        finally:
            self._steps_left -= allocator.steps // (_PART if allocator.steps <= _SHORT else 1)
        if result is None:
            invalid, status = allocator.has_invalid_pool, AllocationStatus.NOT_ALLOCATABLE
            results.statuses[signature] = AllocationStatus.INVALID_POOLS if invalid else status
        else:
            results.statuses[signature] = AllocationStatus.ALLOCATABLE
            selected = result.selected_sub_requests.values()
            results.scores[signature] = sum(MAX_SUB_REQUESTS - index for index in selected)
        return True

    def _error(
        self,
        claims: Sequence[ClaimToAllocate],
        results: _Results,
        node: Node,
        allocated_state: AllocatedState,
    ) -> str:
        """Return the text of the error that the allocator meets on a node; it contains names."""
        try:
            self._allocator(results, claims, node, allocated_state).allocate(self._max_steps)
        except (AllocationError, GatherPoolsError) as error:
            return _filter_error(str(error))
        except (AllocationTimeoutError, EvaluationLimitError):
            return timed_out(node)
        raise AssertionError("the allocator has met an error before")


def timed_out(node: Node) -> str:
    """Return the text for a node on which the allocator took too many steps."""
    return _filter_error(_timed_out(node))


def _timed_out(node: Node) -> str:
    return f"node {node.metadata.name}: timed out trying to allocate devices"


def _filter_error(text: str) -> str:
    return f'running "DynamicResources" filter plugin: {text}'
