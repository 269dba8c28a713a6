"""Chooses the release of kube-scheduler whose decisions are reproduced, when the process starts.

`release_watch` looks later whether it still is that of the API servers.

A release that the configuration names is used. Otherwise that of the API server is used, from
`GET /version`. Decisions depend on it from the first observed object on, so it is read before
anything is listed. If the server does not respond for some seconds, or not with a version, the
oldest release is used, so that the health pages are served; once the caches have synced the version
is read again, and all parts are wired again if another release is right after all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from scheduler.config.settings import Settings
from scheduler.kube import server_version
from scheduler.kube.client.backoff import ExponentialBackoff, Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.errors import (
    ConnectionSettingsError,
    Forbidden,
    KubeError,
    NotFound,
    NotServed,
    Unauthorized,
)
from scheduler.kube.server_version import ServerVersion
from scheduler.model.releases import OLDEST, REFERENCES, Reference, of_server
from scheduler.model.times import Seconds

__all__ = ["ReleaseFinder"]

#: How long the start waits for the version of a server that does not answer. The startup probe of
#: the chart waits for minutes.
PATIENCE_SECONDS: Final = 10.0
#: Asking again at once would not help.
_REFUSED: Final = (ConnectionSettingsError, Forbidden, NotFound, NotServed, Unauthorized)
_FIRST_PAUSE_SECONDS: Final = 0.25
_LONGEST_PAUSE_SECONDS: Final = 2.0


@dataclass(slots=True)
class ReleaseFinder:
    """Finds the release that counts."""

    client: Client
    sleeper: Sleeper
    #: A clock that never goes back.
    elapsed: Callable[[], Seconds]
    log: Any
    #: Whether the version of the API server was wanted and could not be read.
    unknown: bool = False

    async def choose(self, settings: Settings) -> Reference:
        """Return the release that counts, and log it."""
        if not settings.follows_server:
            self._say(settings.reference, "configuration")
            return settings.reference
        try:
            version = await self._version()
        except (KubeError, ValueError) as error:
            self.unknown = True
            self.log.warning("server_version_unknown", problem=str(error))
            self._say(OLDEST, "default")
            return OLDEST
        reference, exact = version
        self._say(reference, "api-server")
        if not exact:
            newest = [*REFERENCES.values()][-1]
            self.log.warning(
                "server_of_other_release", decides_as=reference.version, newest=newest.version
            )
        return reference

    async def differs(self, reference: Reference) -> bool:
        """Return whether another release counts, now that the API server answers."""
        if not self.unknown:
            return False
        try:
            version = await server_version.read(self.client)
        except KubeError:
            return False
        found = of_server(*version.behaves_as)
        return found is not None and found[0] != reference

    async def _version(self) -> tuple[Reference, bool]:
        """Return the release for the API server, and whether it is the server's own.

        Raises:
            KubeError: The version cannot be read.
            ValueError: The answer has no version.
        """
        since = self.elapsed()
        backoff = ExponentialBackoff(self.sleeper, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        while True:
            try:
                return self._released(await server_version.read(self.client))
            except _REFUSED:
                raise
            except KubeError:
                if self.elapsed() - since > PATIENCE_SECONDS:
                    raise
            await backoff.wait()

    def _released(self, version: ServerVersion) -> tuple[Reference, bool]:
        found = of_server(*version.behaves_as)
        if found is None:
            raise ValueError(f"no version: {version.behaves_as}")
        return found

    def _say(self, reference: Reference, source: str) -> None:
        self.log.info("reference", decides_as=f"kube-scheduler {reference.version}", source=source)
