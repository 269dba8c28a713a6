"""What a plan on the live state costs the scheduler's loop, at 5,000 nodes and 30,000 pods.

The loop takes references to all objects at once, and encodes them in parts. It does nothing else
between two parts of either kind, so both bound the pause that a plan causes.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.service import what_if_feed
from scheduler.state.preemption.ledger import MAX_ENTRIES, EvictionEntry
from tests.perf.core_cases import Case
from tests.perf.policy_cases import NOW
from tests.perf.waiting_cases import full

__all__ = ["CASES", "full_state"]

SETTINGS: Final = load.defaults()


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


CASES: Final[Mapping[str, Case]] = {
    "the references of a plan, 5000 nodes and 30000 pods": Case(_first_part, 20),
    "a part of the state for a plan, 5000 nodes and 30000 pods": Case(_other_parts, 400),
}
