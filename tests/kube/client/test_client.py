"""Requests, answers, credentials, and certificates of both sides."""

import ssl
from collections.abc import Mapping

import pytest

from scheduler.kube.auth import cluster_access
from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders, TokenFile
from scheduler.kube.client.backoff import ExponentialBackoff, Sleeper
from scheduler.kube.client.client import Client, Request
from scheduler.kube.client.rate_limiter import RateLimiter
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.errors import (
    ApiError,
    Conflict,
    ConnectionSettingsError,
    Forbidden,
    Gone,
    NotFound,
    ServerUnavailable,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from tests.kube.auth.test_cluster_access import kubeconfig
from tests.support.certificates import Authority
from tests.support.fake_api import FakeApi, Fault

LIST = Request("list", "pods", "GET", "/api/v1/pods")


async def test_a_request_is_answered_and_reported(client, api, heard):
    body = await client.call(LIST)

    assert b'"PodList"' in body
    assert heard.requests == [("list", "pods", "200")]
    assert api.requests[0].headers["User-Agent"] == "test"
    assert "gzip" not in api.requests[0].headers["Accept-Encoding"]


@pytest.mark.parametrize(
    ("status", "want"),
    [
        (400, ApiError),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, ApiError),
        (429, TooManyRequests),
        (500, ServerUnavailable),
        (503, ServerUnavailable),
        (504, ServerUnavailable),
    ],
)
async def test_a_refusal_is_classified(client, api, status, want):
    body = b'{"kind":"Status","reason":"Why","message":"because","code":1}'
    api.inject(Fault("GET", "/pods", status=status, body=body))

    with pytest.raises(ApiError) as raised:
        await client.call(LIST)

    assert type(raised.value) is want
    assert raised.value.status == status
    assert raised.value.reason == "Why"
    assert str(raised.value) == "cannot list pods: because"


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(b"<html>Bad Gateway", "<html>Bad Gateway", id="html"),
        pytest.param(b"", "HTTP status 502", id="nothing"),
        pytest.param(b'{"message": 7}', '{"message": 7}', id="wrong type"),
        pytest.param(b"\xff" * 1000, "\ufffd" * 200, id="no text"),
    ],
)
async def test_a_refusal_without_a_status_object(client, api, body, want):
    api.inject(Fault("GET", "/pods", status=502, body=body))

    with pytest.raises(ServerUnavailable) as raised:
        await client.call(LIST)

    assert str(raised.value) == f"cannot list pods: {want}"


