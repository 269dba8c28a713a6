"""The interface of the what-if page: how it admits a caller, and what it replies."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from scheduler.observe.api.requests import NameAccess

__all__ = ["Admission", "SchedulerLoop", "WhatIfPage", "WhatIfReply"]

T = TypeVar("T")


class SchedulerLoop(Protocol):
    """The scheduler's loop, seen from another thread; `PageRunner` is one."""

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await something in the scheduler's loop."""

    def call_soon(self, work: Callable[..., object], *arguments: object) -> None:
        """Schedule a call in the scheduler's loop."""


@dataclass(frozen=True, slots=True)
class WhatIfReply:
    """An answer, or a refusal in the format of the API server."""

    code: int
    body: bytes
    #: Seconds after which to come again; 0 for none.
    retry_after: int = 0


class Admission(Protocol):
    """The admission of a caller: a context that counts the caller while its request is answered."""

    def __enter__(self) -> "Admission":
        """Count the caller."""

    def __exit__(self, *_: object) -> None:
        """Admit another caller."""

    async def answer(
        self, scheduler_loop: SchedulerLoop, body: bytes, content_type: str, names: NameAccess
    ) -> WhatIfReply:
        """Answer a request.

        Args:
            scheduler_loop: Runs what needs the scheduler's state.
            body: The body.
            content_type: Its type.
            names: Which pods the caller may know by name; used in the scheduler's loop.
        """


class WhatIfPage(Protocol):
    """Answers `what if`; used in the serving thread."""

    @property
    def max_bytes(self) -> int:
        """The largest body, in bytes."""

    def admit(self, caller: str) -> Admission | WhatIfReply:
        """Admit a caller, or return a refusal where there are too many."""

    async def close(self) -> None:
        """End the processes that answer."""
