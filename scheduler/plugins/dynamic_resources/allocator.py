"""The search for devices: depth first, the first solution counts.

Pools, slices, devices, requests and claims are tried in a fixed order, which is visible in the
allocation. Within a request only combinations of devices are tried, between requests everything.

What cannot succeed is not tried: `pruning`. This changes how soon a failure is known, and neither
which solution is found, nor which error is met first.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.Allocator.Allocate.
Differs: the time limit is a number of steps, as nothing here reads a clock.
"""

from collections.abc import Hashable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from scheduler.model.api.devices import EXACT_COUNT, MAX_RESULTS
from scheduler.plugins.dynamic_resources.candidates import (
    CandidateFinder,
    Candidates,
    SearchError,
)
from scheduler.plugins.dynamic_resources.capacity import CapacityError
from scheduler.plugins.dynamic_resources.claim_demand import ClaimDemand, Want
from scheduler.plugins.dynamic_resources.pruning import MANY, Pruning
from scheduler.plugins.dynamic_resources.taken_devices import (
    ConstraintViolatedError,
    TakenDevice,
    Taking,
    Undo,
)
from scheduler.state.devices.devices import Devices
from scheduler.state.devices.pools import NodePool

__all__ = ["PATIENCE", "Allocator", "Found", "SearchError", "SearchTimeoutError"]

