"""Encodes long lists as JSON in parts, so that they do not block the scheduling loop.

The items are collected at once, which copies references only; they are encoded a few at a time,
with pauses in which the loop continues.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, TypeVar

__all__ = ["listed"]

T = TypeVar("T")

#: Items of one part. Encoding an item takes some 10 µs, so a part takes about a millisecond.
_ITEMS: Final = 100
_PAUSE_SECONDS: Final = 0.003


async def listed(
    head: bytes, items: Sequence[T], encode: Callable[[T], bytes | None], tail: bytes
) -> AsyncGenerator[bytes]:
    """Yield a list as JSON, between a head and a tail.

    Args:
        head: The text before the first item.
        items: The items; must not change meanwhile.
        encode: Returns an item as JSON, `None` to skip it.
        tail: The text after the last item.
    """
    separator = b""
    yield head
    for first in range(0, len(items), _ITEMS):
        part = items[first : first + _ITEMS]
        encoded = [item for item in map(encode, part) if item is not None]
        if encoded:
            yield separator + b",\n".join(encoded)
            separator = b",\n"
        await asyncio.sleep(_PAUSE_SECONDS)
    yield tail
