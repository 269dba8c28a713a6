"""A capture: all events that the machine received, in order, with its decisions.

A new machine that replays a capture makes the same decisions, so a bug report of a wrong decision
is one file. The first line names the release of kube-scheduler that was followed. Each other line
is an event (see `model/capture_codec`) or a decision:

    {"kind": "Followed", "reference": "v1.37"}
    {"kind": "Decided", "at": 1767225600.25, "pod": "default/web-0", "decision": "Placed", ...}

A capture holds pod specs, names and labels: protect it like a copy of the cluster.
"""

from typing import BinaryIO

import msgspec

from scheduler.model import capture_codec
from scheduler.model.decisions import Attempt, Placed, Preempting
from scheduler.model.events import Event
from scheduler.model.releases import Reference
from scheduler.model.times import Seconds

__all__ = ["Capture", "Decided", "Followed", "decided"]


class Followed(msgspec.Struct, frozen=True, tag_field="kind", tag="Followed"):
    """The release of kube-scheduler whose decisions were reproduced."""

    #: As in the setting.
    reference: str


class Decided(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="Decided"):
    """One decision, as a capture records it."""

    at: Seconds
    #: Key of the pod.
    pod: str
    #: Name of the decision's type.
    decision: str
    node: str = ""
    #: Keys of the victims.
    victims: tuple[str, ...] = ()


def decided(attempt: Attempt, at: Seconds) -> Decided:
    """Return the record of an attempt."""
    decision = attempt.decision
    node = decision.node if isinstance(decision, Placed | Preempting) else ""
    victims = decision.victims if isinstance(decision, Preempting) else ()
    keys = tuple(victim.key for victim in victims)
    return Decided(at, attempt.pod.key, type(decision).__name__, node, keys)


class Capture:
    """Writes a capture."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def followed(self, reference: Reference) -> None:
        """Write the release, before anything else."""
        self._file.write(msgspec.json.encode(Followed(reference.name)) + b"\n")

    def event(self, event: Event, at: Seconds) -> None:
        """Write an event that the machine received."""
        self._file.write(capture_codec.encode(event, at) + b"\n")

    def decision(self, attempt: Attempt, at: Seconds) -> None:
        """Write a decision of the machine."""
        self._file.write(msgspec.json.encode(decided(attempt, at)) + b"\n")
