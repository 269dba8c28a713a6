"""The fields of what one leader writes down for the next one, and the text that has them.

What is read was written by another process, and may be damaged or hostile. So every name, number
and list has a limit, and an entry that is not valid is left out and does not affect others. Nobody
decides by it: it is only shown. It is compressed by Zstandard.
"""

from typing import Annotated, Final, Protocol, TypeVar

import msgspec
import zstandard
from msgspec import Meta

from scheduler.model.times import LATEST, Seconds

__all__ = [
    "ENCODER",
    "MAX_AHEAD",
    "MAX_TEXT",
    "VERSION",
    "Count",
    "Kept",
    "KeptError",
    "Moment",
    "Name",
    "Namespace",
    "Priority",
    "Text",
    "Uid",
    "Word",
    "compressed",
    "read",
]

VERSION: Final = 1
#: How many characters of a message are written down.
MAX_TEXT: Final = 2_000
#: By how much the clock of the process that has written may be ahead.
MAX_AHEAD: Final[Seconds] = 60.0
#: The most bytes of a text before it was compressed: a small one may claim to be large.
_MAX_BYTES: Final = 16 << 20
_LEVEL: Final = 3

_NAME: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z"
#: One that was deleted ends with `views.FORMER`.
_NAMESPACE: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?( \(deleted\))?\Z"
Namespace = Annotated[str, Meta(max_length=73, pattern=_NAMESPACE)]
Name = Annotated[str, Meta(max_length=253, pattern=_NAME)]
Uid = Annotated[str, Meta(max_length=128, pattern=r"^[!-~]+\Z")]
Word = Annotated[str, Meta(max_length=253)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Moment = Annotated[float, Meta(ge=0, le=LATEST)]
Count = Annotated[int, Meta(ge=0, le=2**31)]
Priority = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]

ENCODER: Final = msgspec.json.Encoder()


class KeptError(Exception):
    """What was read is not a history of this version."""


class Kept(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """The base of all parts. Later versions may have more fields."""


def compressed(text: bytes) -> bytes:
    """Return a text as it is stored. It may be called in any thread."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(text)


class VersionedText(Protocol):
    """A whole text."""

    version: int


V = TypeVar("V", bound=VersionedText)


def read(content: bytes, decoder: msgspec.json.Decoder[V]) -> V:
    """Return what is stored. It may be called in any thread.

    Raises:
        KeptError: It cannot be read, is too large, or of another version.
    """
    try:
        # The size is checked before any memory is taken for it.
        if not 0 <= zstandard.frame_content_size(content) <= _MAX_BYTES:
            raise KeptError("it is too large, or does not say how large it is")
        text = zstandard.ZstdDecompressor().decompress(content, max_output_size=_MAX_BYTES)
        found = decoder.decode(text)
    except (zstandard.ZstdError, ValueError, RecursionError) as error:
        raise KeptError(str(error)[:200]) from error
    if found.version != VERSION:
        raise KeptError(f"version {str(found.version)[:20]} is not known, only {VERSION}")
    return found
