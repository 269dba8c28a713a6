"""The search for devices: depth first, the first solution counts.

Pools, slices, devices, requests and claims are tried in a fixed order, which is visible in the
allocation. Within a request only combinations of devices are tried, between requests everything.

A device that is equal to one that failed in the same place is skipped: it would fail, too. This
changes how soon a failure is known, and not which solution is found.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.Allocator.Allocate.
Differs: the time limit is a number of steps, as nothing here reads a clock.
"""

from collections.abc import Hashable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from scheduler.model.api.devices import EXACT_COUNT, MAX_RESULTS
from scheduler.plugins.dynamic_resources.capacity import CapacityError
from scheduler.plugins.dynamic_resources.claim_demand import ClaimDemand, Want
from scheduler.plugins.dynamic_resources.device_selectors import Expression, explained
from scheduler.plugins.dynamic_resources.taken_devices import (
    ConstraintViolatedError,
    TakenDevice,
    Taking,
    Undo,
)
from scheduler.state.devices.devices import Devices
from scheduler.state.devices.pools import NodePool
from scheduler.state.devices.slices import DeviceEntry

__all__ = ["Allocator", "Found", "SearchError", "SearchTimeoutError"]

#: A search calls itself, four times for each device; pods that need more are refused.
_MAX_DEPTH: Final = 720


class SearchError(Exception):
    """The search cannot go on: the attempt ends with this text."""


class SearchTimeoutError(Exception):
    """The search took too many steps."""


class _Outcome(IntEnum):
    FAILED = 0
    FOUND = 1
    #: No solution has few enough devices for the claim.
    TOO_MANY = 2


class Found(NamedTuple):
    """A solution."""

    #: The devices of each claim, in the order in which they were taken.
    devices: tuple[tuple[TakenDevice, ...], ...]
    #: The choice of each request with choices, by index of the claim and of the request.
    chosen: Mapping[tuple[int, int], int]


#: Position of a device: pool, index in the pool.
_Start = tuple[int, int]
_FIRST: Final[_Start] = (0, 0)


class _Spot(NamedTuple):
    """A request that is being placed."""

    claim: int
    request: int
    #: The choice that is tried, if it has choices.
    choice: int | None


