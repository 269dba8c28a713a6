"""The failures of an informer: what failed, since when, and how long to wait."""

import asyncio
from typing import Final

from scheduler.kube.client.backoff import ExponentialBackoff, Sleeper
from scheduler.kube.errors import (
    ApiError,
    ConnectionSettingsError,
    KubeError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from scheduler.kube.instrumentation import Instrumentation

__all__ = ["RetryState"]

#: A shorter pause is not worth ending. It keeps one between two watches that fail at once, too.
SHORTEST_ENDED_SECONDS: Final = 1.0


class RetryState:
    """The failures and pauses of one informer.

    Args:
        resource: As metrics and logs name it.
        observer: Gets the failures.
        sleeper: Waits between attempts.
        backoff: The length of pauses after failures.
    """

    def __init__(
        self,
        resource: str,
        observer: Instrumentation,
        sleeper: Sleeper,
        backoff: ExponentialBackoff,
    ) -> None:
        #: Why lists or watches do not work now; empty while they do.
        self.problem = ""
        #: Watches that have failed in a row since one sent something.
        self.failures = 0
        #: When a watch last sent something, by the loop's clock; `None` before the first answer.
        self.at: float | None = None
        self._resource = resource
        self._observer = observer
        self._sleeper = sleeper
        self._backoff = backoff
        #: The problem that was reported last, until a watch works.
        self._reported = ""
        #: A pause that `resume` may end.
        self._pause: asyncio.Future[object] | None = None
        self._ended_early = False

    def silent_seconds(self) -> float | None:
        """Return for how long nothing was received."""
        return None if self.at is None else _now() - self.at

    def answered(self) -> None:
        """Record that the server has answered a request.

        An answer shows that the server is alive, but not that watches work: while watches fail,
        only a watch that sends something counts.
        """
        if not self.failures:
            self.at = _now()

    def watch_worked(self) -> None:
        """Record that a watch has sent something, or that the server has ended it normally."""
        self.at = _now()
        self.failures = 0
        self._reported = ""
        self._ended_early = False
        self._backoff.reset()

    async def recover(self, error: KubeError) -> None:
        """Record a failure, report it once, and wait."""
        if not _is_outage(error):
            self.failures += 1
        self.problem = str(error)
        self._observer.restarted(self._resource)
        if self.problem != self._reported:
            self._reported = self.problem
            self._observer.interrupted(self._resource, self.problem)
        delay = self._backoff.delay(error.retry_after if isinstance(error, ApiError) else None)
        if isinstance(error, Unreachable) and delay > SHORTEST_ENDED_SECONDS:
            await self._sleep(delay)
        else:
            await self._sleeper.sleep(delay)

    async def _sleep(self, seconds: float) -> None:
        """Wait; `resume` may end the pause."""
        self._pause = asyncio.ensure_future(self._sleeper.sleep(seconds))
        try:
            await asyncio.wait({self._pause})
        finally:
            self._pause.cancel()
            self._pause = None

    def resume(self) -> None:
        """End a pause after a missing answer, because other requests get answers again.

        Only one pause is ended until a watch works, so that a server that answers others but not
        this informer is not asked without pauses.
        """
        if self._pause is not None and not self._ended_early:
            self._ended_early = True
            self._pause.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_outage(error: KubeError) -> bool:
    """Return whether an error says nothing about the watch: the server is away or refuses all.

    Source: client-go v0.36.3 tools/cache/reflector.go, isWatchErrorRetriable. Differs: credentials
    that are refused are such an error, too.
    """
    if isinstance(error, Unreachable):
        return not error.sent
    return isinstance(error, TooManyRequests | Unauthorized | ConnectionSettingsError)
