"""What is written to a preemptor about its plan, together with its nomination.

Who leads after a crash reads it, and goes on with exactly this plan or cancels it.
"""

from typing import Final

import msgspec

from scheduler.model.times import Seconds

__all__ = ["ANNOTATION", "PlanRecord", "VictimRecord", "decode", "encode"]

#: The annotation of the preemptor.
ANNOTATION: Final = "preemptive-scheduler.io/plan"
VERSION: Final = 1


class VictimRecord(msgspec.Struct, frozen=True, array_like=True):
    """A pod that must be gone; written as a list, in this order."""

    namespace: str
    name: str
    uid: str
    #: As `scheduler.model.owners` names it.
    owner: str
    #: Whether it was leaving already, so that nobody has to ask it.
    leaving: bool = False
    #: Whether it is asked through `pods/eviction`.
    strict: bool = False


class PlanRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan, as it is written down."""

    version: int
    node: str
    begun: Seconds
    #: Until then every victim must have been asked to leave.
    deadline: Seconds
    #: Most important first.
    victims: tuple[VictimRecord, ...] = ()
    #: Generations of the policies that bind it, by name.
    policies: dict[str, int] = {}


def encode(record: PlanRecord) -> str:
    """Return the value of the annotation."""
    return msgspec.json.encode(record).decode()


def decode(text: str | None) -> PlanRecord | None:
    """Return the plan of an annotation; `None` where there is none that can be read."""
    if not text:
        return None
    try:
        record = msgspec.json.decode(text, type=PlanRecord)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return record if record.version == VERSION else None
