"""The connection for policies: TLS, credentials, and defects of the receiver."""

import asyncio
import contextlib
import ssl

import pytest

from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.http.tls import Tls
from scheduler.kube.policies.policy_informer import PolicyInformer, PolicySettings
from scheduler.model.events import Event, PolicyGone
from tests.kube.fixtures import NOW
from tests.support.certificates import Authority
from tests.support.fake_api import FakeApi
from tests.support.stored_policies import (
    KIND,
    ONE,
    put,
    said,
    until,
)


async def test_kopf_talks_to_no_server_that_is_not_verified(around, client, heard, tmp_path):
    authority = Authority(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(authority.folder / "server.crt", authority.folder / "server.key")
    secure = FakeApi()
    await secure.start(tls)
    settings = PolicySettings(
        where=ClusterAccess(
            secure.url, FixedHeaders("very-secret"), Tls(ssl.create_default_context)
        ),
        user_agent="test",
        may_write=lambda: True,
        figures=dict,
        wall=lambda: NOW,
        period_seconds=0.05,
    )
    policies = PolicyInformer(client, around.events.extend, Sleeper(jitter=lambda: 0.0), settings)
    running = asyncio.create_task(policies.run())
    await until(lambda: any("certificate" in each.lower() for each in heard.interruptions))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await secure.stop()

    assert secure.requests == []


async def test_a_defect_of_the_sink_ends_it(api, client):
    def sink(events: list[Event]) -> None:
        if any(isinstance(event, PolicyGone) for event in events):
            raise ValueError("a defect")

    put(api, ONE, 1)
    settings = PolicySettings(
        where=ClusterAccess(api.url, FixedHeaders()),
        user_agent="test",
        may_write=lambda: False,
        figures=dict,
        wall=lambda: NOW,
        period_seconds=60.0,
    )
    policies = PolicyInformer(client, sink, Sleeper(jitter=lambda: 0.0), settings)
    running = asyncio.create_task(policies.run())
    await until(lambda: api.watches)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # it is logged there, too

    api.store.remove(KIND, "p")

    with pytest.raises(ExceptionGroup, match="unhandled errors") as caught:
        await asyncio.wait_for(running, 15)
    assert caught.group_contains(ValueError, match="a defect")


async def test_it_authenticates_as_the_scheduler_does(api, begin, around):
    api.tokens = {"secret"}
    put(api, ONE, 1)
    transport = HttpTransport(ClusterAccess(api.url, FixedHeaders("secret")), "test")
    async with transport:
        policies = PolicyInformer(
            Client(transport),
            around.events.extend,
            Sleeper(jitter=lambda: 0.0),
            PolicySettings(
                where=ClusterAccess(api.url, Rotating()),
                user_agent="test",
                may_write=lambda: True,
                figures=dict,
                wall=lambda: NOW,
            ),
        )
        running = asyncio.create_task(policies.run())
        await until(lambda: said(api) == ("True", 1))
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    agents = {each.headers["User-Agent"] for each in api.requests}
    assert agents == {"test"}


class Rotating:
    """A token that has expired; only the server's refusal shows it."""

    def __init__(self) -> None:
        self.token = "expired"

    async def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def cached_headers(self) -> None:
        return None

    def on_unauthorized(self) -> bool:
        before, self.token = self.token, "secret"
        return before != self.token
