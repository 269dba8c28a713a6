"""Address and credentials of the API server."""

import base64
import ssl
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization

from scheduler.kube.auth import cluster_access
from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders
from scheduler.kube.errors import ConnectionSettingsError
from tests.support.certificates import Authority

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any] | None) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "other", "cluster": {"server": "https://other"}},
            {"name": "c", "cluster": {"server": "https://localhost:6443/", **cluster}},
        ],
        "users": [{"name": "u", "user": user}],
        "preferences": {},
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(content))
    return path


async def authorization(found: ClusterAccess) -> str:
    return (await found.credentials.headers()).get("Authorization", "")


async def test_certificates_as_files_next_to_the_kubeconfig(tmp_path, authority):
    authority.copy_to(tmp_path)

    found = cluster_access.load(
        kubeconfig(
            tmp_path,
            {"certificate-authority": "ca.crt"},
            {"client-certificate": "client.crt", "client-key": "client.key"},
        ),
        {},
    )

    assert found.server == "https://localhost:6443"
    assert found.tls is not None
    assert len(found.tls.get_ca_certs()) == 1
    assert await authorization(found) == ""


async def test_certificates_inline(tmp_path, authority):
    found = cluster_access.load(
        kubeconfig(
            tmp_path,
            {
                "certificate-authority-data": inline(authority.certificate),
                "tls-server-name": "kubernetes",
            },
            {
                "client-certificate-data": inline(authority.client_certificate),
                "client-key-data": inline(authority.client_key),
            },
        ),
        {},
    )

    assert found.tls is not None
    assert len(found.tls.get_ca_certs()) == 1
    assert found.tls.verify_mode == ssl.CERT_REQUIRED
    assert found.tls_server_name == "kubernetes"


async def test_a_token(tmp_path):
    found = cluster_access.load(
        kubeconfig(tmp_path, {"insecure-skip-tls-verify": True}, {"token": "secret"}), {}
    )

    assert await authorization(found) == "Bearer secret"
    assert not found.credentials.on_unauthorized()
    assert found.tls is not None
    assert found.tls.verify_mode == ssl.CERT_NONE


async def test_a_token_file(tmp_path):
    (tmp_path / "token").write_text("first\n")

    found = cluster_access.load(kubeconfig(tmp_path, {}, {"tokenFile": "token"}), {})

    assert await authorization(found) == "Bearer first"


async def test_a_token_file_is_preferred_to_a_literal_token(tmp_path):
    (tmp_path / "token").write_text("fresh")

    found = cluster_access.load(
        kubeconfig(tmp_path, {}, {"tokenFile": "token", "token": "stale"}), {}
    )
    other = cluster_access.load(
        kubeconfig(tmp_path, {}, {"tokenFile": "none", "token": "stale"}), {}
    )

    assert await authorization(found) == "Bearer fresh"
    assert await authorization(other) == "Bearer stale"


def test_an_encrypted_key_is_refused_and_no_passphrase_is_asked_for(tmp_path, authority):
    authority.copy_to(tmp_path)
    encrypted = serialization.load_pem_private_key(
        authority.client_key.read_bytes(), None
    ).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (tmp_path / "client.key").write_bytes(encrypted)
    user = {"client-certificate": "client.crt", "client-key": "client.key"}

    with pytest.raises(ConnectionSettingsError, match="the key is encrypted"):
        cluster_access.load(kubeconfig(tmp_path, {}, user), {})


def test_inline_keys_are_never_written_to_a_disk(tmp_path, authority, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "there is none"))
    user = {
        "client-certificate-data": inline(authority.client_certificate),
        "client-key-data": inline(authority.client_key),
    }

    found = cluster_access.load(kubeconfig(tmp_path, {}, user), {})

    assert found.tls is not None


async def test_a_kubeconfig_without_credentials(tmp_path):
    found = cluster_access.load(kubeconfig(tmp_path, {"server": "http://localhost:8001"}, None), {})

    assert await authorization(found) == ""
    assert found.tls is None


