"""What a plan on the live state, and a watch of nodes, cost the loop at 5,000 nodes.

For a plan the loop takes references to all objects at once, and encodes them in parts. It does
nothing else between two parts of either kind, so both bound the pause that a plan causes.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.observe.api.node_feed import NodeFeed, _Change
from scheduler.observe.api.nodes import NodeViews
from scheduler.service import what_if_feed
from scheduler.state.preemption.ledger import MAX_ENTRIES, EvictionEntry
from tests.perf.core_cases import Case
from tests.perf.policy_cases import NOW
from tests.perf.waiting_cases import full
from tests.support.api_documents import Documents

__all__ = ["CASES", "full_state"]

SETTINGS: Final = load.defaults()
MISSED: Final = 25_000


def full_state() -> Machine:
    """Return a machine with 5,000 nodes, 30,000 pods and a full ledger."""
    made = full()
    for serial in range(MAX_ENTRIES):
        entry = EvictionEntry(
            NOW, f"v-{serial}", "default", f"Pod/default/{serial}", "n", frozenset({"p"})
        )
        made.ledger.count_victim(entry)
    return made


def _parts(machine: Machine) -> AsyncGenerator[bytes]:
    return what_if_feed.parts(machine, SETTINGS, lambda: NOW, evict_only=False)


def _first_part() -> Callable[[int], None]:
    machine = full_state()

    async def begin(count: int) -> None:
        for _ in range(count):
            async with contextlib.aclosing(_parts(machine)) as parts:
                await anext(parts)

    return lambda count: asyncio.run(begin(count))


def _other_parts() -> Callable[[int], None]:
    machine = full_state()

    async def take(count: int) -> None:
        taken = itertools.count(1)
        while True:
            async with contextlib.aclosing(_parts(machine)) as parts:
                async for _part in parts:
                    if next(taken) >= count:
                        return

    return lambda count: asyncio.run(take(count))


def _missed_changes() -> Callable[[int], None]:
    cluster = Documents().cluster.machine.cluster
    feed = NodeFeed(cluster, NodeViews(cluster), 1.0)
    first = feed.revision()
    for number in range(MISSED):
        names = frozenset({f"n{2 * number % 5000}", f"n{(2 * number + 1) % 5000}"})
        feed._changes.append(_Change(first + 1 + number, names, frozenset()))
    feed._revision = first + MISSED

    def add_up(count: int) -> None:
        for _ in range(count):
            change = feed._since(first)
            assert change is not None
            assert len(change.changed) == 5000

    return add_up


CASES: Final[Mapping[str, Case]] = {
    "25000 changes of nodes that a watch has missed": Case(_missed_changes, 5),
    "the references of a plan, 5000 nodes and 30000 pods": Case(_first_part, 20),
    "a part of the state for a plan, 5000 nodes and 30000 pods": Case(_other_parts, 400),
}
