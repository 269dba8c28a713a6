"""Skips branches of the search that cannot succeed.

* If a device led to no solution, equivalent devices do not either.
* If requests failed after other ones had been allocated, they fail again after these were allocated
  as many devices of each kind.
* Requests fail that need more devices than there are for them, alone or together.

Two devices are equivalent here if each request that is still to be allocated matches both or none,
and if they are equal in the constrained attributes, the counters, and the capacity that is shared.
So devices with serial numbers are equivalent, unless a selector reads these.

Pruning must not change the error that the allocator meets first. Where the order of devices decides
about that, at devices on which matching fails and at lists, devices before and after them are kinds
of their own.

Sets of devices are integers with a bit for each position, see `allocating_devices`.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import or_
from typing import Final, NamedTuple

from scheduler.plugins.dynamic_resources.structured.allocating_devices import AllocatingDevices
from scheduler.plugins.dynamic_resources.structured.claims import (
    CompiledClaim,
    RequestAccessor,
    RequestIndices,
    request_indices,
)
from scheduler.plugins.dynamic_resources.structured.constraints import (
    LIST,
    AttributeConstraint,
    TypedValue,
)
from scheduler.plugins.dynamic_resources.structured.request_data import RequestData
from scheduler.state.devices.pools import Pool

__all__ = ["MAX_DEVICES", "Pruning"]

#: On a node with more devices these are not divided into kinds: that would cost too much.
MAX_DEVICES: Final = 2048
#: So many requests are considered together; all combinations of them are.
_MAX_TOGETHER: Final = 6
#: Up to so many values of a `matchAttribute` are tried.
_MAX_VALUES: Final = 32

#: Steps that the parts of this take; a step is about 5 µs.
_STEPS_OF_KIND: Final = 4
_STEPS_OF_STATE: Final = 2
_STEPS_OF_NEED: Final = 1
_SUMS_PER_STEP: Final = 8


class _Need(NamedTuple):
    """How many devices of a set a request still needs at least."""

    devices: int
    number: int
    #: The constraints that match the request in each of its alternatives.
    constraints: tuple[AttributeConstraint, ...]


class _Stage(NamedTuple):
    """The facts on which a request and all that follow depend."""

    #: The sets of equivalent devices; devices that no request matches any more are in none.
    kinds: tuple[int, ...]
    #: The index of the set, by position.
    kind_of: Mapping[int, int]
    #: The constraints of the claim on this request and on later ones.
    constraints: tuple[AttributeConstraint, ...]
    #: The needs of the requests after this one, in all claims, of the devices that match.
    later: tuple[_Need, ...]
    has_admin_access: bool
    consumes_counters: bool


class _CounterConsumers(NamedTuple):
    """Devices that consume counters of the same set."""

    devices: int
    pool: Pool
    #: For each counter the amounts, ascending, and the set of devices that consume as much.
    amounts: tuple[tuple[tuple[str, str], tuple[tuple[int, int], ...]], ...]


class Pruning:
    """Prunes one run of the allocator, once all devices are matched."""

    def __init__(
        self,
        claims: Sequence[CompiledClaim],
        request_data: Mapping[RequestAccessor, RequestData],
        allocating: AllocatingDevices,
        count_steps: Callable[[int], None],
    ) -> None:
        """Prepare it.

        Args:
            claims: The claims to allocate.
            request_data: The devices that match each request, all of them determined.
            allocating: The devices that are being allocated.
            count_steps: Called with the number of steps that some work takes.
        """
        self._claims = claims
        self._request_data = request_data
        self._allocating = allocating
        self._count_steps = count_steps
        #: The states from which all branches have failed.
        self.failed: set[Hashable] = set()
        self._stages: dict[tuple[int, int], _Stage] = {}
        devices = enumerate(allocating.devices)
        self._shared: Final = sum(
            1 << at for at, device in devices if device.allow_multiple_allocations
        )
        self._consumers: Final = tuple(_counter_consumers(allocating, ~self._shared))
        #: The set of devices by value, for each constraint that can forbid something.
        self._values: Final[dict[AttributeConstraint, dict[TypedValue, int]]] = {}
        #: Devices before and after these are kinds of their own.
        self._special = 0
        for r in request_indices(claims):
            self._special |= request_data[r.request].failing
        #: Whether an error can be met, so that no branch must be skipped for its needs.
        self._may_fail = bool(self._special)
        for index in range(len(claims)):
            for constraint in allocating.constraints[index]:
                self._add_constraint(index, constraint)

    def _add_constraint(self, index: int, constraint: AttributeConstraint) -> None:
        """Take a constraint of a claim into account."""
        devices, by_value = self._allocating.devices, dict[TypedValue, int]()
        constrained = [
            request
            for compiled in self._claims[index].requests
            for request in compiled.alternatives
            if constraint.matches(request)
        ]
        matching = reduce(or_, (self._request_data[each].matching for each in constrained), 0)
        for at in _positions(matching):
            value = constraint.lookup_attribute(devices[at])
            if value is not None:
                by_value[value] = by_value.get(value, 0) | 1 << at
        lists = sum(same for value, same in by_value.items() if value[0] == LIST)
        valued = reduce(or_, by_value.values(), 0)
        all_devices = [
            self._request_data[request].matching
            for request in constrained
            if request.wants_all_devices
        ]
        # A request for all devices ends in an error if one of them has no value.
        fails = any(devices & ~valued for devices in all_devices)
        # A claim has no whole device twice, so devices with a value of their own always differ.
        differ = all(same & same - 1 == 0 for same in by_value.values())
        if constraint.distinct and differ and not (lists or fails or matching & self._shared):
            return
        self._values[constraint] = by_value
        self._special |= reduce(or_, all_devices, lists)
        self._may_fail = self._may_fail or bool(all_devices)

    # Equivalent devices -----------------------------------------------------------------------

    def _stage(self, index: int, position: int) -> _Stage:
        stage = self._stages.get((index, position))
        if stage is None:
            stage = self._stages[index, position] = self._new_stage(index, position)
        return stage

    def _new_stage(self, index: int, position: int) -> _Stage:
        allocating = self._allocating
        requests = [*request_indices(self._claims, (index, position))]
        masks = [self._request_data[r.request].matching for r in requests]
        constraints = dict.fromkeys(
            constraint for r in requests for constraint in self._constraints(r.claim, (r.request,))
        )
        matching, part = reduce(or_, masks, 0), 0
        numbers: dict[str, int] = {}
        kinds: list[int] = []
        kind_of: dict[int, int] = {}
        self._count_steps(_STEPS_OF_KIND * (matching | self._special).bit_count())
        for at in _positions(matching | self._special):
            special = self._special >> at & 1
            part += special
            key = (
                part,
                special,
                [mask >> at & 1 for mask in masks],
                self._consumption(at),
                [each.lookup_attribute(allocating.devices[at]) for each in constraints],
            )
            number = numbers.setdefault(repr(key), len(numbers))
            if number == len(kinds):
                kinds.append(0)
            kinds[number] |= 1 << at
            kind_of[at] = number
            part += special
        return _Stage(
            kinds=tuple(kinds),
            kind_of=kind_of,
            constraints=tuple(
                each for each in allocating.constraints[index] if each in constraints
            ),
            later=tuple(self._needs(index, position + 1)),
            has_admin_access=any(r.request.admin_access for r in requests),
            consumes_counters=any(
                allocating.devices[at].consumes_counters for at in _positions(matching)
            ),
        )

    def _consumption(self, at: int) -> Hashable:
        """Return the counters that a device consumes, and the shares of a shared one."""
        allocating = self._allocating
        device = allocating.devices[at]
        counters = None
        if device.consumes_counters:
            counters = (allocating.pool(at).id, device.consumes_counters)
        if not device.allow_multiple_allocations:
            return counters
        allocated_state, capacity = allocating.allocated_state, sorted(device.capacity.items())
        consumed = sorted(allocated_state.consumed_capacity(device.id).items())
        return counters, capacity, consumed, allocated_state.is_shared(device.id)

    def equivalent_devices(self, r: RequestIndices, at: int) -> int:
        """Return the set of devices equivalent to one, for a request and all that follow."""
        stage, allocating = self._stage(r.claim, r.position), self._allocating
        equivalent = stage.kinds[stage.kind_of[at]]
        if r.request.admin_access:
            in_use = allocating.for_any_claim
            equivalent &= in_use if in_use >> at & 1 else ~in_use
        if not allocating.devices[at].allow_multiple_allocations:
            return equivalent
        own = self._allocating_capacity(at)
        return sum(
            1 << other
            for other in _positions(equivalent)
            if self._allocating_capacity(other) == own
        )

    def _allocating_capacity(self, at: int) -> Hashable:
        """Return the capacity that is being allocated of a shared device, by name."""
        totals: dict[str, int] = {}
        shares = self._allocating.allocating_capacity.get(at)
        for share in shares or ():
            for name, amount in share.items():
                totals[name] = totals.get(name, 0) + amount.nano
        return None if shares is None else tuple(sorted(totals.items()))

    def state(self, index: int, position: int) -> Hashable:
        """Return a state: equal ones decide alike about a request and all that follow."""
        stage, allocating = self._stage(index, position), self._allocating
        self._count_steps(_STEPS_OF_STATE)
        for_any, for_claim = allocating.for_any_claim, allocating.for_claim[index]
        shares = [
            (stage.kind_of[at], self._allocating_capacity(at))
            for at in allocating.allocating_capacity
            if at in stage.kind_of
        ]
        counters: Hashable = None
        if stage.consumes_counters:
            counters = tuple(
                (pool, tuple(sorted((key, amount) for key, amount in used.items() if amount)))
                for pool, used in sorted(allocating.consumed_counters.items())
            )
        return (
            index,
            position,
            len(allocating.results[index]),
            tuple([(for_any & kind).bit_count() for kind in stage.kinds]),
            tuple([(for_claim & kind).bit_count() for kind in stage.kinds])
            if stage.has_admin_access
            else None,
            tuple(sorted(shares, key=repr)),
            counters,
            tuple([constraint.values for constraint in stage.constraints]),
        )

    # Bounds -----------------------------------------------------------------------------------

    def _constraints(
        self, index: int, requests: Iterable[RequestAccessor]
    ) -> Iterator[AttributeConstraint]:
        """Yield the constraints of a claim that match all requests and can forbid something."""
        for constraint in self._allocating.constraints[index]:
            if constraint in self._values and all(map(constraint.matches, requests)):
                yield constraint

    def _needs(self, index: int, position: int) -> Iterator[_Need]:
        """Yield the needs of the requests from one of a claim on."""
        for of, claim in enumerate(self._claims[index:], index):
            for _, alternatives, _ in claim.requests[position if of == index else 0 :]:
                # With admin access a request can get devices that others have.
                if any(request.admin_access for request in alternatives):
                    continue
                data = [self._request_data[request] for request in alternatives]
                matching = reduce(or_, (each.matching for each in data), 0)
                number = min((each.num_devices for each in data), default=0)
                yield _Need(matching, number, tuple(self._constraints(of, alternatives)))

    def cannot_succeed(self, r: RequestIndices, missing: int, candidates: int) -> bool:
        """Return whether a request and those that follow need more devices than there are.

        Args:
            r: The request.
            missing: How many devices it still needs.
            candidates: The set of the devices that are still to be tried for it.
        """
        if self._may_fail:
            return False
        stage, allocating = self._stage(r.claim, r.position), self._allocating
        needs = []
        if not r.request.admin_access:
            free = self._request_data[r.request].matching & ~allocating.in_use(r) & candidates
            needs.append(_Need(free, missing, tuple(self._constraints(r.claim, (r.request,)))))
        others = ~allocating.for_any_claim
        needs += [need._replace(devices=need.devices & others) for need in stage.later]
        self._count_steps(_STEPS_OF_NEED * len(needs))
        limited = [self._limited(need) for need in needs]
        constrained = dict.fromkeys(each for need in limited for each in need.constraints)
        return self._exceed(limited) or any(self._forbids(each, limited) for each in constrained)

    def _limited(self, need: _Need) -> _Need:
        """Return a need without the devices that constraints forbid by now."""
        devices = need.devices
        for constraint in need.constraints:
            by_value = self._values[constraint]
            same = reduce(or_, (by_value[value] for value in constraint.values), 0)
            if same:
                devices &= ~same if constraint.distinct else same
        return need._replace(devices=devices)

    def _forbids(self, constraint: AttributeConstraint, needs: Sequence[_Need]) -> bool:
        """Return whether the devices left for some needs cannot satisfy a constraint."""
        by_value = self._values[constraint]
        if constraint.distinct:
            constrained = [need for need in needs if constraint in need.constraints]
            union = reduce(or_, (need.devices for need in constrained), 0)
            values = sum(1 for same in by_value.values() if same & union)
            return values < sum(need.number for need in constrained)
        if constraint.values or len(by_value) > _MAX_VALUES:
            return False
        return all(self._exceed(_with(needs, constraint, same)) for same in by_value.values())

    def _exceed(self, needs: Sequence[_Need]) -> bool:
        """Return whether some needs together exceed the devices that there are for them.

        Source: Hall's theorem.
        """
        sums, consumers = [(0, 0)], len(self._consumers)
        for need in needs:
            # Each request may get a share of each shared device.
            number = need.number - (need.devices & self._shared).bit_count()
            if number <= 0 or len(sums) >> _MAX_TOGETHER:
                continue
            whole = need.devices & ~self._shared
            for union, total in sums[:]:
                joined, needed = union | whole, total + number
                if self._max_allocatable(joined) < needed:
                    return True
                sums.append((joined, needed))
            self._count_steps(len(sums) * (1 + consumers) // _SUMS_PER_STEP)
        return False

    def _max_allocatable(self, devices: int) -> int:
        """Return how many of these devices their counters allow at most."""
        most = 0
        for consumers in self._consumers:
            same_counters = devices & consumers.devices
            if same_counters:
                devices &= ~same_counters
                most += self._max_of_consumers(same_counters, consumers)
        return most + devices.bit_count()

    def _max_of_consumers(self, devices: int, consumers: _CounterConsumers) -> int:
        most = devices.bit_count()
        available = self._allocating.available_counters(consumers.pool)
        consumed = self._allocating.consumed_counters.get(consumers.pool.id, {})
        for counter, amounts in consumers.amounts:
            left, allowed = available.get(counter, 0) - consumed.get(counter, 0), 0
            for amount, same in amounts:
                number = (devices & same).bit_count()
                allowed += number if amount <= 0 else max(0, min(number, left // amount))
                left -= amount * number
            most = min(most, allowed)
        return most


def _with(needs: Sequence[_Need], constraint: AttributeConstraint, same: int) -> list[_Need]:
    """Return needs if a constraint allows only a set of devices."""
    return [
        need._replace(devices=need.devices & same) if constraint in need.constraints else need
        for need in needs
    ]


def _positions(devices: int) -> Iterator[int]:
    while devices:
        low = devices & -devices
        yield low.bit_length() - 1
        devices ^= low


def _counter_consumers(allocating: AllocatingDevices, devices: int) -> Iterator[_CounterConsumers]:
    """Yield the devices of a set that consume counters, by the first counter set of each."""
    by_set: dict[Hashable, list[int]] = {}
    for at in _positions(devices & (1 << len(allocating.devices)) - 1):
        counters = allocating.devices[at].consumes_counters
        if counters:
            (counter_set, _), _ = counters[0]
            by_set.setdefault((allocating.pool(at).id, counter_set), []).append(at)
    for positions in by_set.values():
        used = {at: _sums(allocating.devices[at].consumes_counters) for at in positions}
        names = dict.fromkeys(counter for sums in used.values() for counter in sums)
        amounts = []
        for counter in names:
            ordered = sorted((sums.get(counter, 0), at) for at, sums in used.items())
            by_amount = groupby(ordered, key=lambda item: item[0])
            same = tuple((amount, sum(1 << at for _, at in items)) for amount, items in by_amount)
            amounts.append((counter, same))
        members = sum(1 << at for at in positions)
        yield _CounterConsumers(members, allocating.pool(positions[0]), tuple(amounts))


def _sums(counters: Sequence[tuple[tuple[str, str], int]]) -> dict[tuple[str, str], int]:
    """Return the amount that a device consumes of each counter; it may name one several times."""
    sums: dict[tuple[str, str], int] = {}
    for counter, amount in counters:
        sums[counter] = sums.get(counter, 0) + amount
    return sums