@pytest.mark.parametrize(
    ("header", "want"),
    [
        ("0", 0.0),
        ("30", 30.0),
        ("100000", 60.0),
        ("-1", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        (None, None),
    ],
)
async def test_how_long_a_server_asks_to_wait(client, api, header, want):
    headers = {"Retry-After": header} if header else {}
    api.inject(Fault("GET", "/pods", status=429, headers=headers))

    with pytest.raises(TooManyRequests) as raised:
        await client.call(LIST)

    assert raised.value.retry_after == want


async def test_no_answer_in_time(client, api, heard):
    api.inject(Fault("GET", "/pods", hang=True))
    request = Request("list", "pods", "GET", "/api/v1/pods", answer_seconds=0.02)

    with pytest.raises(
        Unreachable, match=r"cannot list pods: no response within 0\.02 s"
    ) as raised:
        await client.call(request)

    assert raised.value.sent
    assert heard.requests == [("list", "pods", "unreachable")]


async def test_a_server_that_is_not_there_did_not_get_the_request(api, client):
    await api.stop()

    with pytest.raises(Unreachable, match="cannot list pods: ") as raised:
        await client.call(LIST)

    assert not raised.value.sent


# Credentials


async def test_a_swapped_token_is_read_when_the_old_one_is_refused(api, tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    api.tokens = {"old"}
    connected = ClusterAccess(api.url, TokenFile(path))
    async with HttpTransport(connected, "test") as transport:
        client = Client(transport)
        await client.call(LIST)

        path.write_text("new")
        api.tokens = {"new"}
        await client.call(LIST)
        async with client.stream(LIST, 1) as stream:
            assert stream.status == 200

    codes = [each.headers["Authorization"] for each in api.requests]
    assert codes == ["Bearer old", "Bearer old", "Bearer new", "Bearer new"]


async def test_a_watch_notices_a_refused_token_as_well(api, tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    connected = ClusterAccess(api.url, TokenFile(path))
    async with HttpTransport(connected, "test") as transport:
        client = Client(transport)
        await client.call(LIST)
        path.write_text("new")
        api.tokens = {"new"}

        async with client.stream(LIST, 1) as stream:
            assert stream.status == 200


async def test_a_token_is_read_again_before_it_expires(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    credentials = TokenFile(path)
    assert await credentials.headers() == {"Authorization": "Bearer old"}

    path.write_text("new")
    assert await credentials.headers() == {"Authorization": "Bearer old"}
    credentials._read_at -= 60  # type: ignore[operator]
    assert await credentials.headers() == {"Authorization": "Bearer new"}


async def test_the_last_token_stays_in_use_while_the_file_is_unreadable(tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    credentials = TokenFile(path)

    path.write_text("two\nlines")
    assert not credentials.on_unauthorized()
    path.unlink()
    assert await credentials.headers() == {"Authorization": "Bearer old"}


async def test_credentials_that_cannot_be_obtained_are_an_error(api):
    class Broken(FixedHeaders):
        async def headers(self) -> Mapping[str, str]:
            raise ConnectionSettingsError("no")

    async with HttpTransport(ClusterAccess(api.url, Broken()), "test") as transport:
        with pytest.raises(ConnectionSettingsError):
            await Client(transport).call(LIST)


async def test_both_sides_show_certificates(tmp_path):
    authority = Authority(tmp_path)
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "ca.crt")
    server_side.verify_mode = ssl.CERT_REQUIRED
    server_side.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    api = FakeApi()
    await api.start(server_side)
    cluster = {
        "server": api.url,
        "certificate-authority": authority.certificate.name,
        "tls-server-name": "kubernetes",
    }
    user = {"client-certificate": "client.crt", "client-key": "client.key"}

    known = cluster_access.load(kubeconfig(tmp_path, cluster, user), {})
    async with HttpTransport(known, "test") as transport:
        await Client(transport).call(LIST)
    unknown = cluster_access.load(
        kubeconfig(tmp_path, {**cluster, "tls-server-name": "other"}, user), {}
    )
    async with HttpTransport(unknown, "test") as transport:
        with pytest.raises(Unreachable, match="certificate"):
            await Client(transport).call(LIST)

    await api.stop()


# Pace


async def test_requests_above_the_burst_wait(waits):
    limiter = RateLimiter(qps=10, burst=2, sleep=waits.sleep)

    for _ in range(4):
        await limiter.acquire()

    assert waits.slept == pytest.approx([0.1, 0.2], abs=0.05)


def test_pauses_double_up_to_the_longest_and_begin_again():
    backoff = ExponentialBackoff(Sleeper(jitter=lambda: 0.0), initial=1, longest=5)

    assert [backoff.delay() for _ in range(5)] == [1, 2, 4, 5, 5]
    backoff.reset()
    assert backoff.delay() == 1


def test_jitter_shortens_a_pause_but_not_what_a_server_asked_for():
    backoff = ExponentialBackoff(Sleeper(jitter=lambda: 0.99), initial=1, longest=1)

    assert 0.5 <= backoff.delay() < 0.51
    assert 3 <= backoff.delay(at_least=3) < 3.75


async def test_a_stream_that_cannot_be_opened_is_a_failed_request(heard):
    watch = Request("watch", "pods", "GET", "/api/v1/pods?watch=true")
    nobody = ClusterAccess("http://127.0.0.1:1", FixedHeaders())

    async with HttpTransport(nobody, "test") as transport:
        with pytest.raises(Unreachable, match="cannot watch pods: ") as raised:
            async with Client(transport, heard).stream(watch, 1.0):
                pass

    assert not raised.value.sent
    assert heard.requests == [("watch", "pods", "unreachable")]


async def test_a_limited_client_waits(api, waits):
    async with HttpTransport(ClusterAccess(api.url, FixedHeaders()), "test") as transport:
        client = Client(transport, limiter=RateLimiter(1000, 1, waits.sleep))
        await client.call(LIST)
        await client.call(LIST)

    assert len(waits.slept) <= 1
