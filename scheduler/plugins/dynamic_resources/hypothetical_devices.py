"""The devices of nodes as they would be once some of their pods are evicted.

A preemption is tried on all candidate rows at once, and pods are added back rank by rank. So what
is freed on a row is an integer, its *state*: the set of the devices where these are whole ones,
with a bit for each; else a negative code of the parts of the evicted pods in their claims, by
position. Rows that had equal signatures, and are in equal states, have equal signatures again, and
share the results of the allocator with all nodes that are like that already.

Axes: n rows of a view.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from scheduler.model.api.devices import Allocation
from scheduler.model.api.objects import Node, Pod
from scheduler.plugins.dynamic_resources.allocation_cache import AllocationStatus, NodeDevices
from scheduler.plugins.dynamic_resources.state_data import StateData
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Int, Rows
from scheduler.state.devices.allocated_state import AllocatedState
from scheduler.state.devices.devices import Devices
from scheduler.state.views.held_devices import HeldDevices, Pattern, Share, as_set
from scheduler.state.views.node_view import HypotheticalView, NodeView

__all__ = ["FreedStates", "HypotheticalDevices", "NodesWithout", "VisibleDevices"]

#: If there are more states, or more of them with a signature, all are forgotten.
_MOST: Final = 65_536
#: How many signatures and searches an attempt makes for states that are new: about a tenth of a
#: second. Where more would be needed, it tries fewer rows; the next attempt continues from there.
_MOST_EXAMINED: Final = 1_000
_UNKNOWN: Final = -1
#: The state of rows where nothing is freed.
_NOTHING: Final = 0


class FreedStates:
    """What is freed on rows, as integers; of all attempts."""

    def __init__(self, held: HeldDevices) -> None:
        self.held: Final = held
        #: By code: the numbers of the parts of the evicted pods, in order.
        self._states: list[tuple[int, ...]] = [()]
        self._codes: dict[tuple[int, ...], int] = {(): _NOTHING}
        #: The parts by number.
        self._parts: list[Share] = []
        self._numbers: dict[Share, int] = {}
        #: The numbers of the parts of patterns.
        self._patterns: dict[int, list[int]] = {}
        #: The state after pods with patterns are evicted, or with negative ones added back.
        self._moves: dict[tuple[int, ...], int] = {}
        self._generations: tuple[int, int] | None = None
        #: The signature of nodes by the one that they have, and the state.
        self.signatures: dict[tuple[int, int], int] = {}

    def code(self, parts: Pattern) -> int:
        """Return the state in which some parts are freed."""
        return self._code(tuple(sorted(map(self._number, parts))))

    def _code(self, numbers: tuple[int, ...]) -> int:
        known = self._codes.setdefault(numbers, len(self._states))
        if known == len(self._states):
            self._states.append(numbers)
        return -known

    def _number(self, part: Share) -> int:
        number = self._numbers.setdefault(part, len(self._parts))
        if number == len(self._parts):
            self._parts.append(part)
        return number

    def fallen(self, state: int) -> list[Share]:
        """Return the claims that are free in a state with a code, by the part of a pod in them."""
        return [
            part
            for number, count in Counter(self._states[-state]).items()
            if count >= (part := self._parts[number]).pods
        ]

    def begin_attempt(self) -> None:
        """Forget states if there are too many of them."""
        if max(len(self._states), len(self._moves), len(self._parts)) > _MOST:
            self._states, self._codes = [()], {(): _NOTHING}
            self._parts, self._numbers = [], {}
            self._patterns.clear()
            self._moves.clear()
            self.signatures.clear()

    def keep_up(self, generations: tuple[int, int]) -> None:
        """Forget what other generations of patterns and signatures meant."""
        if generations != self._generations or len(self.signatures) > _MOST:
            self._generations = generations
            self._patterns.clear()
            self._moves.clear()
            self.signatures.clear()

    def moved(self, states: Int, patterns: Int, whole: Int, given_up: Bool) -> Int:
        """Return, (n,), the states of rows after pods of each were evicted or added back.

        Args:
            states: (n,) the states before.
            patterns: (L, n) the patterns of the pods, negative if they are added back.
            whole: (L, n) the same as sets of devices; 0 where they are none.
            given_up: (n,) rows whose states do not matter.
        """
        moved = states
        for devices in whole:
            moved = np.where(devices > 0, moved | devices, moved & ~-devices)
        in_parts = (states < 0) | ((patterns != 0) & (whole == 0)).any(axis=0)
        coded = (in_parts & patterns.any(axis=0) & ~given_up).nonzero()[0]
        if coded.shape[0]:
            changes = (states[coded], *np.sort(patterns[:, coded], axis=0))
            first, inverse = _distinct(*changes)
            rows = zip(*(each[first].tolist() for each in changes), strict=True)
            keys = [(state, *filter(None, of_row)) for state, *of_row in rows]
            after = np.array([self._moved(key) for key in keys], dtype=np.int64)
            moved[coded] = after[inverse]
        return moved

    def _moved(self, key: tuple[int, ...]) -> int:
        """Return a state after changes: first the state before, then patterns."""
        known = self._moves.get(key)
        if known is None:
            state, *patterns = key
            numbers = [*self._states[-state]]
            # First those of evicted pods: some may be added back at once.
            for pattern in reversed(patterns):
                parts = self._patterns.get(abs(pattern))
                if parts is None:
                    parts = [*map(self._number, self.held.known[abs(pattern)])]
                    self._patterns[abs(pattern)] = parts
                if pattern > 0:
                    numbers += parts
                else:
                    for number in filter(numbers.__contains__, parts):
                        numbers.remove(number)
            known = self._moves[key] = self._code(tuple(sorted(numbers)))
        return known


@dataclass(slots=True)
class _Folded:
    """The changes of one hypothetical view that were read so far."""

    #: Keeps the view alive, so that no other view gets the same id.
    nodes: HypotheticalView
    #: (n,) the state of each row.
    states: Int
    #: (n,) the rows that are not evaluated any more: another filter rejects them, or there were too
    #: many of them.
    given_up: Bool
    seen: int = 0
    #: How many more times it is evaluated, about: once for each pod of a row that is added back.
    rounds: int | None = None


class VisibleDevices:
    """The devices of nodes as one pod sees them: what only other pods may not take is free."""

    def __init__(self, cluster: Cluster, pod: Pod) -> None:
        self._devices = cluster.devices
        open_to = cluster.devices.nominations.open_to(pod.uid, pod.priority)
        rows = ((cluster.columns.row(node), freed) for node, freed in open_to.items())
        #: What nominations of devices keep from others, by row.
        self.freed: Final = {row: freed for row, freed in rows if row is not None}

    def of(self, nodes: NodeView) -> NodeDevices:
        """Return the devices of a view as they are now."""
        changed = _positions(nodes, self.freed)
        if not changed:
            return NodeDevices(self._devices, nodes)
        rows: Rows = nodes.rows

        def fallen(position: int) -> Sequence[Allocation]:
            return self.freed.get(int(rows[position]), ())

        nothing = np.zeros(len(nodes), dtype=np.bool_)
        found = _VisibleNodes(self._devices, nodes, fallen, nothing, int)
        found.free_each(changed)
        return found

    def allocated_state(self, row: int) -> AllocatedState:
        """Return what is allocated where a node is."""
        freed, state = self.freed.get(row), self._devices.allocated_state
        return state.without(freed) if freed else state


class HypotheticalDevices:
    """The devices of hypothetical views, in one attempt."""

    def __init__(
        self, cluster: Cluster, states: FreedStates, data: StateData, visible: VisibleDevices
    ) -> None:
        """Begin an attempt.

        Args:
            cluster: The cluster.
            states: What is freed, of all attempts.
            data: The claims of the preemptor, and those that nothing frees.
            visible: The devices as the preemptor sees them.
        """
        self._cluster = cluster
        self._states = states
        self._data = data
        #: The devices as the preemptor sees them.
        self.visible: Final = visible
        self._folded: dict[int, _Folded] = {}
        self._left = _MOST_EXAMINED

    def of(self, nodes: HypotheticalView, passing: Bool) -> NodeDevices:
        """Return the devices of a view.

        Args:
            nodes: The view.
            passing: (n,) the rows that other filters do not reject; those that they reject are
                given up for good.
        """
        fallen = partial(self._fallen, nodes)
        if nodes.gone.claims:
            nothing = np.zeros(len(nodes), dtype=np.bool_)
            without = NodesWithout(self._cluster.devices, nodes, fallen, nothing, int)
            without.free_each(range(len(nodes)))
            return without
        folded, known = self._fold(nodes), self._states.signatures
        if not folded.states.any():
            return NodeDevices(self._cluster.devices, nodes)
        folded.given_up |= ~passing
        share = self._share(folded)
        may_search = partial(self._take, share)
        devices, whole = self._cluster.devices, partial(self._whole, folded)
        found = NodesWithout(devices, nodes, fallen, folded.given_up, may_search, whole)
        base = found.signatures
        changed = ((folded.states != _NOTHING) & ~folded.given_up).nonzero()[0]
        if not changed.shape[0]:
            return found
        of_changed, states = base[changed], folded.states[changed]
        first, inverse = _distinct(states, of_changed)
        pairs = [*zip(of_changed[first].tolist(), states[first].tolist(), strict=True)]
        missing = [at for at, pair in enumerate(pairs) if pair not in known]
        for at in missing[: self._take(share, len(missing))]:
            known[pairs[at]] = found.signature(int(changed[first[at]]))
        after = np.array([known.get(pair, _UNKNOWN) for pair in pairs], dtype=np.int64)[inverse]
        folded.given_up[changed[after == _UNKNOWN]] = True
        found.free(changed, after)
        return found

    def _share(self, folded: _Folded) -> int:
        """Return how many signatures, and how many searches, the next round may take.

        One row may take what it needs, so that what was found for it is found again.
        """
        if len(folded.nodes) == 1:
            return _MOST
        if folded.rounds is None:
            folded.rounds = len(folded.nodes.log)
            return self._left // 4
        folded.rounds = max(1, folded.rounds - 1)
        return self._left // (2 * folded.rounds)

    def _take(self, share: int, wanted: int) -> int:
        """Return how many of some wanted evaluations are made."""
        taken = min(share, wanted)
        self._left = max(0, self._left - taken)
        return taken

    def may_help(self, rows: Rows, priority: int) -> Bool:
        """Return, (n,), on which rows pods of lower priority have devices that may be freed."""
        return self._states.held.may_be_freed(rows, priority, self._data.kept)

    def given_up(self, nodes: NodeView) -> Bool | None:
        """Return, (n,), the rows of a view that were given up; `None` if it is not known."""
        folded = self._folded.get(id(nodes))
        return None if folded is None else folded.given_up

    def _fallen(self, nodes: HypotheticalView, position: int) -> Sequence[Allocation]:
        """Return the allocations that fall on a row of a view."""
        times: Counter[int] = Counter()
        for slots, sign in nodes.log:
            times[int(slots[position])] -= sign
        evicted = {slot for slot, number in times.items() if number > 0 and slot >= 0}
        row = int(nodes.rows[position])
        fallen = self._states.held.fallen(row, evicted, self._data.kept, nodes.gone)
        return [*fallen, *self.visible.freed.get(row, ())]

    def _whole(self, folded: _Folded, position: int) -> int:
        """Return what is freed on a row of a view if it is a set of whole devices; else 0."""
        state = int(folded.states[position])
        if state >= 0:
            return state
        pools = self._states.held.pools_of(int(folded.nodes.rows[position]))
        return as_set(self._states.fallen(state), pools) or 0

    def _fold(self, nodes: HypotheticalView) -> _Folded:
        """Read the changes of a view that were not read before."""
        folded = self._folded.get(id(nodes))
        if folded is None:
            states = np.full(len(nodes), _NOTHING, dtype=np.int64)
            for position in _positions(nodes, self.visible.freed):
                row = int(nodes.rows[position])
                parts = self._states.held.pattern(row, self.visible.freed[row])
                states[position] = self._states.code(parts)
            given_up = np.zeros(len(nodes), dtype=np.bool_)
            folded = self._folded[id(nodes)] = _Folded(nodes, states, given_up)
        if folded.seen < len(nodes.log):
            held = self._states.held
            patterns, whole = held.patterns(self._data.kept), held.whole(self._data.kept)
            self._states.keep_up((held.generation, self._cluster.devices.signature_space[0]))
            slots = np.array([slots for slots, _ in nodes.log[folded.seen :]])
            signs = np.array([[sign] for _, sign in nodes.log[folded.seen :]])
            folded.states = self._states.moved(
                folded.states, -signs * patterns[slots], -signs * whole[slots], folded.given_up
            )
            folded.seen = len(nodes.log)
        return folded


class NodesWithout(NodeDevices):
    """The devices of some nodes without some of their allocations."""

    unknown = AllocationStatus.GIVEN_UP

    def __init__(
        self,
        devices: Devices,
        nodes: NodeView,
        fallen: Callable[[int], Sequence[Allocation]],
        given_up: Bool,
        may_search: Callable[[int], int],
        whole: Callable[[int], int] | None = None,
    ) -> None:
        """Begin with signatures as if nothing was free; see `free`.

        Args:
            devices: All devices.
            nodes: The nodes.
            fallen: Returns the allocations that are gone, by position.
            given_up: (n,) the nodes that are not evaluated; `give_up` adds some.
            may_search: Returns how many of some wanted searches are made.
            whole: Returns what is gone if it is a set of whole devices, by position; else 0.
        """
        super().__init__(devices, nodes)
        self._fallen = fallen
        self._given_up = given_up
        self._may_search = may_search
        self._whole = whole
        #: (n,) the positions in the view.
        self._positions: Int = np.arange(len(nodes))

    def may_search(self, wanted: int) -> int:
        return self._may_search(wanted)

    def give_up(self, positions: Int) -> None:
        """Evaluate some nodes no more."""
        self._given_up[self._positions[positions]] = True

    def take(self, positions: Int | slice) -> "NodesWithout":
        taken = super().take(positions)
        taken._positions = self._positions[positions]
        return taken

    def allocated_state(self, position: int) -> AllocatedState:
        node, whole = self._gone(position)
        if whole:
            return self._devices.state_without_whole(node, whole)
        return self._devices.allocated_state.without(self._fallen(int(self._positions[position])))

    def signature(self, position: int) -> int:
        """Return the signature of a node without the allocations."""
        node, whole = self._gone(position)
        if whole:
            return self._devices.signature_without_whole(node, whole)
        return self._devices.signature_without(node, self._fallen(int(self._positions[position])))

    def _gone(self, position: int) -> tuple[Node, int]:
        """Return a node, and what is gone if it is a set of whole devices; else 0."""
        node = self.node(position)
        assert node is not None
        whole = 0 if self._whole is None else self._whole(int(self._positions[position]))
        return node, whole

    def free_each(self, positions: Sequence[int]) -> None:
        """Replace the signatures of some nodes by those without the allocations, one by one."""
        signatures = [self.signature(position) for position in positions]
        self.free(np.array(positions, dtype=np.int64), np.array(signatures, dtype=np.int64))

    def free(self, positions: Int, signatures: Int) -> None:
        """Replace the signatures of some nodes by those without the allocations."""
        self._signatures = self.signatures.copy()
        self._signatures[positions] = signatures


class _VisibleNodes(NodesWithout):
    """The devices of some nodes as they are; they lack what does not count for a pod."""

    unknown = AllocationStatus.TIMED_OUT


def _positions(nodes: NodeView, rows: Collection[int]) -> list[int]:
    """Return the positions of some rows in a view."""
    if not rows:
        return []
    found = np.isin(nodes.rows, np.array([*rows], dtype=np.int64)).nonzero()[0]
    positions: list[int] = found.tolist()
    return positions


def _distinct(*columns: Int) -> tuple[Int, Int]:
    """Return positions of different tuples in some columns, in order, and which each tuple is.

    Args:
        columns: (n,) each.
    """
    order = np.lexsort(columns)
    differs = np.zeros(order.shape[0], dtype=np.bool_)
    differs[0] = True
    for column in columns:
        ordered = column[order]
        differs[1:] |= ordered[1:] != ordered[:-1]
    inverse = np.empty_like(order)
    inverse[order] = differs.cumsum() - 1
    return order[differs], inverse
