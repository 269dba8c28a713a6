"""Runs pages in the scheduler's loop, which owns all state, on behalf of the serving thread.

Health pages do not need it; all other pages do, and wait while the scheduler's loop is busy.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

__all__ = ["PageRunner", "Relay"]

T = TypeVar("T")


class PageRunner:
    """The scheduler's loop, seen from another thread. Made in the scheduler's loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await something in the scheduler's loop, and return its result.

        It is cancelled when the caller stops waiting.

        Raises:
            ConnectionError: The scheduler's loop has ended.
        """
        task = _awaited(work)
        try:
            future = asyncio.run_coroutine_threadsafe(task, self._loop)
        except RuntimeError as error:
            task.close()
            raise ConnectionError("the scheduler has stopped") from error
        return await asyncio.wrap_future(future)

    async def call(self, work: Callable[[], T]) -> T:
        """Call something in the scheduler's loop, and return its result.

        Raises:
            ConnectionError: The scheduler's loop has ended.
        """

        async def called() -> T:
            return work()

        return await self.run(called)

    async def iterate(self, parts: AsyncGenerator[T]) -> AsyncGenerator[T]:
        """Yield what a generator of the scheduler's loop yields, and close it at the end."""
        # A cancelled step may still be running when the generator is closed.
        lock = asyncio.Lock()

        async def step() -> tuple[T, ...]:
            async with lock:
                async for part in parts:
                    return (part,)
            return ()

        async def close() -> None:
            async with lock:
                await parts.aclose()

        try:
            while part := await self.run(step):
                yield part[0]
        finally:
            with contextlib.suppress(ConnectionError):
                await self.run(close)

    def call_soon(self, work: Callable[..., object], *arguments: object) -> None:
        """Schedule a call in the scheduler's loop, unless that has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work, *arguments)


class Relay(logging.Handler):
    """Passes records of another thread to a logger in the scheduler's loop, which owns the log."""

    def __init__(self, page_runner: PageRunner, logger: logging.Logger) -> None:
        super().__init__()
        self._page_runner = page_runner
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a record on."""
        self._page_runner.call_soon(self._logger.handle, record)


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
