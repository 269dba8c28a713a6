"""Watches policies on a fake API server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.policies.policy_informer import PolicyInformer, PolicySettings
from scheduler.model.events import Event, PolicyGone, PolicyObserved
from scheduler.model.policies import PolicyFigures
from tests.kube.fixtures import NOW, Heard
from tests.support.fake_api import FakeApi


@dataclass
class Told(Heard):
    """An observer that records reports about policies, too."""

    policies: list[str] = field(default_factory=list)

    def policy_changed(self, name: str, verdict: str, detail: str) -> None:
        self.policies.append(f"{name} {verdict}")


@dataclass
class Surroundings:
    """The sink of policies, and their callbacks."""

    events: list[Event] = field(default_factory=list)
    leads: bool = True
    figures: dict[str, PolicyFigures] = field(default_factory=dict)

    def in_force(self) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for event in self.events:
            if isinstance(event, PolicyObserved):
                found[event.policy.name] = event.policy.max_victims_per_preemption
            elif isinstance(event, PolicyGone):
                del found[event.name]
        return found


@pytest.fixture
def heard() -> Told:
    return Told()


@pytest.fixture
def around() -> Surroundings:
    return Surroundings()


#: Starts policies, with settings; a list follows another after a moment unless `period` is given.
Begin = Callable[..., Coroutine[Any, Any, PolicyInformer]]


@pytest.fixture
async def begin(api: FakeApi, client: Client, around: Surroundings) -> AsyncIterator[Begin]:
    running = []

    async def start(
        token: str = "", sleeper: Sleeper | None = None, period: float = 0.05, **settings: Any
    ) -> PolicyInformer:
        credentials = FixedHeaders(token)
        policies = PolicyInformer(
            client,
            around.events.extend,
            sleeper or Sleeper(jitter=lambda: 0.0),
            PolicySettings(
                where=ClusterAccess(api.url, credentials),
                user_agent="test",
                may_write=lambda: around.leads,
                figures=lambda: around.figures,
                wall=lambda: NOW,
                period_seconds=period,
                **settings,
            ),
        )
        running.append(asyncio.create_task(policies.run()))
        return policies

    yield start
    for task in running:
        task.cancel()
    for result in await asyncio.gather(*running, return_exceptions=True):
        assert isinstance(result, asyncio.CancelledError), result
