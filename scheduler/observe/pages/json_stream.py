"""Long lists as JSON in parts, so that telling them does not keep the scheduler from its work.

What is told is gathered at once, which only takes references; it is encoded a few items at a time,
with pauses in which everything else goes on.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, TypeVar

__all__ = ["listed"]

T = TypeVar("T")

#: Encoding one takes some 10 µs, so that a part takes about a millisecond.
_ITEMS: Final = 100
_PAUSE_SECONDS: Final = 0.003


async def listed(
    head: bytes, items: Sequence[T], encode: Callable[[T], bytes | None], tail: bytes
) -> AsyncGenerator[bytes]:
    """Yield a list as JSON, between a head and a tail.

    Args:
        head: What stands before the first item.
        items: What is listed; must not change meanwhile.
        encode: Returns an item as JSON, `None` where there is nothing to tell of it.
        tail: What stands behind the last item.
    """
    separator = b""
    yield head
    for first in range(0, len(items), _ITEMS):
        some = items[first : first + _ITEMS]
        encoded = [each for each in map(encode, some) if each is not None]
        if encoded:
            yield separator + b",\n".join(encoded)
            separator = b",\n"
        await asyncio.sleep(_PAUSE_SECONDS)
    yield tail
