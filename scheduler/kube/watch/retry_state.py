"""How it goes between an informer and its server: what failed, since when, and how long to wait."""

import asyncio
from typing import Final

from scheduler.kube.client.backoff import ExponentialBackoff, Sleeper
from scheduler.kube.client.hooks import ClientHooks
from scheduler.kube.errors import (
    ApiError,
    ConnectionSettingsError,
    KubeError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

__all__ = ["RetryState"]

#: A shorter pause is not worth ending. It keeps one between two watches that fail at once, too.
SHORTEST_ENDED_SECONDS: Final = 1.0


class RetryState:
    """The record of one informer.

    Args:
        resource: As metrics and logs name it.
        observer: Hears of failures.
        sleeper: Waits between attempts.
        backoff: The pauses after failures.
    """

    def __init__(
        self, resource: str, observer: ClientHooks, sleeper: Sleeper, backoff: ExponentialBackoff
    ) -> None:
        #: Why lists or watches do not work now; empty while they do.
        self.problem = ""
        #: Watches that have failed in a row since one said something.
        self.fruitless = 0
        #: When a watch said something, by the loop's clock; `None` before the first answer.
        self.at: float | None = None
        self._resource = resource
        self._observer = observer
        self._sleeper = sleeper
        self._backoff = backoff
        #: The problem that was told last, until a watch works.
        self._told = ""
        #: The pause that may be ended because others get answers again.
        self._pause: asyncio.Future[object] | None = None
        self._ended_early = False

    def silent_seconds(self) -> float | None:
        """Return how long nothing was heard."""
        return None if self.at is None else _now() - self.at

    def answered(self) -> None:
        """Record that the server has answered a request.

        It shows that the server lives, and not that watches work: while they fail, only what a
        watch says counts.
        """
        if not self.fruitless:
            self.at = _now()

    def spoke(self) -> None:
        """Record that a watch has said something, or was ended by the server in order."""
        self.at = _now()
        self.fruitless = 0
        self._told = ""
        self._ended_early = False
        self._backoff.reset()

    async def recover(self, error: KubeError) -> None:
        """Record a failure, tell of it once, and wait."""
        if not _is_outage(error):
            self.fruitless += 1
        self.problem = str(error)
        self._observer.restarted(self._resource)
        if self.problem != self._told:
            self._told = self.problem
            self._observer.interrupted(self._resource, self.problem)
        delay = self._backoff.delay(error.retry_after if isinstance(error, ApiError) else None)
        if isinstance(error, Unreachable) and delay > SHORTEST_ENDED_SECONDS:
            await self._rest(delay)
        else:
            await self._sleeper.sleep(delay)

    async def _rest(self, seconds: float) -> None:
        """Let a pause pass that `resume` may end."""
        self._pause = asyncio.ensure_future(self._sleeper.sleep(seconds))
        try:
            await asyncio.wait({self._pause})
        finally:
            self._pause.cancel()
            self._pause = None

    def resume(self) -> None:
        """End a pause that was made because there was no answer: others get answers again.

        It ends one pause only until a watch works, so that a server that answers others and not
        this informer is not asked without pauses.
        """
        if self._pause is not None and not self._ended_early:
            self._ended_early = True
            self._pause.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()


def _is_outage(error: KubeError) -> bool:
    """Tell whether an error says nothing about the watch: there is no server, or none for us now.

    Source: client-go v0.36.3 tools/cache/reflector.go, isWatchErrorRetriable. Differs: credentials
    that are refused are such an error, too.
    """
    if isinstance(error, Unreachable):
        return not error.sent
    return isinstance(error, TooManyRequests | Unauthorized | ConnectionSettingsError)