#: A search calls itself, four times for each device; pods that need more are refused.
_MAX_DEPTH: Final = 720
#: After so many devices that were of no use, what cannot succeed is found out first: for less it
#: costs more than it saves.
PATIENCE: Final = 32


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
        patience: int = PATIENCE,
    ) -> None:
        """Prepare a search.

        Args:
            claims: What is asked for.
            labels: The names of the claims in errors.
            pools: Of the node.
            devices: What is known of devices.
            most_steps: The search is given up after so many.
            patience: After so many useless devices it is found out first what cannot succeed.
        """
        self._claims = claims
        self._labels = labels
        self._pools = pools
        usable = [pool for pool in pools if not pool.incomplete and not pool.invalid]
        self._reference = devices.reference
        self._most_steps = most_steps
        #: How many were made.
        self.steps = 0
        self._taking = Taking(claims, usable, devices)
        self._finder = CandidateFinder(labels, self._taking, devices.reference, self._step)
        self._chosen: dict[tuple[int, int], int] = {}
        self._patience = patience
        #: Once there is no more patience.
        self._pruning: Pruning | None = None
        #: The sets of equal devices, where there are too many for that.
        self._equals: dict[Hashable, int] = {}

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
        if self._place(0, 0, None) is not _Outcome.FOUND:
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
            every = self._finder.every(want, where, label, self._pools)
            seen = sum(1 << at for at in every) if len(every) <= MAX_RESULTS else 0
            candidates = Candidates(len(every), seen, every)
        elif want.api.allocation_mode == EXACT_COUNT:
            candidates = Candidates(want.api.count)
        else:
            raise SearchError(f"{where}: unsupported count mode {want.api.allocation_mode}")
        self._finder.candidates[want] = candidates
        return candidates.need

    # The search -------------------------------------------------------------------------------

    def _place(self, index: int, position: int, choice: int | None) -> _Outcome:
        """Place everything from a request on.

        Args:
            index: Of the claim.
            position: Of the request in the claim.
            choice: The choice of the request that is tried, if it has choices.
        """
        self._step()
        if index >= len(self._claims):
            return _Outcome.FOUND
        requests = self._claims[index].requests
        if position >= len(requests):
            done = self._place(index + 1, 0, None)
            return _Outcome.FAILED if done is _Outcome.TOO_MANY else done
        if choice is not None:
            return self._place_want(_Spot(index, position, choice), 0, 0, 0)
        pruning, state = self._pruning, None
        if pruning is not None:
            state = pruning.state(index, position)
            if state in pruning.failed:
                return _Outcome.FAILED
        if requests[position].optional:
            done = self._place_choice(index, position)
        else:
            done = self._place_want(_Spot(index, position, None), 0, 0, 0)
        # Not where there were too many: which devices were tried before depends on their order.
        if pruning is not None and done is _Outcome.FAILED:
            pruning.failed.add(state)
        return done

    def _place_choice(self, index: int, position: int) -> _Outcome:
        """Try the choices of a request in their order."""
        too_many = True
        for choice in range(len(self._claims[index].requests[position].wants)):
            done = self._place(index, position, choice)
            if done is _Outcome.FOUND:
                self._chosen[index, position] = choice
                return done
            too_many = too_many and done is _Outcome.TOO_MANY
        return _Outcome.TOO_MANY if too_many else _Outcome.FAILED

    def _place_want(self, spot: _Spot, number: int, start: int, barred: int) -> _Outcome:
        """Place the next device of a request, or what comes after the request.

        Args:
            spot: The request.
            number: How many devices it has already.
            start: The position to go on from, so that only combinations are tried.
            barred: The set of devices that are as useless for the request as those tried before.
        """
        index, position, choice = spot
        want = self._claims[index].requests[position].wants[choice or 0]
        candidates = self._finder.candidates[want]
        need, every = candidates.need, candidates.every
        if want.all and not every:
            return _Outcome.FAILED
        if number >= need:
            return self._place(index, position + 1, None)
        if len(self._taking.taken[index]) + need - number > MAX_RESULTS:
            return _Outcome.TOO_MANY
        self._step()
        if not want.all:
            return self._place_device(spot, want, number, start, barred)
        undo = self._take(index, want, every[number], must=True)
        return _Outcome.FAILED if undo is None else self._go_on(spot, undo, number, 0)

    def _go_on(self, spot: _Spot, undo: Undo, number: int, barred: int) -> _Outcome:
        """Place what comes after a device that was taken; give it back if that fails."""
        done = self._place_want(spot, number + 1, undo.at + 1, barred)
        if done is not _Outcome.FOUND:
            self._taking.give_back(spot.claim, undo)
        return done

    def _place_device(
        self, spot: _Spot, want: Want, number: int, start: int, barred: int
    ) -> _Outcome:
        """Try the devices from a position on; for the arguments see `_place_want`."""
        index, left = spot.claim, self._finder.candidates[want].need - number
        if self._pruning is not None and self._pruning.is_hopeless(
            index, spot.request, want, left, -1 << start & ~barred
        ):
            return _Outcome.FAILED
        # Where there were enough for the device before there are enough for the first one tried.
        enough = number > 0 or left == 1
        while enough or self._finder.has_enough(index, want, left, start, barred):
            at = self._finder.next(index, want, start, barred)
            if at is None:
                break
            self._step()
            undo = self._take(index, want, at, must=False)
            if undo is not None:
                done = self._go_on(spot, undo, number, barred)
                if done is not _Outcome.FAILED:
                    return done
            barred |= self._barred(index, spot.request, want, at)
            start, enough = at + 1, left == 1
        return _Outcome.FAILED

    def _barred(self, index: int, position: int, want: Want, at: int) -> int:
        """Return the set of devices that are useless for a request, as one of them is."""
        if self._patience > 0:
            self._patience -= 1
            return 0
        if len(self._taking.entries) > MANY:
            return self._equal(want, at)
        if self._pruning is None:
            for of, claim in enumerate(self._claims):
                for each in (each for request in claim.requests for each in request.wants):
                    while not each.all and self._finder.look(of, each, len(self._taking.entries)):
                        pass
            self._pruning = Pruning(self._claims, self._finder.candidates, self._taking, self._step)
        return self._pruning.twins(index, position, want, at)

    def _equal(self, want: Want, at: int) -> int:
        """Return the set of devices that are equal to one; none for what can be used twice."""
        entries, one = self._taking.entries, self._taking.entries[at]
        if want.admin or one.shared:
            return 0
        equal = self._equals.get(one.twin)
        if equal is None:
            bits = ["01"[each.twin == one.twin] for each in reversed(entries)]
            equal = self._equals[one.twin] = int("".join(bits), 2)
        return equal

    def _take(self, index: int, want: Want, at: int, *, must: bool) -> Undo | None:
        entry = self._taking.entries[at]
        try:
            return self._taking.take(index, want, at, must=must)
        except ConstraintViolatedError as error:
            raise SearchError(
                f"claim {self._labels[index]}, request {want.shown}: cannot add device "
                f"{'/'.join(entry.id)} because a claim constraint would not be satisfied"
            ) from error
        except CapacityError as error:
            raise self._finder.capacity_error(index, want, entry, error) from error

    def _step(self, number: int = 1) -> None:
        self.steps += number
        if self.steps > self._most_steps:
            raise SearchTimeoutError
