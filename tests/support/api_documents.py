"""Reads the documents of `/api/v1` of a cluster in memory."""

import json
from collections.abc import AsyncGenerator, Collection, Container
from typing import Any

import msgspec

from scheduler.observe.api.api import Api
from scheduler.observe.api.history import History
from scheduler.observe.api.requests import EVERY_NAME, ApiRequest, NameAccess
from tests.support.cluster import Cluster

__all__ = ["Documents", "Only"]


class Only:
    """The names of pods in some namespaces, and how often was asked."""

    def __init__(self, *namespaces: str) -> None:
        self._namespaces = frozenset(namespaces)

    async def visible(self, namespaces: Collection[str]) -> Container[str]:
        return self._namespaces & frozenset(namespaces)


class Documents:
    """A cluster with the history and the documents that the service adds to it."""

    def __init__(self, *objects: Any, policies: Any = (), **settings: Any) -> None:
        self.cluster = Cluster(compares=True, **settings)
        self.history = History(self.cluster.machine, self.cluster.now)
        self.cluster.history = self.history
        self.states = list(policies)
        self.api = Api(
            machine=self.cluster.machine,
            history=self.history,
            now=lambda: self.cluster.now,
            leads=lambda: True,
            policies=lambda: self.states,
            instance="it",
            profiles=("preemptive-scheduler",),
            started=self.cluster.now,
        )
        self.cluster.add(*objects)

    async def get(self, path: str, names: NameAccess = EVERY_NAME, **query: str) -> Any:
        """Return a document as JSON has it; `path` without its beginning, as `nodes/{name}`."""
        query = {name.rstrip("_"): value for name, value in query.items()}
        page = self.api.pages()[f"/api/v1/{path}" if path else "/api/v1"]
        content = await page(ApiRequest(query, names))
        if isinstance(content, AsyncGenerator):
            return json.loads(b"".join([part async for part in content]))
        return json.loads(msgspec.json.encode(content))
