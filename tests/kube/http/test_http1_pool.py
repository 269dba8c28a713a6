"""HTTP/1.1: kept connections that are dead, old, or made with certificates that were replaced."""

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest

from scheduler.kube.auth import cluster_access
from scheduler.kube.client.client import Client, Request
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.errors import Unreachable
from scheduler.kube.http import connection, http1
from scheduler.kube.http.http1 import Http1, Reply
from scheduler.kube.http.tls import Tls
from tests.support.certificates import Authority
from tests.support.fake_api import FakeApi, pod
from tests.support.scripted_api import OK

LIST = Request("list", "pods", "GET", "/api/v1/pods")


async def get(http: Http1) -> Reply:
    return await http.send("GET", "/", {}, None)


async def kept(http: Http1, count: int) -> None:
    """Open so many idle connections."""
    await asyncio.gather(*(get(http) for _ in range(count)))


async def time_out(http: Http1) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.02):
            await get(http)


async def test_when_one_kept_connection_is_dead_no_other_is_tried(server, http):
    dead = asyncio.Event()
    server.script = [[OK, dead], [OK, dead], [OK, dead], [OK]]
    await kept(http, 3)

    await time_out(http)
    async with asyncio.timeout(10):
        reply = await get(http)

    dead.set()
    assert reply.body == b"ok"
    assert len(server.connections) == 4


async def test_a_post_that_is_overdue_reveals_dead_connections_too(server, http, monkeypatch):
    monkeypatch.setattr(http1, "OVERDUE_SECONDS", 0.01)
    dead = asyncio.Event()
    server.script = [[OK, dead], [OK, dead], [OK, dead], [OK]]
    await kept(http, 3)
    told: asyncio.Future[Reply | Unreachable] = asyncio.get_running_loop().create_future()

    assert http.dispatch("POST", "/", {}, b"{}", 0.02, told.set_result)
    assert isinstance(await told, Unreachable)
    async with asyncio.timeout(10):
        reply = await get(http)

    dead.set()
    assert reply.body == b"ok"
    assert len(server.connections) == 4


async def test_a_connection_that_answered_meanwhile_is_kept(server, http):
    dead, late = asyncio.Event(), asyncio.Event()
    server.script = [[OK, dead], [OK, late, OK, OK]]
    await kept(http, 2)
    both = [asyncio.create_task(time_out(http)) for _ in range(2)]
    await asyncio.sleep(0)

    late.set()
    await asyncio.gather(*both)
    await get(http)

    dead.set()
    assert [len(requests) for requests in server.connections] == [1, 3]


async def test_an_answer_that_began_shows_that_the_connection_is_alive(server, http):
    half, wait = OK[:-1], asyncio.Event()
    server.script = [[OK, half, wait], [OK, half, wait]]
    await kept(http, 2)

    await time_out(http)
    await time_out(http)

    wait.set()
    assert [len(requests) for requests in server.connections] == [2, 2]


async def test_an_old_connection_is_not_used_for_another_request(server, http, monkeypatch):
    monkeypatch.setattr(http1, "MAX_AGE_SECONDS", 0.0)
    server.script = [[OK, OK], [OK]]

    await get(http)
    await get(http)

    assert [len(requests) for requests in server.connections] == [1, 1]


@pytest.mark.parametrize("length", ["Content-Length: 9000000\r\n", ""], ids=["sized", "unsized"])
@pytest.mark.parametrize("status", ["200 OK", "404 Not Found"])
async def test_an_answer_that_is_too_large_is_refused(server, http, monkeypatch, status, length):
    monkeypatch.setattr(connection, "BUFFER_BYTES", 1000)
    monkeypatch.setattr(connection, "ANSWER_BYTES", 2000)
    head = f"HTTP/1.1 {status}\r\n{length}\r\n".encode()
    wait = asyncio.Event()
    server.script = [[head + b"x" * 100_000, wait]]

    with pytest.raises(Unreachable, match="too large"):
        async with asyncio.timeout(10):
            await get(http)
    wait.set()


NAMED = b"X-Named: " + b"v" * 40 + b"\r\n"
BEGUN = b"HTTP/1.1 200 OK\r\n"
CHUNKED = BEGUN + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"


