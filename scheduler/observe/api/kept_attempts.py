"""How the attempts of pods are written down for the next leader, and checked when they are read.

An example:

    {"version": 1, "items": [{"namespace": "prod", "name": "api-0", "attempts": [...], ...}, ...]}

Each message is written as often as it was given: compression finds that most of them are equal.
"""

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from scheduler.model.decisions import DecisionSummary
from scheduler.model.effects import PodRef
from scheduler.model.times import Seconds
from scheduler.observe.api.kept_fields import (
    ENCODER,
    MAX_AHEAD,
    VERSION,
    Count,
    Kept,
    Moment,
    Name,
    Namespace,
    Priority,
    Uid,
    Word,
    compressed,
    read,
)
from scheduler.observe.api.past_attempts import (
    MAX_ATTEMPTS,
    MAX_LEFT_AGE,
    MAX_MESSAGE,
    PastAttempt,
    PastPod,
)

__all__ = ["MAX_PODS", "decoded", "encoded", "packed", "unpacked"]

#: The attempts of how many pods are written down, of those that were tried last.
MAX_PODS: Final = 2_000
#: Of these, as many as have so many bytes before they are compressed.
_MAX_BYTES: Final = 4 << 20
_Decision = Annotated[str, Meta(pattern=r"^(Scheduled|Preempting|Unschedulable|Gated|Error)\Z")]


class _Attempt(Kept, array_like=True):
    at: Moment
    decision: _Decision
    node: Annotated[str, Meta(max_length=253)] = ""
    message: Annotated[str, Meta(max_length=MAX_MESSAGE + 3)] = ""
    repeated: Count = 0


class _Pod(Kept):
    namespace: Namespace
    name: Name
    uid: Uid
    scheduler_name: Word
    began: Moment
    attempts: Annotated[list[_Attempt], Meta(min_length=1, max_length=MAX_ATTEMPTS)]
    priority: Priority = 0
    number: Count = 0
    #: When it left the queue; `None` if it was waiting.
    left_at: Moment | None = None


class _File(msgspec.Struct):
    version: int
    items: list[msgspec.Raw]


_ITEM: Final = msgspec.json.Decoder(_Pod)
_FILE: Final = msgspec.json.Decoder(_File)


def encoded(past: PastPod) -> bytes:
    """Return a pod with its attempts as it is written down."""
    kept = _Pod(
        past.ref.namespace,
        past.ref.name,
        past.ref.uid,
        past.scheduler_name,
        past.began,
        [_Attempt(a.at, a.decision, a.node, a.message, a.repeated) for a in past.attempts],
        past.priority,
        past.number,
        past.left_at or None,
    )
    return ENCODER.encode(kept)


def packed(items: Iterable[bytes], limit: int) -> bytes:
    """Return the compressed text of the first encoded pods that have a place in so many bytes.

    It may be called in any thread.
    """
    fitting: list[bytes] = []
    size = 0
    for each in items:
        size += len(each)
        if size > _MAX_BYTES:
            break
        fitting.append(each)
    while True:
        text = b'{"version":%d,"items":[%s]}' % (VERSION, b",".join(fitting))
        content = compressed(text)
        if len(content) <= limit:
            return content
        del fitting[len(fitting) // 2 :]


def unpacked(content: bytes) -> list[msgspec.Raw]:
    """Return the encoded pods of a compressed text. It may be called in any thread.

    Raises:
        KeptError: It is not one, or of another version.
    """
    return read(content, _FILE).items[:MAX_PODS]


def decoded(item: msgspec.Raw, now: Seconds) -> PastPod | None:
    """Return an encoded pod if it is valid, and has not left the queue too long ago."""
    try:
        found = _ITEM.decode(item)
    except (ValueError, RecursionError):
        return None
    left_at = found.left_at or 0.0
    latest = max(found.began, left_at, *(each.at for each in found.attempts))
    if latest > now + MAX_AHEAD or (left_at and left_at + MAX_LEFT_AGE < now):
        return None
    ref = PodRef(found.namespace, found.name, found.uid)
    past = PastPod(ref, found.scheduler_name, min(found.began, now))
    past.priority, past.number = found.priority, found.number
    past.left_at = min(left_at, now)
    past.attempts = tuple(
        PastAttempt(min(a.at, now), DecisionSummary(a.decision, a.node, a.message), a.repeated)
        for a in found.attempts
    )
    return past
