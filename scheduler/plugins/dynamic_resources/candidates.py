"""The devices that each request may have while nothing is taken, found out in their order.

A device is looked at when the search comes to it, or to count those that are left. A device that
fails, for instance in a selector, is an error only when the search comes to it.

Sets of devices are integers with a bit for each position, see `taken_devices`.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.isSelectable.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Final

from scheduler.model.releases import Reference
from scheduler.plugins.dynamic_resources.capacity import CapacityError
from scheduler.plugins.dynamic_resources.claim_demand import Want
from scheduler.plugins.dynamic_resources.device_selectors import Expression, explained
from scheduler.plugins.dynamic_resources.taken_devices import Taking
from scheduler.state.devices.pools import NodePool
from scheduler.state.devices.slices import DeviceEntry

__all__ = ["CandidateFinder", "Candidates", "SearchError"]


class SearchError(Exception):
    """The search cannot go on: the attempt ends with this text."""


class Candidates:
    """The devices that a request may have before anything is taken, as far as it is known."""

    __slots__ = ("errors", "every", "failing", "known", "looked_at", "need", "seen")

    def __init__(self, need: int, seen: int = 0, every: tuple[int, ...] = ()) -> None:
        #: How many devices it needs.
        self.need: Final = need
        #: Their positions if it needs all of them.
        self.every: Final = every
        #: The set of devices that it may have or that fail.
        self.seen = seen
        #: The set of those that fail, and with what.
        self.failing = 0
        self.errors: dict[int, SearchError] = {}
        #: The devices before this position are known.
        self.looked_at = 0
        #: What the last one is equal to, see `DeviceEntry.twin`, and whether it may be had.
        self.known: tuple[Hashable, bool] | None = None

    def add_error(self, at: int, error: SearchError) -> None:
        """Add a device that fails."""
        self.seen |= 1 << at
        self.failing |= 1 << at
        self.errors[at] = error


class CandidateFinder:
    """Finds out which devices the requests of one search may have."""

    def __init__(
        self,
        labels: Sequence[str],
        taking: Taking,
        reference: Reference,
        spend: Callable[[int], None],
    ) -> None:
        """Start without knowledge.

        Args:
            labels: The names of the claims in errors.
            taking: What the search has taken.
            reference: The release.
            spend: Called with the number of steps that something takes.
        """
        self._labels = labels
        self._taking = taking
        self._reference = reference
        self._step = spend
        #: By request, or choice of one.
        self.candidates: dict[Want, Candidates] = {}

    def every(
        self, want: Want, where: str, label: str, pools: Sequence[NodePool]
    ) -> tuple[int, ...]:
        """Return the positions of all devices that can be selected, for the mode `All`.

        Args:
            want: The request.
            where: Claim and request in errors.
            label: The claim in errors.
            pools: Of the node.

        Raises:
            SearchError: There is no saying which devices that are.
        """
        every, first = [], 0
        for pool in pools:
            if pool.incomplete or pool.invalid:
                state = "being updated" if pool.incomplete else "invalid"
                raise SearchError(
                    f"{where}: asks for all devices, but resource pool {pool.name} is currently "
                    f"{state}"
                )
            for at, entry in enumerate(pool.devices, first):
                self._step(1)
                if not self._is_selectable(want, entry, label):
                    continue
                try:
                    if self._taking.has_capacity(want, entry):
                        every.append(at)
                except CapacityError as error:
                    name = entry.device.name
                    text = f"{where}: checking capacity for device {name}: {error}"
                    raise SearchError(text) from error
            first += len(pool.devices)
        return tuple(every)

    def has_enough(self, index: int, want: Want, left: int, start: int, barred: int) -> bool:
        """Return whether enough devices are left that a request may have, from a position on.

        Raises:
            SearchError: A device fails before there are enough, so that the search would meet it.
        """
        candidates = self.candidates[want]
        reach = -1 << start & ~self._taking.blocked(index, want) & ~barred
        while True:
            found = candidates.seen & reach
            failing = found & candidates.failing
            before = (failing & -failing) - 1 if failing else -1
            missing = left - (found & before).bit_count()
            if missing <= 0:
                return True
            if failing:
                raise candidates.errors[before.bit_length()]
            if not self.look(index, want, missing):
                return False

    def next(self, index: int, want: Want, start: int, barred: int) -> int | None:
        """Return the position of the next device that a request may have; `None` for none.

        Raises:
            SearchError: It is one that fails.
        """
        candidates = self.candidates[want]
        reach = -1 << start & ~self._taking.blocked(index, want) & ~barred
        while True:
            found = candidates.seen & reach
            if found:
                at = (found & -found).bit_length() - 1
                if candidates.failing >> at & 1:
                    raise candidates.errors[at]
                return at
            if not self.look(index, want, 1):
                return None

    def look(self, index: int, want: Want, number: int) -> bool:
        """Find out which devices a request may have, among those not looked at before.

        Args:
            index: Of the claim.
            want: The request.
            number: How many to look for; one that fails is the last.

        Returns:
            Whether there is any.
        """
        candidates, taking = self.candidates[want], self._taking
        usage, found, known = taking.usage, 0, candidates.known
        first = at = candidates.looked_at
        for entry in islice(taking.entries, first, None):
            if want.admin or not usage.is_taken(entry.id):
                # Those that are equal to the last one need not be looked at.
                if known is None or known[0] != entry.twin or entry.shared or taking.unreachable:
                    known = entry.twin, self._may_have(index, want, at)
                if known[1]:
                    candidates.seen |= 1 << at
                    found += 1
                    if candidates.failing >> at & 1:
                        known, found = None, number
            at += 1
            if found >= number:
                break
        candidates.looked_at, candidates.known = at, known
        self._step(at - first)
        return found > 0

    def _may_have(self, index: int, want: Want, at: int) -> bool:
        """Return whether a request may have a device before anything is taken, or fails there."""
        entry, candidates = self._taking.entries[at], self.candidates[want]
        try:
            selectable = self._is_selectable(want, entry, self._labels[index])
            return selectable and self._taking.may_have(index, want, at)
        except SearchError as error:
            candidates.add_error(at, error)
        except CapacityError as error:
            candidates.add_error(at, self.capacity_error(index, want, entry, error))
        return True

    def capacity_error(
        self, index: int, want: Want, entry: DeviceEntry, error: CapacityError
    ) -> SearchError:
        """Return the error of a device whose capacity cannot be computed."""
        where = f"claim {self._labels[index]}, request {want.shown}"
        return SearchError(f"{where}: checking capacity for device {'/'.join(entry.id)}: {error}")

    def _is_selectable(self, want: Want, entry: DeviceEntry, label: str) -> bool:
        """Return whether the class and the request select a device, and the node can reach it."""
        name = want.api.device_class_name
        return (
            self._match(want.class_selectors, f"class {name}", entry)
            and self._match(want.selectors, f"claim {label}", entry)
            and entry.id not in self._taking.unreachable
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