@pytest.mark.parametrize(
    ("cluster", "user", "want"),
    [
        pytest.param({"server": "localhost:6443"}, {}, "is not an http or https URL", id="no URL"),
        pytest.param({"server": "https://h:99999"}, {}, "out of range", id="no port"),
        pytest.param({"server": "https://h:https"}, {}, "Port could not", id="port is a word"),
        pytest.param({"server": "http://h:0"}, {}, "port 0 cannot be", id="port 0"),
        pytest.param({"server": "https://a..b"}, {}, "not the name of a host", id="empty label"),
        pytest.param({"server": f"https://{'a' * 70}.com"}, {}, "of a host", id="long label"),
        pytest.param({"server": "https://h/k8s/\u0142"}, {}, "must be escaped", id="letters"),
        pytest.param({"server": "https://b\u00fccher"}, {}, "ASCII: xn--bcher-kva", id="script"),
        pytest.param({"server": "https://h/a b"}, {}, "must be escaped", id="space"),
        pytest.param({"server": "https://h/?x=y"}, {}, "only host, port and path", id="query"),
        pytest.param({"server": "https://u:p@h"}, {}, "only host, port and path", id="password"),
        pytest.param({"tls-server-name": ".x"}, {}, "tls-server-name '.x'", id="TLS name"),
        pytest.param({}, {"token": "ab\u0142"}, "cannot be sent in a header", id="odd token"),
        pytest.param({"server": 7}, {}, "clusters[1].cluster.server", id="wrong type"),
        pytest.param({"proxy-url": "http://p"}, {}, "proxy-url is not supported", id="proxy"),
        pytest.param({}, {"username": "u"}, "username is not supported", id="password"),
        pytest.param({}, {"as": "u"}, "as is not supported", id="impersonation"),
        pytest.param({}, {"as-uid": "7"}, "as-uid is not supported", id="uid"),
        pytest.param({}, {"as-groups": ["g"]}, "as-groups is not supported", id="groups"),
        pytest.param({}, {"as-user-extra": {"a": ["b"]}}, "as-user-extra is not", id="extra"),
        pytest.param({}, {"tokenFile": "none"}, "No such file", id="no token file"),
        pytest.param(
            {"certificate-authority-data": "eA==", "insecure-skip-tls-verify": True},
            {},
            "certificate-authority with insecure-skip-tls-verify is not allowed",
            id="an authority that would not be used",
        ),
        pytest.param({}, {"client-certificate": "c"}, "are needed together", id="no key"),
        pytest.param(
            {}, {"client-certificate": "c", "client-key": "k"}, "No such file", id="no files"
        ),
        pytest.param({"certificate-authority": "none"}, {}, "No such file", id="no authority"),
        pytest.param(
            {"certificate-authority-data": "%"}, {}, "is not base64", id="authority not base64"
        ),
        pytest.param(
            {"certificate-authority-data": inline(Path(__file__))},
            {},
            "certificate-authority",
            id="authority not a certificate",
        ),
    ],
)
def test_unusable_settings_are_reported_in_one_line(tmp_path, cluster, user, want):
    path = kubeconfig(tmp_path, cluster, user)

    with pytest.raises(ConnectionSettingsError) as raised:
        cluster_access.load(path, {})

    assert want in str(raised.value)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith((f"kubeconfig {path}: ", "token file "))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", "names no current context", id="empty"),
        pytest.param("current-context: x", "has no context 'x'", id="no context"),
        pytest.param("a: [", "is not YAML", id="not YAML"),
        pytest.param("- a", "Expected `object`", id="a list"),
    ],
)
def test_an_unusable_kubeconfig(tmp_path, text, want):
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(ConnectionSettingsError, match=want):
        cluster_access.load(path, {})


async def test_a_pod_knows_its_server(tmp_path, authority):
    authority.copy_to(tmp_path)
    (tmp_path / "token").write_text("mine")

    found = cluster_access.load(None, POD, tmp_path)

    assert found.server == "https://10.0.0.1:443"
    assert await authorization(found) == "Bearer mine"
    assert found.tls is not None


@pytest.mark.parametrize("environment", [{}, POD], ids=["no pod", "no ServiceAccount"])
def test_without_a_pod_a_kubeconfig_is_needed(tmp_path, environment):
    with pytest.raises(ConnectionSettingsError, match="no kubeconfig was given"):
        cluster_access.load(None, environment, tmp_path / "none")


def test_a_pod_without_a_readable_authority(tmp_path):
    with pytest.raises(ConnectionSettingsError, match=r"ca\.crt: No such file"):
        cluster_access.load(None, POD, tmp_path)


async def test_a_login_command_is_run(tmp_path):
    calls = tmp_path / "calls"
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/bin/sh",
        "args": [
            "-c",
            f"echo x >> {calls}; n=$(wc -l < {calls}); echo "
            '\'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
            '"status":{"token":"t\'$n\'"}}\'',
        ],
        "interactiveMode": "Never",
    }

    found = cluster_access.load(kubeconfig(tmp_path, {}, {"exec": command}), {})

    assert await authorization(found) == "Bearer t1"
    assert await authorization(found) == "Bearer t1"
    assert found.credentials.on_unauthorized()
    assert await authorization(found) == "Bearer t2"
    assert await authorization(found) == "Bearer t2"


def test_a_login_command_that_fails(tmp_path):
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false"}
    path = kubeconfig(tmp_path, {}, {"exec": {**command, "interactiveMode": "Never"}})

    with pytest.raises(ConnectionSettingsError, match="exec: /bin/false failed with exit code 1"):
        cluster_access.load(path, {})


def test_no_https_without_tls_settings():
    with pytest.raises(ConnectionSettingsError, match="https needs TLS settings"):
        ClusterAccess("HTTPS://localhost", FixedHeaders())


@pytest.mark.parametrize(
    ("server", "environment", "want"),
    [
        pytest.param("http://h", {"http_proxy": "p"}, ["http_proxy"], id="http"),
        pytest.param("http://h", {"HTTPS_PROXY": "p"}, [], id="for another scheme"),
        pytest.param("http://h", {"HTTP_PROXY": ""}, [], id="empty"),
    ],
)
def test_proxies_that_are_not_used_are_named(server, environment, want):
    where = ClusterAccess(server, FixedHeaders())

    assert cluster_access.unused_proxies(where, environment) == want
