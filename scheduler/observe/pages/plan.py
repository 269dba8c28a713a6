"""What the page of plans needs: a request, what answers it, and the answer."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from scheduler.observe.api.requests import NameAccess

__all__ = ["PlanPage", "PlanReply", "PlanTicket", "SchedulerLoop"]

T = TypeVar("T")


class SchedulerLoop(Protocol):
    """The scheduler's loop, seen from another thread; `PageRunner` is one."""

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await something in the scheduler's loop."""

    def call_soon(self, work: Callable[..., object], *arguments: object) -> None:
        """Schedule a call in the scheduler's loop."""

    def iterate(self, parts: AsyncGenerator[T]) -> AsyncGenerator[T]:
        """Yield what a generator of the scheduler's loop yields."""


@dataclass(frozen=True, slots=True)
class PlanReply:
    """An answer, or a refusal in the format of the API server."""

    code: int
    body: bytes
    #: Seconds after which to come again; 0 for none.
    retry_after: int = 0


class PlanTicket(Protocol):
    """A caller's turn: a context that holds its place while its request is answered."""

    def __enter__(self) -> "PlanTicket":
        """Hold the place."""

    def __exit__(self, *_: object) -> None:
        """Give the place to another request."""

    async def answer(
        self, scheduler_loop: SchedulerLoop, body: bytes, content_type: str, names: NameAccess
    ) -> PlanReply:
        """Answer a request.

        Args:
            scheduler_loop: Runs what needs the scheduler's state.
            body: The body.
            content_type: Its type.
            names: Which pods the caller may know by name; to be asked in the scheduler's loop.
        """


class PlanPage(Protocol):
    """Answers `what if`; used in the serving thread."""

    @property
    def max_bytes(self) -> int:
        """The largest body, in bytes."""

    def enter(self, caller: str) -> PlanTicket | PlanReply:
        """Return a place for a caller, or a refusal where there is none."""

    async def close(self) -> None:
        """End what answers."""
