"""Whether the claims of a pod can be allocated, for many nodes at once; `allocator` does it.

Pods with equal requests share the results, whatever their claims are called. A search runs once for
each state of devices that some node is in; see `state/devices/signatures`.

Axes: n rows of a view, S signatures.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec
import numpy as np

from scheduler.framework.plugin import PluginError
from scheduler.model.api.device_claims import DeviceRequests
from scheduler.model.api.objects import Node
from scheduler.model.times import Seconds
from scheduler.plugins.dynamic_resources.allocator import (
    Allocator,
    Found,
    SearchError,
    SearchTimeoutError,
)
from scheduler.plugins.dynamic_resources.claim_demand import ClaimDemand, demand_of
from scheduler.plugins.dynamic_resources.device_selectors import (
    EvaluationsExhaustedError,
    Expressions,
)
from scheduler.state.columns.arrays import Int, Rows
from scheduler.state.devices.devices import Devices
from scheduler.state.devices.pools import PoolError

__all__ = ["AllocationCache", "Outcome", "ToAllocate", "timed_out"]

_encode: Final = msgspec.msgpack.Encoder().encode

#: Sets of claims whose results are kept.
_MAX_FORMS: Final = 512
#: Bytes of what they ask for; one claim may have more than a megabyte.
_MAX_FORM_BYTES: Final = 16 * 1024 * 1024
#: About how many steps of a search Python makes in a second.
_STEPS_PER_SECOND: Final = 200_000
#: No search makes more, whatever the configured limit is; large pools may take longer.
_MAX_STEPS: Final = 50_000
_STEPS_PER_DEVICE: Final = 4
#: A search that needs more is made after those on the other nodes.
_FEW_STEPS: Final = 2_000
#: All searches of an attempt together make no more, beside the one that exceeds it. Short ones
#: count a part only: every node of a large cluster may need one.
_MAX_STEPS_OF_ATTEMPT: Final = 100_000
_SHORT: Final = 500
_PART: Final = 4


class Outcome(IntEnum):
    """What came of a search."""

    UNKNOWN = -1
    FITS = 0
    CANNOT = 1
    INVALID_POOLS = 2
    #: It ends the attempt.
    ERROR = 3
    #: It took too many steps, and ends the attempt if no other node fits.
    GIVEN_UP = 4


class ToAllocate(NamedTuple):
    """A claim that has to be allocated."""

    #: Namespace and name, joined by a slash.
    label: str
    uid: str
    devices: DeviceRequests
    #: Equal for claims that ask for the same.
    form: bytes

    @classmethod
    def made(cls, label: str, uid: str, devices: DeviceRequests) -> "ToAllocate":
        """Return a claim that exists in memory only."""
        return cls(label, uid, devices, _encode(devices))


class _Form:
    """The results for one set of claims, by signature; (S,) each."""

    __slots__ = ("claims", "outcomes", "scores")

    def __init__(self, claims: tuple[ClaimDemand, ...]) -> None:
        self.claims = claims
        self.outcomes: Int = np.zeros(0, dtype=np.int64)
        self.scores: Int = np.zeros(0, dtype=np.int64)

    def grow(self, size: int) -> None:
        missing = size - self.outcomes.shape[0]
        if missing > 0:
            room = missing + size // 2
            unknown = np.full(room, Outcome.UNKNOWN, dtype=np.int64)
            self.outcomes = np.concatenate((self.outcomes, unknown))
            self.scores = np.concatenate((self.scores, np.zeros(room, dtype=np.int64)))


class AllocationCache:
    """Allocates devices for sets of claims."""

    def __init__(self, devices: Devices, filter_timeout_seconds: Seconds) -> None:
        """Start without results.

        Args:
            devices: What is known of devices.
            filter_timeout_seconds: How long a search on one node may take; 0 for no limit.
        """
        self._devices: Final = devices
        self._steps: Final = (
            min(_MAX_STEPS, max(1, int(filter_timeout_seconds * _STEPS_PER_SECOND)))
            if filter_timeout_seconds
            else _MAX_STEPS
        )
        self._expressions: Final = Expressions(devices.reference)
        self._forms: OrderedDict[tuple[bytes, ...], _Form] = OrderedDict()
        self._form_bytes = 0
        self._state: tuple[int, int] | None = None
        self._steps_left = _MAX_STEPS_OF_ATTEMPT

    def begin(self) -> None:
        """Begin an attempt, which has steps of its own."""
        self._steps_left = _MAX_STEPS_OF_ATTEMPT
        self._expressions.begin()

    def outcomes(
        self, claims: Sequence[ToAllocate], rows: Rows, nodes: Sequence[Node | None]
    ) -> Int:
        """Return, (n,), values of `Outcome`, never an error or an unknown one.

        Args:
            claims: The claims, in their order.
            rows: (n,) the rows.
            nodes: The node of each row of the cluster.

        Raises:
            PluginError: A search on one of the rows met an error.
        """
        signatures = self._devices.signatures()[rows]
        form = self._form(claims)
        form.grow(self._devices.signature_space[1])
        outcomes: Int = form.outcomes[signatures]
        unknown = (outcomes == Outcome.UNKNOWN).nonzero()[0]
        if unknown.shape[0]:
            missing = signatures[unknown]
            different, first = np.unique(missing, return_index=True)
            rows_of = rows[unknown[first]].tolist()
            at = [nodes[row] for row in rows_of]
            self._search_all(form, claims, zip(different.tolist(), at, strict=True))
            found = form.outcomes[missing]
            outcomes[unknown] = np.where(found == Outcome.UNKNOWN, Outcome.GIVEN_UP, found)
        failed = (outcomes == Outcome.ERROR).nonzero()[0]
        if failed.shape[0]:
            node = nodes[int(rows[int(failed[0])])]
            if node is not None:
                raise PluginError(self._error(claims, form, node))
        return outcomes

    def scores(self, claims: Sequence[ToAllocate], rows: Rows, nodes: Sequence[Node | None]) -> Int:
        """Return, (n,), the sums over the choices that are taken: the earlier a choice, the more.

        Args:
            claims: The claims, in their order.
            rows: (n,) the rows.
            nodes: The node of each row of the cluster.

        Raises:
            PluginError: A search on one of the rows met an error.
        """
        self.outcomes(claims, rows, nodes)  # makes all of them known
        scores: Int = self._form(claims).scores[self._devices.signatures()[rows]]
        return scores

    def find(
        self, claims: Sequence[ToAllocate], node: Node
    ) -> tuple[tuple[ClaimDemand, ...], Found]:
        """Return the devices for the claims on one node, with what was asked for.

        It has evaluations of its own, whatever the attempt has needed.

        Raises:
            PluginError: There are none.
        """
        self._expressions.begin()
        form = self._form(claims)
        try:
            found = self._made(form, claims, node, self._steps).run()
        except EvaluationsExhaustedError as error:
            raise PluginError(f"claim allocation failed on {_too_late(node)}") from error
        except (SearchError, SearchTimeoutError, PoolError) as error:
            raise PluginError(
                f"claim allocation failed on node {node.metadata.name}: {error}"
            ) from error
        if found is None:
            raise PluginError(f"claim allocation not found for node {node.metadata.name}")
        return form.claims, found

    def _form(self, claims: Sequence[ToAllocate]) -> _Form:
        state = (self._devices.signature_space[0], self._devices.classes_version)
        if state != self._state:
            self._forms.clear()
            self._form_bytes = 0
            self._state = state
        key = tuple(claim.form for claim in claims)
        form = self._forms.get(key)
        if form is None:
            classes, expressions = self._devices.classes, self._expressions
            demands = (demand_of(claim.devices, classes, expressions) for claim in claims)
            form = self._forms[key] = _Form(tuple(demands))
            self._form_bytes += sum(map(len, key))
            self._forget_oldest()
        else:
            self._forms.move_to_end(key)
        return form

    def _forget_oldest(self) -> None:
        while len(self._forms) > 1 and (
            len(self._forms) > _MAX_FORMS or self._form_bytes > _MAX_FORM_BYTES
        ):
            oldest, _ = self._forms.popitem(last=False)
            self._form_bytes -= sum(map(len, oldest))

    def _made(
        self, form: _Form, claims: Sequence[ToAllocate], node: Node, most_steps: int
    ) -> Allocator:
        pools = self._devices.pools(node)
        in_pools = sum(len(pool.devices) for pool in pools)
        most_steps = max(most_steps, _STEPS_PER_DEVICE * in_pools)
        labels = [claim.label for claim in claims]
        return Allocator(form.claims, labels, pools, self._devices, most_steps)

    def _search_all(
        self,
        form: _Form,
        claims: Sequence[ToAllocate],
        missing: Iterable[tuple[int, Node | None]],
    ) -> None:
        """Store the results for signatures, those that are soon known first.

        Those that the attempt has no steps left for stay unknown.
        """
        for most_steps in (min(_FEW_STEPS, self._steps), self._steps):
            left = []
            for signature, node in missing:
                if node is not None and not self._search(form, claims, signature, node, most_steps):
                    left.append((signature, node))
            missing = left

    def _search(
        self,
        form: _Form,
        claims: Sequence[ToAllocate],
        signature: int,
        node: Node,
        most_steps: int,
    ) -> bool:
        """Store the result of a search for one signature; return whether it is known."""
        if self._steps_left <= 0:
            return False
        try:
            search = self._made(form, claims, node, most_steps)
        except PoolError:
            form.outcomes[signature] = Outcome.ERROR
            return True
        try:
            found = search.run()
        except EvaluationsExhaustedError as error:
            # This is not a result: the next attempt continues from what was evaluated.
            raise PluginError(timed_out(node)) from error
        except SearchError:
            form.outcomes[signature] = Outcome.ERROR
            return True
        except SearchTimeoutError:
            if most_steps < self._steps:
                return False
            # Each search for this signature would end here: it is another one if devices change.
            form.outcomes[signature] = Outcome.GIVEN_UP
            return True
        finally:
            self._steps_left -= search.steps // (_PART if search.steps <= _SHORT else 1)
        if found is not None:
            form.outcomes[signature] = Outcome.FITS
            form.scores[signature] = sum(_PRIORITY - choice for choice in found.chosen.values())
        else:
            invalid = search.has_invalid_pool
            form.outcomes[signature] = Outcome.INVALID_POOLS if invalid else Outcome.CANNOT
        return True

    def _error(self, claims: Sequence[ToAllocate], form: _Form, node: Node) -> str:
        """Return the text of the error that the search on a node meets; it has names in it."""
        try:
            self._made(form, claims, node, self._steps).run()
        except (SearchError, PoolError) as error:
            return _filter_error(str(error))
        except (SearchTimeoutError, EvaluationsExhaustedError):
            return timed_out(node)
        raise AssertionError("the search has met an error before")


#: The score of the first choice of a request.
#: Source: api v0.36.3 resource/v1.FirstAvailableDeviceRequestMaxSize.
_PRIORITY: Final = 8


def timed_out(node: Node) -> str:
    """Return the text for a node that took too many steps."""
    return _filter_error(_too_late(node))


def _too_late(node: Node) -> str:
    return f"node {node.metadata.name}: timed out trying to allocate devices"


def _filter_error(text: str) -> str:
    return f'running "DynamicResources" filter plugin: {text}'
