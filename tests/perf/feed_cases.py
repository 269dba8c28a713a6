"""What a what-if on the live state, and a watch of nodes, cost at 5,000 nodes.

For a what-if the loop copies the machine in steps; the serving thread encodes the copy in parts.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.core.snapshot.copying import MachineCopy, copying
from scheduler.observe.api.node_feed import NodeFeed, _Change
from scheduler.observe.api.nodes import NodeViews
from scheduler.service import what_if_feed
from scheduler.sim.what_if_cluster import State
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


def _copy() -> Callable[[int], None]:
    machine = full_state()

    def copy(count: int) -> None:
        for _ in range(count):
            deque(copying(machine, MachineCopy()), maxlen=0)

    return copy


def _parts() -> Callable[[int], None]:
    copy = MachineCopy()
    deque(copying(full_state(), copy), maxlen=0)
    state = State((), SETTINGS, NOW)

    def encode(count: int) -> None:
        for _ in range(count):
            deque(what_if_feed.parts(state, copy), maxlen=0)

    return encode


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
    "a copy for a what-if, 5000 nodes and 30000 pods": Case(_copy, 3),
    "the parts of a copy for a what-if, 5000 nodes and 30000 pods": Case(_parts, 1),
}
