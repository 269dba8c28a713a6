"""What a search need not try, because it cannot succeed.

* A device is as useless for a request as another one was that these claims cannot tell from it.
* Requests that failed after other ones had taken the same number of devices of each kind fail.
* Requests fail that need more devices than they can have, alone or together.

Two devices are alike here if every request that is still to be placed may have both or none, and if
they are equal in the constrained attributes, the counters, and the capacity that is shared. So
devices with a serial number are alike, unless a selector asks for it.

Nothing of this may change which error a search meets. Where the order of devices decides about
that, at devices that fail or have lists, devices before and after them are taken as different.

Sets of devices are integers with a bit for each position, see `taken_devices`.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import or_
from typing import Final, NamedTuple

from scheduler.plugins.dynamic_resources.candidates import Candidates
from scheduler.plugins.dynamic_resources.claim_demand import ClaimDemand, Want
from scheduler.plugins.dynamic_resources.constraints import LIST, ConstraintState, Typed
from scheduler.plugins.dynamic_resources.taken_devices import Taking
from scheduler.state.devices.pools import NodePool

__all__ = ["MANY", "Pruning"]

#: A node with more devices has no kinds: they would cost too much.
MANY: Final = 2048
#: So many requests are considered together; all combinations of them are.
_TOGETHER: Final = 6
#: Up to so many values of an attribute that devices must agree in are tried.
_VALUES: Final = 32

#: Steps that the parts of this take; a step is about 5 µs.
_STEPS_OF_KIND: Final = 4
_STEPS_OF_STATE: Final = 2
_STEPS_OF_NEED: Final = 1
_SUMS_PER_STEP: Final = 8


class _Demand(NamedTuple):
    """A request that is still to be placed."""

    #: One, or the choices.
    wants: tuple[Want, ...]
    #: How many devices it needs at least.
    need: int
    #: The constraints that it is under in any case.
    constraints: tuple[ConstraintState, ...]


class _Need(NamedTuple):
    """How many devices of a set a request still needs at least."""

    devices: int
    number: int
    #: The constraints that it is under in any case.
    constraints: tuple[ConstraintState, ...]


class _Stage(NamedTuple):
    """What matters from a request on."""

    #: The sets of devices that are alike; those that nothing can use any more are in none.
    kinds: tuple[int, ...]
    #: The number of the set, by position.
    kind_of: Mapping[int, int]
    #: The constraints of the claim on this request and on later ones.
    constraints: tuple[ConstraintState, ...]
    #: The requests after this one, in all claims.
    later: tuple[_Demand, ...]
    #: Whether a request has admin access.
    admin: bool
    #: Whether counters are consumed.
    counted: bool


class _Counted(NamedTuple):
    """Devices that share a set of counters."""

    devices: int
    pool: NodePool
    #: For each counter the amounts, ascending, and the set of devices that consume as much.
    amounts: tuple[tuple[tuple[str, str], tuple[tuple[int, int], ...]], ...]


class Pruning:
    """What is known about one search, once all devices were looked at."""

    def __init__(
        self,
        claims: Sequence[ClaimDemand],
        candidates: Mapping[Want, Candidates],
        taking: Taking,
        spend: Callable[[int], None],
    ) -> None:
        """Prepare it.

        Args:
            claims: What is asked for.
            candidates: The devices that each request may have, all of them looked at.
            taking: What the search has taken.
            spend: Called with the number of steps that something takes.
        """
        self._claims = claims
        self._candidates = candidates
        self._taking = taking
        self._spend = spend
        #: The states in which everything was tried in vain.
        self.failed: set[Hashable] = set()
        self._stages: dict[tuple[int, int], _Stage] = {}
        shared = (1 << at for at, entry in enumerate(taking.entries) if entry.shared)
        self._shared: Final = sum(shared)
        self._counted: Final = tuple(_counted(taking, ~self._shared))
        #: The set of devices by value, for each constraint that can forbid something.
        self._values: Final[dict[ConstraintState, dict[Typed, int]]] = {}
        #: Devices before and after these differ.
        self._special = 0
        for _, _, want in _wants(claims, (0, 0)):
            self._special |= candidates[want].failing
        #: Whether an error can be met, so that a branch must not be left out.
        self._may_fail = bool(self._special)
        for index in range(len(claims)):
            for constraint in taking.constraints[index]:
                self._add_constraint(index, constraint)

    def _add_constraint(self, index: int, constraint: ConstraintState) -> None:
        """Take a constraint of a claim into account."""
        entries, of_value = self._taking.entries, dict[Typed, int]()
        under = [
            want
            for request in self._claims[index].requests
            for want in request.wants
            if _concerns(constraint, want)
        ]
        seen = reduce(or_, (self._candidates[want].seen for want in under), 0)
        for at in _positions(seen):
            value = constraint.value(entries[at])
            if value is not None:
                of_value[value] = of_value.get(value, 0) | 1 << at
        lists = sum(same for value, same in of_value.items() if value[0] == LIST)
        valued = reduce(or_, of_value.values(), 0)
        # Those that must be had fail without a value.
        fails = any(want.all and self._candidates[want].seen & ~valued for want in under)
        shared = any(entries[at].shared for at in _positions(seen))
        # A claim has no device twice, so devices with a value of their own always differ.
        differ = all(same & same - 1 == 0 for same in of_value.values())
        if constraint.distinct and differ and not (lists or fails or shared):
            return
        self._values[constraint] = of_value
        self._special |= lists
        for want in under:
            if want.all:
                self._special |= self._candidates[want].seen
                self._may_fail = True

    # Devices that are alike -------------------------------------------------------------------

    def _stage(self, index: int, position: int) -> _Stage:
        known = self._stages.get((index, position))
        if known is None:
            known = self._stages[index, position] = self._made(index, position)
        return known

    def _made(self, index: int, position: int) -> _Stage:
        taking, from_here = self._taking, [*_wants(self._claims, (index, position))]
        masks = [self._candidates[want].seen for _, _, want in from_here]
        constraints = {
            each: self._values[each]
            for of, _, want in from_here
            for each in taking.constraints[of]
            if each in self._values and _concerns(each, want)
        }
        wanted, part = reduce(or_, masks, 0), 0
        numbers: dict[str, int] = {}
        kinds: list[int] = []
        kind_of: dict[int, int] = {}
        self._spend(_STEPS_OF_KIND * (wanted | self._special).bit_count())
        for at in _positions(wanted | self._special):
            special = self._special >> at & 1
            part += special
            key = (
                part,
                special,
                [mask >> at & 1 for mask in masks],
                self._use(at),
                [each.value(taking.entries[at]) for each in constraints],
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
            constraints=tuple(each for each in taking.constraints[index] if each in constraints),
            later=tuple(self._demands(index, position)[1:]),
            admin=any(want.admin for _, _, want in from_here),
            counted=any(taking.entries[at].counters for at in _positions(wanted)),
        )

    def _use(self, at: int) -> Hashable:
        """Return what a device consumes, and what is left of a shared one."""
        taking = self._taking
        entry = taking.entries[at]
        counters = (taking.pool(at).id, entry.counters) if entry.counters else None
        if not entry.shared:
            return counters
        usage, capacity = taking.usage, sorted(entry.capacity.items())
        consumed = sorted(usage.consumed(entry.id).items())
        return counters, capacity, consumed, usage.is_shared(entry.id)

    def twins(self, index: int, position: int, want: Want, at: int) -> int:
        """Return the set of devices that are in the same state, for a request and what follows."""
        stage, taking = self._stage(index, position), self._taking
        alike = stage.kinds[stage.kind_of[at]]
        if want.admin:
            held = taking.held_by_any
            alike &= held if held >> at & 1 else ~held
        if not taking.entries[at].shared:
            return alike
        own = self._share(at)
        return sum(1 << each for each in _positions(alike) if self._share(each) == own)

    def _share(self, at: int) -> Hashable:
        """Return what this search consumes of a shared device."""
        totals: dict[str, int] = {}
        shares = self._taking.shares.get(at)
        for share in shares or ():
            for name, amount in share.items():
                totals[name] = totals.get(name, 0) + amount.nano
        return None if shares is None else tuple(sorted(totals.items()))

    def state(self, index: int, position: int) -> Hashable:
        """Return what decides whether a request and all that follow can be placed now."""
        stage, taking = self._stage(index, position), self._taking
        self._spend(_STEPS_OF_STATE)
        held, own = taking.held_by_any, taking.held[index]
        shares = [
            (stage.kind_of[at], self._share(at)) for at in taking.shares if at in stage.kind_of
        ]
        counters: Hashable = None
        if stage.counted:
            counters = tuple(
                (pool, tuple(sorted((key, amount) for key, amount in used.items() if amount)))
                for pool, used in sorted(taking.consumed.items())
            )
        return (
            index,
            position,
            len(taking.taken[index]),
            tuple([(held & kind).bit_count() for kind in stage.kinds]),
            tuple([(own & kind).bit_count() for kind in stage.kinds]) if stage.admin else None,
            tuple(sorted(shares, key=repr)),
            counters,
            tuple([each.kept for each in stage.constraints]),
        )

    # Bounds -----------------------------------------------------------------------------------

    def _demands(self, index: int, position: int) -> list[_Demand]:
        demands = []
        for of, claim in enumerate(self._claims[index:], index):
            for request in claim.requests[position if of == index else 0 :]:
                constraints = tuple(
                    each
                    for each in self._taking.constraints[of]
                    if each in self._values and all(_concerns(each, want) for want in request.wants)
                )
                need = min((self._candidates[each].need for each in request.wants), default=0)
                demands.append(_Demand(request.wants, need, constraints))
        return demands

    def is_hopeless(self, index: int, position: int, want: Want, left: int, reach: int) -> bool:
        """Return whether a request and those that follow need more devices than there are.

        Args:
            index: Of the claim.
            position: Of the request.
            want: The request, or a choice of it.
            left: How many devices it still needs.
            reach: The set of the devices that are still to be tried for it.
        """
        if self._may_fail:
            return False
        stage, taking = self._stage(index, position), self._taking
        own = tuple(
            each
            for each in taking.constraints[index]
            if each in self._values and _concerns(each, want)
        )
        devices = self._candidates[want].seen & ~taking.blocked(index, want) & reach
        needs = [] if want.admin else [_Need(devices, left, own)]
        for demand in stage.later:
            # With admin access a request can have what others have.
            if not any(each.admin for each in demand.wants):
                seen = reduce(or_, (self._candidates[each].seen for each in demand.wants), 0)
                free = seen & ~taking.held_by_any
                needs.append(_Need(free, demand.need, demand.constraints))
        self._spend(_STEPS_OF_NEED * len(needs))
        limited = [self._limited(need) for need in needs]
        constraints = dict.fromkeys(each for need in limited for each in need.constraints)
        return self._lacks(limited) or any(self._forbids(each, limited) for each in constraints)

    def _limited(self, need: _Need) -> _Need:
        """Return a need without the devices that constraints forbid by now."""
        devices = need.devices
        for constraint in need.constraints:
            of_value = self._values[constraint]
            same = reduce(or_, (of_value[value] for value in constraint.kept), 0)
            if same:
                devices &= ~same if constraint.distinct else same
        return need._replace(devices=devices)

    def _forbids(self, constraint: ConstraintState, needs: Sequence[_Need]) -> bool:
        """Return whether a constraint cannot be met by the devices that needs are left with."""
        of_value = self._values[constraint]
        if constraint.distinct:
            under = [need for need in needs if constraint in need.constraints]
            union = reduce(or_, (need.devices for need in under), 0)
            values = sum(1 for same in of_value.values() if same & union)
            return values < sum(need.number for need in under)
        if constraint.kept or len(of_value) > _VALUES:
            return False
        return all(self._lacks(_with(needs, constraint, same)) for same in of_value.values())

    def _lacks(self, needs: Sequence[_Need]) -> bool:
        """Return whether some needs together exceed the devices that any of them may have.

        Source: Hall's theorem.
        """
        sums, counted = [(0, 0)], len(self._counted)
        for need in needs:
            # Each request may have a share of each shared device.
            number = need.number - (need.devices & self._shared).bit_count()
            if number <= 0 or len(sums) >> _TOGETHER:
                continue
            alone = need.devices & ~self._shared
            for union, total in sums[:]:
                joined, needed = union | alone, total + number
                if self._most(joined) < needed:
                    return True
                sums.append((joined, needed))
            self._spend(len(sums) * (1 + counted) // _SUMS_PER_STEP)
        return False

    def _most(self, devices: int) -> int:
        """Return how many of these devices their counters allow at most."""
        most = 0
        for counted in self._counted:
            mine = devices & counted.devices
            if mine:
                devices &= ~mine
                most += self._most_counted(mine, counted)
        return most + devices.bit_count()

    def _most_counted(self, devices: int, counted: _Counted) -> int:
        most = devices.bit_count()
        available = self._taking.available(counted.pool)
        consumed = self._taking.consumed.get(counted.pool.id, {})
        for counter, amounts in counted.amounts:
            left, allowed = available.get(counter, 0) - consumed.get(counter, 0), 0
            for amount, same in amounts:
                number = (devices & same).bit_count()
                allowed += number if amount <= 0 else max(0, min(number, left // amount))
                left -= amount * number
            most = min(most, allowed)
        return most


def _wants(
    claims: Sequence[ClaimDemand], start: tuple[int, int]
) -> Iterator[tuple[int, int, Want]]:
    """Yield the requests and choices from one on, with the positions of claim and request."""
    for index, claim in enumerate(claims):
        for position, request in enumerate(claim.requests):
            if (index, position) >= start:
                yield from ((index, position, want) for want in request.wants)


def _with(needs: Sequence[_Need], constraint: ConstraintState, same: int) -> list[_Need]:
    """Return needs where a constraint allows a set of devices only."""
    return [
        need._replace(devices=need.devices & same) if constraint in need.constraints else need
        for need in needs
    ]


def _concerns(constraint: ConstraintState, want: Want) -> bool:
    return constraint.concerns(want.request, want.name)


def _positions(devices: int) -> Iterator[int]:
    while devices:
        low = devices & -devices
        yield low.bit_length() - 1
        devices ^= low


def _counted(taking: Taking, devices: int) -> Iterator[_Counted]:
    """Yield the devices of a set that consume counters, by the first set of counters of each."""
    groups: dict[Hashable, list[int]] = {}
    for at in _positions(devices & (1 << len(taking.entries)) - 1):
        counters = taking.entries[at].counters
        if counters:
            (of, _), _ = counters[0]
            groups.setdefault((taking.pool(at).id, of), []).append(at)
    for group in groups.values():
        used = {at: _sums(taking.entries[at].counters) for at in group}
        names = dict.fromkeys(counter for of in used.values() for counter in of)
        amounts = []
        for counter in names:
            ordered = sorted((of.get(counter, 0), at) for at, of in used.items())
            by_amount = groupby(ordered, key=lambda each: each[0])
            same = tuple((amount, sum(1 << at for _, at in each)) for amount, each in by_amount)
            amounts.append((counter, same))
        yield _Counted(sum(1 << at for at in group), taking.pool(group[0]), tuple(amounts))


def _sums(counters: Sequence[tuple[tuple[str, str], int]]) -> dict[tuple[str, str], int]:
    """Return what a device consumes of each counter, which it may name several times."""
    sums: dict[tuple[str, str], int] = {}
    for counter, amount in counters:
        sums[counter] = sums.get(counter, 0) + amount
    return sums
