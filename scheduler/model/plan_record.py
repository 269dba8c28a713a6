"""The record of a preemption plan in the preemptor's status, written with its nomination.

It is the message of a condition. A user who may edit pods, but not `pods/status`, can neither write
nor remove it. It names no other pod: victims are fingerprints of their uids. The next leader
compares them with the pods on the node and checks each victim by the rules of preemption, so a
record can never evict a pod that its preemptor could not evict anyway.
"""

import hashlib
import math
from typing import Final

import msgspec

from scheduler.model.times import Seconds

__all__ = ["CONDITION", "MAX_VICTIMS", "VERSION", "PlanRecord", "decode", "encode", "fingerprint"]

#: The type of the condition.
CONDITION: Final = "preemptive-scheduler.io/Preemption"
VERSION: Final = 2
#: A plan with more victims is not recorded: the next leader decides again. A record is never
#: longer than `MAX_CHARACTERS`, so a forged one costs little to read.
MAX_VICTIMS: Final = 1000
MAX_CHARACTERS: Final = 32 * 1024


class PlanRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan, as it is recorded."""

    version: int
    node: str
    #: The time of the decision, by the clock of the leader that made it.
    begun: Seconds
    #: Fingerprints of the victims to evict.
    victims: tuple[str, ...] = ()
    #: Fingerprints of pods that were already terminating and that the plan waits for.
    leaving: tuple[str, ...] = ()


def fingerprint(preemptor: str, victim: str) -> str:
    """Return the fingerprint of a victim in the plan of a preemptor.

    Args:
        preemptor: Its uid. The same victim has a different fingerprint for each preemptor.
        victim: Its uid.
    """
    key = hashlib.blake2b(preemptor.encode(errors="surrogatepass"), digest_size=16).digest()
    text = victim.encode(errors="surrogatepass")
    return hashlib.blake2b(text, key=key, digest_size=10).hexdigest()


def encode(record: PlanRecord) -> str:
    """Return the message of the condition; empty if there are too many victims."""
    if len(record.victims) + len(record.leaving) > MAX_VICTIMS:
        return ""
    return msgspec.json.encode(record).decode()


def decode(text: str) -> PlanRecord | None:
    """Return the plan of a condition; `None` if there is none or it is invalid."""
    if not text or len(text) > MAX_CHARACTERS:
        return None
    try:
        record = msgspec.json.decode(text, type=PlanRecord)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if record.version != VERSION or not math.isfinite(record.begun):
        return None
    return record
