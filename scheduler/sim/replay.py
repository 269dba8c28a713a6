"""Runs a new machine on a capture, and compares its decisions with the recorded ones."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from scheduler.core.machine import Machine
from scheduler.framework.profile import Profile
from scheduler.model import capture_codec
from scheduler.model.capture_codec import WireError
from scheduler.model.releases import OLDEST, REFERENCES, Reference
from scheduler.observe.capture import Decided, Followed, decided
from scheduler.queue.backoff_duration import PodBackoff

__all__ = ["Replayed", "followed", "replay"]

_DECIDED = re.compile(rb'\s*\{"kind":"Decided"')
_FOLLOWED = re.compile(rb'\s*\{"kind":"Followed"')


@dataclass(frozen=True, slots=True)
class Replayed:
    """One decision of a capture, and the one that the new machine made."""

    line: int
    then: Decided
    #: `None` if the active queue was empty.
    now: Decided | None


def followed(line: bytes) -> Reference:
    """Return the release of kube-scheduler that the first line of a capture names.

    Captures of older versions begin with an event; the oldest release was followed then.

    Raises:
        WireError: The line names a release that is not known.
    """
    if not _FOLLOWED.match(line):
        return OLDEST
    try:
        return REFERENCES[msgspec.json.decode(line, type=Followed).reference]
    except (msgspec.DecodeError, KeyError) as error:
        raise WireError(f"line 1: no known release: {error}") from error


def replay(
    lines: Iterable[bytes], profiles: Mapping[str, Profile], backoff: PodBackoff
) -> Iterator[Replayed]:
    """Replay a capture with a new machine and yield the decisions.

    Raises:
        WireError: A line is neither an event nor a decision; the message names it.
    """
    machine = Machine(profiles, backoff)
    for number, line in enumerate(lines, start=1):
        try:
            if _DECIDED.match(line):
                then = msgspec.json.decode(line, type=Decided)
                attempt = machine.step(then.at)
                again = None if attempt is None else decided(attempt, then.at)
                yield Replayed(number, then, again)
            elif line.strip() and not _FOLLOWED.match(line):
                machine.observe(*capture_codec.decode(line))
        except (WireError, msgspec.DecodeError) as error:
            raise WireError(f"line {number}: {error}") from error
