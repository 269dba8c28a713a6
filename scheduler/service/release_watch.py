"""Notices that the API servers are of another release than the one whose decisions are reproduced.

The release is chosen when the process starts, and must not change while it decides. The control
plane is upgraded meanwhile, often one API server after the other, behind one address. So the
version is read again every minute, and when the process begins to lead. Each answer is asked for
over a connection of its own, because a kept one leads to the same server again and again.

A difference is reported at once, by the log and a metric. It is acted upon only when all answers of
ten minutes agree on one other release: as long as servers of two releases answer, the upgrade is
not complete, or is being undone. Then the process ends in an orderly way where that is wanted, and
whatever starts it again makes it choose anew. A replica that leads waits two minutes longer, so
that the one that stands by has changed before, and takes over.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.config.field_errors import ConfigError
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.errors import KubeError
from scheduler.kube.server_version import ServerVersion
from scheduler.model.releases import Reference, of_server
from scheduler.model.times import Seconds

__all__ = ["Agreement", "ReleaseWatch"]

#: Between two looks; up to half of it longer at random.
LOOK_SECONDS: Final = 60.0
#: How many answers a look asks for.
ASKS: Final = 3
#: For how long all answers must agree on another release.
AGREED_SECONDS: Final = 600.0
#: How much longer that is for a replica that leads.
LEADER_SECONDS: Final = 120.0
#: Answers further apart than this do not belong together.
LONGEST_SILENCE_SECONDS: Final = 300.0


class Agreement:
    """What the answers agree on.

    Args:
        used: The release whose decisions are reproduced.
    """

    def __init__(self, used: Reference) -> None:
        #: Whether an answer of the last look was of another release.
        self.differs = False
        #: The release on which all answers agree now, if they do.
        self.release: Reference | None = None
        self._used = used
        self._since = self._last = 0.0

    def observe(self, answers: Sequence[Reference], now: Seconds) -> Seconds:
        """Count the answers of a look; return for how long all agree on `release`."""
        if answers:
            found = set(answers)
            self.differs = found != {self._used}
            release = found.pop() if len(found) == 1 else None
            silent = now - self._last > LONGEST_SILENCE_SECONDS
            if release is None or release != self.release or silent:
                self._since = now
            self.release, self._last = release, now
        return self._last - self._since


@dataclass(slots=True)
class ReleaseWatch:
    """Looks at the releases of the API servers until cancelled."""

    #: The release whose decisions are reproduced.
    used: Reference
    #: Returns the version of an API server, over a new connection.
    read: Callable[[], Awaitable[ServerVersion]]
    sleeper: Sleeper
    #: A clock that never goes back.
    elapsed: Callable[[], Seconds]
    log: Any
    leads: Callable[[], bool]
    #: Ends the process, so that it starts again as another release; raises ConfigError where it
    #: could not start. `None` only reports.
    restart: Callable[[Reference], None] | None
    agreement: Agreement = field(init=False)
    _pause: asyncio.Future[object] | None = None
    #: Whether a difference was reported, until all agree again.
    _reported: bool = False
    #: Why the process could not be started again, as it was reported.
    _problem: str = ""

    def __post_init__(self) -> None:
        self.agreement = Agreement(self.used)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            seconds = LOOK_SECONDS * (1 + self.sleeper.jitter() / 2)
            self._pause = asyncio.ensure_future(self.sleeper.sleep(seconds))
            try:
                await asyncio.wait({self._pause})
            finally:
                self._pause.cancel()

    def look_soon(self) -> None:
        """End the pause before the next look."""
        if self._pause is not None:
            self._pause.cancel()

    async def look(self) -> None:
        """Read the version some times, and evaluate the answers."""
        answers = [found for _ in range(ASKS) if (found := await self._ask()) is not None]
        seconds = self.agreement.observe(answers, self.elapsed())
        release = self.agreement.release
        if self.agreement.differs and not self._reported:
            self._reported = True
            servers = sorted({each.name for each in answers})
            self.log.warning("reference_mismatch", decides_as=self.used.name, servers=servers)
        if release is None or seconds < AGREED_SECONDS:
            return
        needed = AGREED_SECONDS + (LEADER_SECONDS if self.leads() else 0.0)
        if release == self.used and self._reported:
            self._reported = False
            self.log.info("reference_matches", decides_as=self.used.name)
        elif release != self.used and self.restart is not None and seconds >= needed:
            self._change(self.restart, release)

    def _change(self, restart: Callable[[Reference], None], other: Reference) -> None:
        try:
            restart(other)
        except ConfigError as error:
            if self._problem != str(error):
                self._problem = str(error)
                self.log.warning("reference_not_changed", wanted=other.name, problem=self._problem)
        else:
            self.log.warning("reference_changed", restarts_as=other.name)

    async def _ask(self) -> Reference | None:
        with contextlib.suppress(KubeError):
            found = of_server(*(await self.read()).behaves_as)
            return None if found is None else found[0]
        return None
