"""Logins that are issued for a while: once for all requests that wait, early, and never by half."""

import asyncio
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.kube.auth import cluster_access, exec_plugin
from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credential_plugins import Issued, LoginCommand
from scheduler.kube.client.client import Client, Request
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.errors import ConnectionSettingsError
from scheduler.kube.http.tls import Tls, client_context
from tests.support.certificates import Authority
from tests.support.fake_api import FakeApi

LIST = Request("list", "pods", "GET", "/api/v1/pods")
V1 = "client.authentication.k8s.io/v1"


class Issuer:
    """Issues t1, t2 and so on, each when it is let."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self.runs = 0
        self.problem: Exception | None = None
        self.open = threading.Event()
        self.open.set()

    def __call__(self, refused: bool) -> Issued:
        self.runs += 1
        assert self.open.wait(5)
        if self.problem is not None:
            raise self.problem
        return Issued(f"t{self.runs}", seconds=self.seconds)


def token(headers: Any) -> str:
    return str(headers["Authorization"]).removeprefix("Bearer ")


async def tokens(login: LoginCommand, count: int) -> list[str]:
    return [token(each) for each in await asyncio.gather(*(login.headers() for _ in range(count)))]


async def test_no_request_is_sent_without_credentials():
    issuer = Issuer()
    login = LoginCommand(issuer, "here")

    assert await tokens(login, 20) == ["t1"] * 20
    assert issuer.runs == 1


async def test_all_requests_that_wait_share_one_refresh():
    issuer = Issuer()
    login = LoginCommand(issuer, "here")
    refused = await login.headers()

    for _ in range(20):
        assert login.on_unauthorized(refused)

    assert login.cached_headers() is None
    assert await tokens(login, 20) == ["t2"] * 20
    assert issuer.runs == 2


async def test_refusals_of_a_token_that_was_replaced_meanwhile_are_ignored():
    issuer = Issuer()
    login = LoginCommand(issuer, "here")
    old = await login.headers()
    login.on_unauthorized(old)
    await login.headers()

    assert login.on_unauthorized(old)

    assert token(await login.headers()) == "t2"
    assert issuer.runs == 2


async def test_a_request_that_stops_waiting_does_not_end_a_refresh():
    issuer = Issuer()
    login = LoginCommand(issuer, "here")
    login.on_unauthorized()
    issuer.open.clear()

    for _ in range(8):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await login.headers()
    issuer.open.set()

    assert token(await login.headers()) == "t2"
    assert issuer.runs == 2


async def test_a_login_is_refreshed_before_it_expires_and_no_request_waits():
    issuer = Issuer(seconds=1000.0)
    login = LoginCommand(issuer, "here")
    assert token(await login.headers()) == "t1"

    login._early_at = 0.0
    issuer.open.clear()
    assert token(login.cached_headers()) == "t1"
    assert token(await login.headers()) == "t1"
    issuer.open.set()
    async with asyncio.timeout(10):
        while token(await login.headers()) == "t1":
            await asyncio.sleep(0.001)

    assert issuer.runs == 2


async def test_an_expired_login_is_not_used():
    issuer = Issuer(seconds=0.0)
    login = LoginCommand(issuer, "here")

    assert login.cached_headers() is None
    issuer.seconds = None
    assert token(await login.headers()) == "t2"


@pytest.mark.parametrize(
    "problem", [ConnectionSettingsError("no"), yaml.YAMLError("half"), KeyError("user"), OSError(9)]
)
async def test_any_error_of_a_refresh_is_raised_and_retried(problem):
    issuer = Issuer()
    login = LoginCommand(issuer, "here")
    login.on_unauthorized()
    issuer.problem = problem

    for _ in range(2):
        with pytest.raises(ConnectionSettingsError):
            await login.headers()
    issuer.problem = None

    assert token(await login.headers()) == "t4"


async def test_requests_that_were_refused_together_are_sent_again_with_one_new_token(api):
    issuer = Issuer()
    login = LoginCommand(issuer, "here")
    api.tokens = {"t2"}
    async with HttpTransport(ClusterAccess(api.url, login), "test") as transport:
        client = Client(transport)
        await asyncio.gather(*(client.call(LIST) for _ in range(20)))

    assert issuer.runs == 2
    assert {each.headers["Authorization"] for each in api.requests} == {"Bearer t1", "Bearer t2"}


# Commands


def load(
    folder: Path,
    exec_entry: dict[str, Any],
    wall: Callable[[], float] = float,
    **cluster: Any,
) -> ClusterAccess:
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://localhost:1", **cluster}}],
        "users": [{"name": "u", "user": {"exec": exec_entry}}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(content))
    return cluster_access.load(path, {}, wall=wall)


def printing(status: dict[str, Any], version: str = V1, **entry: Any) -> dict[str, Any]:
    said = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    return {"apiVersion": V1, "command": "/bin/echo", "args": [said], **entry}


async def test_a_command_in_the_folder_of_the_kubeconfig_gets_the_cluster_info(tmp_path):
    script = tmp_path / "login"
    script.write_text(
        "#!/bin/sh\n"
        f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/told\n'
        f'echo \'{{"apiVersion": "{V1}", "kind": "ExecCredential", \'\n'
        'echo "\\"status\\": {\\"token\\": \\"$MINE\\"}}"\n'
    )
    script.chmod(0o755)
    entry = {
        "apiVersion": V1,
        "command": "./login",
        "env": [{"name": "MINE", "value": "secret"}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}

    found = load(tmp_path, entry, extensions=[extension])

    assert token(await found.credentials.headers()) == "secret"
    assert json.loads((tmp_path / "told").read_text()) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {"server": "https://localhost:1", "config": {"audience": "x"}},
        },
    }


async def test_a_certificate_that_a_command_issues_is_shown_and_renewed(tmp_path):
    authority = Authority(tmp_path)
    status = {
        "clientCertificateData": authority.client_certificate.read_text(),
        "clientKeyData": authority.client_key.read_text(),
    }
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "ca.crt")
    server_side.verify_mode = ssl.CERT_REQUIRED
    server_side.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    api = FakeApi()
    await api.start(server_side)
    said = tmp_path / "said"
    said.write_text(json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status}))
    found = load(
        tmp_path,
        {"apiVersion": V1, "command": "/bin/cat", "args": [str(said)]},
        server=api.url,
        **{"certificate-authority": "ca.crt", "tls-server-name": "kubernetes"},
    )
    async with HttpTransport(found, "test") as transport:
        await Client(transport).call(LIST)
    await api.stop()
    before = found.tls

    other = Authority(tmp_path / "other")
    status = {
        "clientCertificateData": other.client_certificate.read_text(),
        "clientKeyData": other.client_key.read_text(),
    }
    said.write_text(json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status}))
    found.credentials.on_unauthorized()
    assert await found.credentials.headers() == {}

    assert found.tls is not before


async def test_after_a_401_another_certificate_is_shown_at_once(tmp_path):
    pairs = [Authority(tmp_path / name) for name in ("a", "b")]
    api = FakeApi()
    await api.start(serving(pairs[0]))
    api.tokens = set()  # whatever is shown, the answer is 401

    def issue(_refused: bool) -> Issued:
        pair = pairs.pop(0)
        return Issued("", pair.client_certificate.read_bytes(), pair.client_key.read_bytes())

    authority = pairs[0].certificate
    login = LoginCommand(issue, "here")
    tls = Tls(lambda: client_context(authority))
    login.on_certificate = tls.remake
    where = ClusterAccess(api.url, login, tls, "kubernetes")
    async with HttpTransport(where, "test") as transport:
        await transport.send("GET", "/api/v1/pods", None, "")

        assert len(api.requests) == 2
        assert tls.generation == 1
        assert transport._http._connections == 2
    await api.stop()


def serving(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.folder / "server.crt", authority.folder / "server.key")
    return context


@pytest.mark.parametrize(
    ("entry", "want"),
    [
        pytest.param({}, "missing required field `command`", id="nothing"),
        pytest.param({"command": "x", "apiVersion": "v7"}, "'v7' is not supported", id="version"),
        pytest.param(
            {"command": "no-such-command", "apiVersion": V1, "installHint": "get it\nat x"},
            "no-such-command: No such file or directory; get it at x",
            id="no command",
        ),
        pytest.param(
            {"command": "/bin/sh", "args": ["-c", "echo why >&2; exit 3"], "apiVersion": V1},
            "exec: /bin/sh failed with exit code 3: why",
            id="fails",
        ),
        pytest.param(
            {"command": "/bin/echo", "args": ["hello"], "apiVersion": V1}, "malformed", id="no JSON"
        ),
        pytest.param(printing({}), "neither a token nor a certificate", id="empty"),
        pytest.param(printing({"token": "a\nb"}), "cannot be sent in a header", id="two lines"),
        pytest.param(printing({}, "other"), "expected an ExecCredential", id="another version"),
        pytest.param(
            printing({"token": "t", "expirationTimestamp": "1970-01-01T00:10:00"}),
            "expirationTimestamp has no time zone",
            id="no zone",
        ),
        pytest.param(
            printing({"clientCertificateData": "x"}), "are needed together", id="half a pair"
        ),
        pytest.param(
            printing({"token": "t"}, interactiveMode="Always"), "no terminal", id="interactive"
        ),
    ],
)
def test_a_command_without_a_login_is_reported_in_one_line(tmp_path, entry, want):
    with pytest.raises(ConnectionSettingsError, match=want) as raised:
        load(tmp_path, entry)

    assert str(raised.value).startswith(f"kubeconfig {tmp_path / 'config'}: ")
    assert "\n" not in str(raised.value)


def test_a_command_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(exec_plugin, "COMMAND_SECONDS", 0.05)
    entry = {"apiVersion": V1, "command": "/bin/sleep", "args": ["10"], "interactiveMode": "Never"}

    with pytest.raises(ConnectionSettingsError, match=r"/bin/sleep timed out after 0\.05 s"):
        load(tmp_path, entry)
