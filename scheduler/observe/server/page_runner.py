"""The way from the thread that serves to the scheduler's loop, which owns all state.

Health never takes it; every other page does. While the scheduler's loop is busy those wait.
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
        """Do something in the scheduler's loop, and wait for its result.

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
        """Call something in the scheduler's loop, and wait for its result.

        Raises:
            ConnectionError: The scheduler's loop has ended.
        """

        async def called() -> T:
            return work()

        return await self.run(called)

    async def each(self, parts: AsyncGenerator[T]) -> AsyncGenerator[T]:
        """Yield what a generator of the scheduler's loop yields, and close it in the end."""
        # A step that was given up may not have ended when the generator is to be closed.
        one = asyncio.Lock()

        async def step() -> tuple[T, ...]:
            async with one:
                async for part in parts:
                    return (part,)
            return ()

        async def close() -> None:
            async with one:
                await parts.aclose()

        try:
            while part := await self.run(step):
                yield part[0]
        finally:
            with contextlib.suppress(ConnectionError):
                await self.run(close)

    def soon(self, work: Callable[..., object], *arguments: object) -> None:
        """Have something called in the scheduler's loop, unless that has ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work, *arguments)


class Relay(logging.Handler):
    """Hands records of another thread to a logger in the scheduler's loop, which owns the log."""

    def __init__(self, home: PageRunner, logger: logging.Logger) -> None:
        super().__init__()
        self._home = home
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record over."""
        self._home.soon(self._logger.handle, record)


async def _awaited(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
