"""Encodes long documents in parts, so that they do not block the scheduling loop.

Axes: n items of a slice.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

import msgspec

from scheduler.model.rest.common import Document

__all__ = ["PAUSE_SECONDS", "document", "paced", "slices"]

T = TypeVar("T")

#: The pause between two slices, in which the scheduling loop goes on.
PAUSE_SECONDS: Final = 0.002
_ENCODER: Final = msgspec.json.Encoder()


def slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of a size."""
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part


async def document(
    items: Sequence[T],
    views: Callable[[Sequence[T]], Iterable[Document]],
    rest: Callable[[], Document],
    *,
    field: str = "items",
    size: int = 50,
) -> AsyncGenerator[bytes]:
    """Yield a document with a long field.

    Args:
        items: What the items of the document are made from; must not change meanwhile.
        views: Returns the items of the document for a slice; some may be left out.
        rest: Returns the document without its items; called at the end.
        field: The name of the long field.
        size: Items of a slice.
    """
    yield f'{{"{field}":['.encode()
    separator = b""
    for first in range(0, len(items), size):
        encoded = b",".join(map(_ENCODER.encode, views(items[first : first + size])))
        if encoded:
            yield separator + encoded
            separator = b","
        await asyncio.sleep(PAUSE_SECONDS)
    tail = _ENCODER.encode(rest())[1:]
    yield (b"]," if tail != b"}" else b"]") + tail


async def paced(steps: Iterable[object], size: int) -> None:
    """Take all steps, so many at a time."""
    for _ in slices(steps, size):
        await asyncio.sleep(0)
