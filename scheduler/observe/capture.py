"""A capture: everything that the machine was told, in order, and when it decided.

With a capture the machine can be run again and comes to the same decisions, so a report of a
wrong one is a file. A line is an event (see `model.wire`) or a decision:

    {"kind": "Decided", "at": 1767225600.25, "pod": "default/web-0", "decision": "Placed", ...}

A capture holds pod specs, names and labels: treat it as what it is, a copy of the cluster.
"""

from typing import BinaryIO

import msgspec

from scheduler.model import capture_codec
from scheduler.model.decisions import Attempt, Placed, Preempting
from scheduler.model.events import Event
from scheduler.model.times import Seconds

__all__ = ["Capture", "Decided", "decided"]


class Decided(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="Decided"):
    """One decision, as a capture remembers it."""

    at: Seconds
    #: Key of the pod.
    pod: str
    #: Name of the decision's type.
    decision: str
    node: str = ""
    #: Keys of the victims.
    victims: tuple[str, ...] = ()


def decided(attempt: Attempt, at: Seconds) -> Decided:
    """Return what a capture remembers of an attempt."""
    decision = attempt.decision
    node = decision.node if isinstance(decision, Placed | Preempting) else ""
    victims = decision.victims if isinstance(decision, Preempting) else ()
    return Decided(
        at, attempt.pod.key, type(decision).__name__, node, tuple(each.key for each in victims)
    )


class Capture:
    """Writes a capture."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def event(self, event: Event, at: Seconds) -> None:
        """Write down what the machine was told."""
        self._file.write(capture_codec.encode(event, at) + b"\n")

    def decision(self, attempt: Attempt, at: Seconds) -> None:
        """Write down what it decided."""
        self._file.write(msgspec.json.encode(decided(attempt, at)) + b"\n")