class Allocator:
    """One search on one node."""

    def __init__(
        self,
        claims: Sequence[ClaimDemand],
        labels: Sequence[str],
        pools: Sequence[NodePool],
        devices: Devices,
        most_steps: int,
    ) -> None:
        """Prepare a search.

        Args:
            claims: What is asked for.
            labels: The names of the claims in errors.
            pools: Of the node.
            devices: What is known of devices.
            most_steps: The search is given up after so many.
        """
        self._claims = claims
        self._labels = labels
        self._pools = pools
        self._usable = [pool for pool in pools if not pool.incomplete and not pool.invalid]
        self._reference = devices.reference
        self._most_steps = most_steps
        #: How many were made.
        self.steps = 0
        self._needs: dict[Want, tuple[int, tuple[tuple[NodePool, DeviceEntry], ...]]] = {}
        self._taking = Taking(claims, devices)
        self._chosen: dict[tuple[int, int], int] = {}

    @property
    def has_invalid_pool(self) -> bool:
        """Whether some pool of the node is invalid."""
        return any(pool.invalid for pool in self._pools)

    def run(self) -> Found | None:
        """Return the first solution; `None` if there is none.

        Raises:
            SearchError: The search met an error before a solution.
            SearchTimeoutError: There were too many steps.
        """
        depth = 0
        for index in range(len(self._claims)):
            depth += self._check(index) * 4 + len(self._claims[index].requests) * 4 + 1
        if depth > _MAX_DEPTH:
            raise SearchError(
                "the claims of the pod ask for more devices than preemptive-scheduler searches for"
            )
        if self._place(0, 0, None, 0, _FIRST) is not _Outcome.FOUND:
            return None
        return Found(tuple(map(tuple, self._taking.taken)), dict(self._chosen))

    # Before the search ------------------------------------------------------------------------

    def _check(self, index: int) -> int:
        """Find out how many devices a claim needs at least, and at most; return the latter.

        Raises:
            SearchError: The claim cannot be allocated at all.
        """
        claim, label, total, most = self._claims[index], self._labels[index], 0, 0
        for request in claim.requests:
            needs = [self._need(want, label) for want in request.wants]
            least = min(needs, default=0)
            if self._reference.limits_devices_by_request and total + least > MAX_RESULTS:
                raise SearchError(
                    f"claim {label}, request {request.name}: adding {least} devices exceeds the "
                    f"claim limit of {MAX_RESULTS}, with {total} already accounted for"
                )
            total += least
            most += min(max(needs, default=0), MAX_RESULTS)
        if total > MAX_RESULTS:
            raise SearchError(
                f"claim {label}: number of requested devices {total} exceeds the claim limit of "
                f"{MAX_RESULTS}"
            )
        for position, constraint in enumerate(claim.constraints):
            if constraint.match_attribute is None and constraint.distinct_attribute is None:
                raise SearchError(
                    f"claim {label}, constraint #{position}: empty constraint (unsupported "
                    "constraint type?)"
                )
        return min(most, MAX_RESULTS)

    def _need(self, want: Want, label: str) -> int:
        where = f"claim {label}, request {want.shown}"
        if want.api.derived_attributes and self._reference.refuses_derived_attributes:
            raise SearchError(
                f"{where}: cannot handle request with derived attributes, the feature is disabled"
            )
        for position, selector in enumerate(want.api.selectors):
            if selector.cel is None:
                raise SearchError(
                    f"{where}, selector #{position}: CEL expression empty (unsupported selector "
                    "type?)"
                )
        name = want.api.device_class_name
        if not name:
            raise SearchError(f"{where}: missing device class name (unsupported request type?)")
        if want.device_class is None:
            missing = f'deviceclass.resource.k8s.io "{name}" not found'
            raise SearchError(f"{where}: could not retrieve device class {name}: {missing}")
        if want.all:
            every = self._every(want, where, label)
            self._needs[want] = (len(every), every)
        elif want.api.allocation_mode == EXACT_COUNT:
            self._needs[want] = (want.api.count, ())
        else:
            raise SearchError(f"{where}: unsupported count mode {want.api.allocation_mode}")
        return self._needs[want][0]

    def _every(
        self, want: Want, where: str, label: str
    ) -> tuple[tuple[NodePool, DeviceEntry], ...]:
        """Return all devices that can be selected, for the mode `All`."""
        every = []
        for pool in self._pools:
            if pool.incomplete or pool.invalid:
                state = "being updated" if pool.incomplete else "invalid"
                raise SearchError(
                    f"{where}: asks for all devices, but resource pool {pool.name} is currently "
                    f"{state}"
                )
            for entry in pool.devices:
                self._step()
                if not self._is_selectable(want, pool, entry, label):
                    continue
                try:
                    if self._taking.has_capacity(want, entry):
                        every.append((pool, entry))
                except CapacityError as error:
                    name = entry.device.name
                    text = f"{where}: checking capacity for device {name}: {error}"
                    raise SearchError(text) from error
        return tuple(every)

    # The search -------------------------------------------------------------------------------

    def _place(
        self, index: int, position: int, choice: int | None, number: int, start: _Start
    ) -> _Outcome:
        """Place everything from a device of a request on.

        Args:
            index: Of the claim.
            position: Of the request in the claim.
            choice: The choice of the request that is tried, if it has choices.
            number: How many devices the request has already.
            start: Where to go on, so that only combinations are tried.
        """
        self._step()
        if index >= len(self._claims):
            return _Outcome.FOUND
        requests = self._claims[index].requests
        if position >= len(requests):
            done = self._place(index + 1, 0, None, 0, _FIRST)
            return _Outcome.FAILED if done is _Outcome.TOO_MANY else done
        request = requests[position]
        if request.optional and choice is None:
            return self._place_choice(index, position)
        return self._place_want(_Spot(index, position, choice), number, start)

    def _place_choice(self, index: int, position: int) -> _Outcome:
        """Try the choices of a request in their order."""
        too_many = True
        for choice in range(len(self._claims[index].requests[position].wants)):
            done = self._place(index, position, choice, 0, _FIRST)
            if done is _Outcome.FOUND:
                self._chosen[index, position] = choice
                return done
            too_many = too_many and done is _Outcome.TOO_MANY
        return _Outcome.TOO_MANY if too_many else _Outcome.FAILED

    def _place_want(self, spot: _Spot, number: int, start: _Start) -> _Outcome:
        """Place the next device of a request, or what comes after the request."""
        index, position, choice = spot
        want = self._claims[index].requests[position].wants[choice or 0]
        need, every = self._needs[want]
        if want.all and not every:
            return _Outcome.FAILED
        if number >= need:
            return self._place(index, position + 1, None, 0, _FIRST)
        if len(self._taking.taken[index]) + need - number > MAX_RESULTS:
            return _Outcome.TOO_MANY
        if not want.all:
            return self._place_device(spot, want, number, start)
        undo = self._take(index, want, *every[number], must=True)
        if undo is None:
            return _Outcome.FAILED
        return self._go_on(spot, undo, number, _FIRST)

    def _go_on(self, spot: _Spot, undo: Undo, number: int, start: _Start) -> _Outcome:
        """Place what comes after a device that was taken; give it back if that fails."""
        index, position, choice = spot
        done = self._place(index, position, choice, number + 1, start)
        if done is not _Outcome.FOUND:
            self._taking.give_back(index, undo)
        return done

    def _place_device(self, spot: _Spot, want: Want, number: int, start: _Start) -> _Outcome:
        """Try the devices of all pools, from a position on."""
        first_pool, first_device = start
        for at_pool in range(first_pool, len(self._usable)):
            pool = self._usable[at_pool]
            failed: set[Hashable] = set()
            for at_device in range(first_device, len(pool.devices)):
                entry = pool.devices[at_device]
                self._step()
                if self._taking.is_in_use(spot.claim, want, entry):
                    continue
                twin = self._taking.twin(want, pool, entry)
                if twin is not None and twin in failed:
                    continue
                undo = self._selected(spot.claim, want, pool, entry)
                if undo is not None:
                    done = self._go_on(spot, undo, number, (at_pool, at_device + 1))
                    if done is not _Outcome.FAILED:
                        return done
                failed.add(twin)
            first_device = 0
        return _Outcome.FAILED

    def _selected(self, index: int, want: Want, pool: NodePool, entry: DeviceEntry) -> Undo | None:
        """Take a device that can be selected; `None` if that is not possible."""
        if not self._is_selectable(want, pool, entry, self._labels[index]):
            return None
        return self._take(index, want, pool, entry, must=False)

    def _take(
        self, index: int, want: Want, pool: NodePool, entry: DeviceEntry, *, must: bool
    ) -> Undo | None:
        try:
            return self._taking.take(index, want, pool, entry, must=must)
        except ConstraintViolatedError as error:
            raise SearchError(
                f"claim {self._labels[index]}, request {want.shown}: cannot add device "
                f"{'/'.join(entry.id)} because a claim constraint would not be satisfied"
            ) from error
        except CapacityError as error:
            raise SearchError(
                f"claim {self._labels[index]}, request {want.shown}: checking capacity for device "
                f"{'/'.join(entry.id)}: {error}"
            ) from error

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._most_steps:
            raise SearchTimeoutError

    def _is_selectable(self, want: Want, pool: NodePool, entry: DeviceEntry, label: str) -> bool:
        """Return whether the class and the request select a device, and the node can reach it."""
        name = want.api.device_class_name
        return (
            self._match(want.class_selectors, f"class {name}", entry)
            and self._match(want.selectors, f"claim {label}", entry)
            and entry.id not in pool.unreachable
        )

    def _match(self, selectors: Sequence[Expression], where: str, entry: DeviceEntry) -> bool:
        for position, selector in enumerate(selectors):
            result = selector.result(entry.kind)
            if isinstance(result, str):
                at = f"{where}: selector #{position}"
                if selector.refusal:
                    raise SearchError(f"{at}: CEL compile error: {selector.refusal}")
                named = self._reference.selector_errors_name_devices
                on, cure = explained(result, "/".join(entry.id), named=named)
                raise SearchError(f"{at}{on}: CEL runtime error: {result}{cure}")
            if not result:
                return False
        return True