@pytest.mark.parametrize(
    ("begin", "again", "problem"),
    [
        pytest.param(BEGUN, NAMED, "more than 1000 headers", id="many headers"),
        pytest.param(BEGUN + b"X-Long: ", b"v" * 1000, "bytes of headers", id="a long value"),
        pytest.param(BEGUN + b"X", b"n" * 1000, "bytes of headers", id="a long name"),
        pytest.param(b"HTTP/1.1 200 ", b"OK" * 500, "bytes of headers", id="a long reason"),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n", "bytes of headers", id="1xx"),
        pytest.param(
            b"", b"HTTP/1.1 103 Early Hints\r\n" + NAMED + b"\r\n", "1000 headers", id="1xx named"
        ),
        pytest.param(CHUNKED, NAMED, "more than 1000 headers", id="trailers"),
        pytest.param(CHUNKED + b"X-Long: ", b"v" * 1000, "bytes of headers", id="a long trailer"),
    ],
)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_headers_without_an_end_are_refused(server, http, begin, again, problem, is_stream):
    wait = asyncio.Event()
    server.script = [[begin + again * (3 * 2**20 // len(again)), wait]]

    async def read() -> None:
        incoming = await http.stream("/", {}, 5.0)
        while await incoming.read():
            pass

    with pytest.raises(Unreachable, match=problem):
        async with asyncio.timeout(5):
            await (read() if is_stream else get(http))
    wait.set()


async def test_an_answer_without_a_length_is_not_whole_when_the_client_closes_its_connection(
    server, http
):
    wait = asyncio.Event()
    server.script = [[OK, b"HTTP/1.1 200 OK\r\n\r\nhalf", wait]]
    await kept(http, 1)
    told: asyncio.Future[Reply | Unreachable] = asyncio.get_running_loop().create_future()
    assert http.dispatch("POST", "/", {}, b"{}", 10.0, told.set_result)
    posted_on = next(iter(http._busy))
    async with asyncio.timeout(10):
        while not posted_on._answer.begun:
            await asyncio.sleep(0)

    await http.close()

    assert isinstance(await told, Unreachable)
    wait.set()


# Certificates that are replaced


def serving(authority: Authority, *, clients: bool = False) -> ssl.SSLContext:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    tls.load_cert_chain(authority.folder / "server.crt", authority.folder / "server.key")
    if clients:
        tls.verify_mode = ssl.CERT_REQUIRED
    return tls


def account(authority: Authority, folder: Path) -> None:
    """Put the authority into the folder of a ServiceAccount, or replace it there."""
    new = folder / "ca.new"
    new.write_bytes(authority.certificate.read_bytes())
    new.replace(folder / "ca.crt")


async def test_a_renewed_authority_is_trusted_at_the_next_connection(tmp_path):
    (tmp_path / "token").write_text("t")
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    account(old, tmp_path)
    first, second = FakeApi(), FakeApi()
    await first.start(serving(old))
    port = first.url.rpartition(":")[2]
    pod_environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
    where = cluster_access.from_pod(pod_environment, tmp_path)
    where = cluster_access.ClusterAccess(
        where.server, where.credentials, where.secured, "kubernetes"
    )

    async with HttpTransport(where, "test") as transport:
        client = Client(transport)
        await client.call(LIST)
        await first.stop()
        await second.start(serving(new), int(port))
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await client.call(LIST)
        account(new, tmp_path)
        second.store.put("pods", pod("a"))
        assert b'"a"' in await client.call(LIST)
    await second.stop()


async def test_after_a_look_at_renewed_files_no_old_connection_is_used(tmp_path):
    authority = Authority(tmp_path)
    api = FakeApi()
    await api.start(serving(authority))
    looks = []
    tls = Tls(lambda: looks.append(1) or trusting(authority), [authority.certificate])
    http = Http1(api.url, tls, "kubernetes", {})
    await http.send("GET", "/api/v1/pods", {}, None)
    before = set(http._idle)

    account(authority, tmp_path)
    assert http.renew()
    await http.send("GET", "/api/v1/pods", {}, None)

    assert len(looks) == 2
    assert not before & set(http._idle)
    await http.close()
    await api.stop()


async def test_half_of_a_new_pair_of_files_changes_nothing(tmp_path):
    authority, other = Authority(tmp_path / "a"), Authority(tmp_path / "b")
    files = (authority.client_certificate, authority.client_key)

    def make() -> ssl.SSLContext:
        context = trusting(authority)
        context.load_cert_chain(*files)
        return context

    tls = Tls(make, files)
    before = tls.context

    files[0].write_bytes(other.client_certificate.read_bytes())
    tls.refresh()
    assert tls.context is before
    files[1].write_bytes(other.client_key.read_bytes())
    tls.refresh()
    assert tls.context is not before
    assert tls.generation == 1


async def test_a_refused_certificate_is_read_again(tmp_path):
    authority = Authority(tmp_path)
    api = FakeApi()
    await api.start(serving(authority))
    api.tokens = set()  # whatever is shown, the answer is 401
    made = []
    tls = Tls(lambda: made.append(1) or trusting(authority), [authority.client_certificate])
    where = cluster_access.ClusterAccess(
        api.url, cluster_access.kubeconfig.FixedHeaders(), tls, "kubernetes"
    )
    async with HttpTransport(where, "test") as transport:
        await transport.send("GET", "/api/v1/pods", None, "")
        authority.client_certificate.touch()
        reply = await transport.send("GET", "/api/v1/pods", None, "")

    assert reply.status == 401
    assert len(api.requests) == 3
    assert len(made) == 2
    await api.stop()


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.certificate))


async def test_another_protocol_is_no_answer(server, http):
    switching = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
    wait = asyncio.Event()
    server.script = [[switching, wait]]

    with pytest.raises(Unreachable, match="another protocol"):
        async with asyncio.timeout(10):
            await get(http)
    wait.set()


def test_https_is_refused_without_tls_settings():
    with pytest.raises(ValueError, match="https needs TLS settings"):
        Http1("https://localhost", None, None, {})
