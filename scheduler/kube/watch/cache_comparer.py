"""Compares the caches of the informers with the API server periodically.

A watch that loses an event leaves no trace: everything continues, and decisions are made from
objects that have changed or were deleted. So the version of every object is compared, rarely and
with little load: lists of metadata only, in pages, with pauses, one resource after the other, over
connections of their own.

Cache and list are never of the same moment, so a difference alone proves nothing. The cache
*before* the list was requested is older than the list; where the two differ, the informer must get
an event. If its cache is still the same a while later, it has missed one: that is drift. An object
that the cache lacks may be gone again by then, so it must be in a second list as well.

Drift is reported, because its cause has to be found. It is also repaired: the informer lists the
resource again.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlencode

import msgspec

from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import KubeError, NotFound, NotServed, Unreachable
from scheduler.kube.watch.decoding import UNREADABLE, Identity, Known, check_list
from scheduler.kube.watch.discovery import is_served
from scheduler.kube.watch.resources import ApiResource

__all__ = ["METADATA_ONLY", "CacheComparer", "CacheReader", "ComparerSettings", "Drift"]

#: The `Accept` header of the requests, so that the server sends metadata only. Discovery pages have
#: no such form: without plain JSON, the server refuses to send them.
METADATA_ONLY: Final = (
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)
_METADATA_LIST: Final = "PartialObjectMetadataList"


class CacheReader(Protocol):
    """Provides the cached objects of a resource; an informer does."""

    resource: ApiResource[Any]
    synced: asyncio.Event

    def known(self) -> dict[str, Known]:
        """Return the known state of each object by key, as a copy."""

    def unreadable(self, key: str) -> bool:
        """Return whether an object is left out because decoding failed."""

    def relist(self) -> None:
        """List everything again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparerSettings:
    """The period, and the load on the API server."""

    #: Between two rounds; up to twice as long at random, so that replicas do not list together.
    period_seconds: float = 900.0
    #: The time in which an informer must get an event for what a list already shows.
    grace_seconds: float = 30.0
    #: Objects in a page; decoding one takes about a millisecond.
    page_objects: int = 500
    #: Between two pages.
    pause_seconds: float = 0.1
    #: How long the server may take for a page.
    answer_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Drift:
    """Differences that an informer has missed, by key."""

    #: In the cluster, and not in the cache.
    missing: tuple[str, ...] = ()
    #: In the cache, and not in the cluster.
    surplus: tuple[str, ...] = ()
    #: In the cache with another version.
    stale: tuple[str, ...] = ()

    def counts(self) -> dict[str, int]:
        """Return the number of each kind of difference."""
        return {
            "missing": len(self.missing),
            "surplus": len(self.surplus),
            "stale": len(self.stale),
        }

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus or self.stale)


class CacheComparer:
    """Compares until cancelled.

    Args:
        informers: The caches.
        client: Sends the requests; its transport accepts `METADATA_ONLY`.
        report: Called with each comparison, also one without differences.
        failed: Called with the reason why a resource could not be compared.
        sleeper: Waits between attempts.
        settings: The period and the load.
    """

    def __init__(
        self,
        informers: Sequence[CacheReader],
        client: Client,
        report: Callable[[str, Drift], None],
        failed: Callable[[str, str], None],
        sleeper: Sleeper,
        settings: ComparerSettings | None = None,
    ) -> None:
        self._informers = informers
        self._client = client
        self._report = report
        self._failed = failed
        self._sleeper = sleeper
        self._settings = settings or ComparerSettings()

    async def run(self) -> None:
        """Compare every resource, round after round, until cancelled."""
        period = self._settings.period_seconds
        while True:
            await self._sleeper.sleep(period * (1 + self._sleeper.jitter()))
            for informer in self._informers:
                if informer.synced.is_set():
                    await self._check(informer)

    async def _check(self, informer: CacheReader) -> None:
        name = informer.resource.name
        try:
            drift = await self.compare(informer)
        except KubeError as error:
            self._failed(name, str(error))
            return
        self._report(name, drift)
        if drift:
            informer.relist()

    async def compare(self, informer: CacheReader) -> Drift:
        """Return the differences that an informer has missed.

        Raises:
            KubeError: The objects could not be listed.
        """
        before = informer.known()
        listed = await self._list(informer.resource)
        suspects = [
            key
            for key in before.keys() | listed.keys()
            if before.get(key) != listed.get(key) and not informer.unreadable(key)
        ]
        if not suspects:
            return Drift()
        await self._sleeper.sleep(self._settings.grace_seconds)
        now = informer.known()
        still = [key for key in suspects if now.get(key) == before.get(key)]
        missing = [key for key in still if key not in before]
        if missing:
            again = await self._list(informer.resource)
            now = informer.known()
            missing = [key for key in missing if key in again and key not in now]
        return Drift(
            missing=tuple(sorted(missing)),
            surplus=tuple(sorted(key for key in still if key not in listed)),
            stale=tuple(sorted(key for key in still if key in listed and key in before)),
        )

    async def _list(self, resource: ApiResource[Any]) -> dict[str, Known]:
        listed: dict[str, Known] = {}
        token = ""
        while True:
            try:
                page = await self._page(resource, token)
            except (NotFound, NotServed):
                if not resource.optional or await is_served(self._client, resource.path):
                    raise
                return {}
            listed |= {item.key: Known(item.uid, item.resource_version) for item in page.objects}
            token = page.metadata.continue_
            if not token:
                return listed
            await self._sleeper.sleep(self._settings.pause_seconds)

    async def _page(self, resource: ApiResource[Any], token: str) -> "_Page":
        query = {"limit": str(self._settings.page_objects)}
        if resource.field_selector:
            query["fieldSelector"] = resource.field_selector
        if token:
            query["continue"] = token
        path = f"{resource.path}?{urlencode(query)}"
        seconds = self._settings.answer_seconds
        request = Request("list", resource.name, "GET", path, answer_seconds=seconds)
        try:
            page = _PAGE.decode(await self._client.call(request))
        except UNREADABLE as error:
            raise Unreachable(f"cannot {request}: the response is not a list") from error
        check_list(page.kind, _METADATA_LIST, page.metadata.resource_version)
        return page


class _Item(msgspec.Struct, gc=False):
    metadata: Identity


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    kind: str
    metadata: _ListMetadata
    items: list[_Item] | None = None

    @property
    def objects(self) -> list[Identity]:
        return [item.metadata for item in self.items or ()]


_PAGE: Final = msgspec.json.Decoder(_Page)
