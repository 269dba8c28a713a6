"""Passes the state of the scheduler to the process that computes what-ifs, and reads it there.

The scheduler's loop copies the machine. The serving thread encodes the copy a few lines at a time,
with pauses, so that it never keeps the loop waiting for long. The first part is the configuration,
pickled: both ends are this program. All others are lines of the copy.
"""

import copyreg
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from scheduler.core.snapshot.copying import MachineCopy
from scheduler.core.snapshot.encoding import encoded
from scheduler.sim.what_if_cluster import State

__all__ = ["PAUSE_SECONDS", "Received", "parts"]

#: Lines and bytes of one part. Encoding a line takes some 15 µs, and a megabyte some 5 ms, so a
#: part takes less than a millisecond, unless an object is large.
_LINES: Final = 50
_BYTES: Final = 1 << 16
#: The pause after a part.
PAUSE_SECONDS: Final = 0.001


def parts(state: State, copy: MachineCopy) -> Iterator[bytes]:
    """Yield a state, which has no snapshot yet, with a copy of its machine in parts."""
    settings = state.settings
    # Extenders may have secrets.
    public, has_extenders = replace(settings, extenders=()), bool(settings.extenders)
    yield pickle.dumps(replace(state, settings=public, has_extenders=has_extenders))
    lines = encoded(copy)
    while part := _joined(lines):
        yield part


def _joined(lines: Iterator[bytes]) -> bytes:
    """Return the next lines that make one part; empty at the end."""
    found: list[bytes] = []
    size = 0
    for line in lines:
        found.append(line)
        size += len(line)
        if len(found) >= _LINES or size >= _BYTES:
            break
    return b"\n".join(found)


def _read_only(content: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(content)


# Settings have read-only mappings.
copyreg.pickle(MappingProxyType, lambda view: (_read_only, (dict(view),)))


@dataclass(slots=True)
class Received:
    """The state that parts have brought so far."""

    _head: State | None = None
    _lines: list[bytes] = field(default_factory=list)

    def take(self, part: bytes) -> None:
        """Take one part. The sender is this program, so it is trusted."""
        if self._head is None:
            self._head = pickle.loads(part)
        else:
            self._lines += part.split(b"\n")

    def state(self) -> State:
        """Return the state; all parts have come."""
        assert self._head is not None
        return replace(self._head, snapshot=self._lines)
