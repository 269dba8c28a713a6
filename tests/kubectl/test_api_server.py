"""Requests to the API server: proxies of the environment, and no passwords from elsewhere."""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from scheduler.kube.auth import kubeconfig
from scheduler.kube.errors import Unreachable
from scheduler.kubectl.api_server import ApiServer
from scheduler.kubectl.errors import CommandError
from tests.support.scripted_api import OK, Server
from tests.support.stand_in_documents import NOW


@contextlib.asynccontextmanager
async def closing(api: ApiServer) -> AsyncIterator[ApiServer]:
    try:
        yield api
    finally:
        await api.close()


def api_server(folder: Path, server: str, **user: str) -> ApiServer:
    path = folder / "kubeconfig"
    content = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return ApiServer(kubeconfig.select((path,), "", lambda: NOW))


@pytest.mark.parametrize("entry", ["machine 127.0.0.1", "default"])
@pytest.mark.parametrize("user", [{}, {"token": "mine"}], ids=["no token", "token"])
async def test_passwords_of_netrc_are_not_sent(tmp_path, monkeypatch, entry, user):
    (tmp_path / ".netrc").write_text(f"{entry} login me password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    server = Server()
    server.script = [[OK.replace(b"ok", b"{}")]]
    await server.start()

    async with closing(api_server(tmp_path, server.url, **user)) as api:
        assert await api.get("/version", "version", "") == {}

    ((request,),) = server.connections
    sent = [line for line in request.split(b"\r\n") if line.startswith(b"Authorization")]
    assert sent == ([b"Authorization: Bearer mine"] if user else [])
    await server.stop()


PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("server", "environment", "proxy"),
    [
        pytest.param("https://a.example", {"HTTPS_PROXY": PROXY}, PROXY, id="https"),
        pytest.param("https://a.example", {"https_proxy": PROXY}, PROXY, id="in lower case"),
        pytest.param("https://a.example", {"HTTPS_PROXY": PROXY[7:]}, PROXY, id="without a scheme"),
        pytest.param("https://a.example", {"HTTP_PROXY": PROXY}, None, id="of another scheme"),
        pytest.param("http://a.example", {"HTTP_PROXY": PROXY}, PROXY, id="http"),
        pytest.param("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, None, id="loopback"),
        pytest.param("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, None, id="loopback, IPv6"),
        pytest.param("https://localhost:6443", {"HTTPS_PROXY": PROXY}, None, id="localhost"),
        *(
            pytest.param(
                server, {"HTTPS_PROXY": PROXY, "NO_PROXY": excluded}, proxy, id=f"not {excluded}"
            )
            for server, excluded, proxy in [
                ("https://a.example", "b.example, a.example", None),
                ("https://x.a.example", ".a.example", None),
                ("https://xa.example", "a.example", PROXY),
                ("https://a.example:6443", "a.example:443", PROXY),
                ("https://a.example", "*", None),
                ("https://10.1.2.3:6443", "10.0.0.0/8", None),
                ("https://10.1.2.3:6443", "10.1.2.3", None),
                ("https://11.1.2.3:6443", "10.0.0.0/8,fd00::/8", PROXY),
                ("https://[fd00::1]:6443", "fd00::/8", None),
            ]
        ),
    ],
)
def test_the_proxy_of_the_environment_is_used(tmp_path, monkeypatch, server, environment, proxy):
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert api_server(tmp_path, server)._settings["proxy"] == proxy


async def test_requests_go_through_the_proxy(tmp_path, monkeypatch):
    server = Server()
    server.script = [[OK.replace(b"ok", b"{}")]]
    await server.start()
    monkeypatch.setenv("HTTP_PROXY", server.url.replace("127.0.0.1", "me:pass@127.0.0.1"))

    async with closing(api_server(tmp_path, "http://a.example")) as api:
        assert await api.get("/version", "version", "") == {}

    ((request,),) = server.connections
    assert request.startswith(b"GET http://a.example/version HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic bWU6cGFzcw==" in request
    await server.stop()


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "http://[::1", "http://a b", "://"])
async def test_a_proxy_that_cannot_be_used_is_an_error(tmp_path, monkeypatch, proxy):
    monkeypatch.setenv("HTTP_PROXY", proxy)

    async with closing(api_server(tmp_path, "http://a.example")) as api:
        with pytest.raises(CommandError, match=r"the API server .* cannot be reached"):
            await api.get("/version", "version", "")
        with pytest.raises(Unreachable):
            await api.tunnel("/forward")
