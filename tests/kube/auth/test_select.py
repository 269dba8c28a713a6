"""Several kubeconfig files, merged as kubectl merges them, and one context of them."""

import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.kube.auth import kubeconfig
from scheduler.kube.errors import ConnectionSettingsError
from tests.support.certificates import Authority


def write(path: Path, current: str = "", **named: Any) -> Path:
    """Write a file with a cluster, a user and a context of each name."""
    content: dict[str, Any] = {"clusters": [], "users": [], "contexts": []}
    if current:
        content["current-context"] = current
    for name, server in named.items():
        context = {"cluster": name, "user": name, "namespace": f"of-{name}"}
        content["clusters"].append({"name": name, "cluster": {"server": server}})
        content["users"].append({"name": name, "user": {"token": f"token-{name}"}})
        content["contexts"].append({"name": name, "context": context})
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def select(*paths: Path, context: str = "") -> kubeconfig.Selection:
    return kubeconfig.select(paths, context, lambda: 0.0)


def test_the_current_context_of_the_first_file_that_has_one_is_used(tmp_path):
    first = write(tmp_path / "1", a="http://a")
    second = write(tmp_path / "2", "b", b="http://b")
    third = write(tmp_path / "3", "c", c="http://c")

    found = select(first, second, third)

    assert (found.context, found.namespace, found.cluster.server) == ("b", "of-b", "http://b")


def test_the_first_file_that_has_an_entry_counts(tmp_path):
    first = write(tmp_path / "1", "a", a="http://first")
    second = write(tmp_path / "2", "a", a="http://second")

    assert select(first, second).cluster.server == "http://first"


async def test_another_context_may_be_chosen(tmp_path):
    path = write(tmp_path / "1", "a", a="http://a", b="http://b")

    found = select(path, context="b")

    assert found.cluster.server == "http://b"
    assert await found.login.credentials.headers() == {"Authorization": "Bearer token-b"}


def test_files_that_do_not_exist_are_left_out_of_several(tmp_path):
    path = write(tmp_path / "1", "a", a="http://a")

    assert select(tmp_path / "none", path).context == "a"


def test_a_single_file_must_exist(tmp_path):
    with pytest.raises(ConnectionSettingsError, match="No such file"):
        select(tmp_path / "none")


def test_a_context_that_is_missing_is_named_with_the_files(tmp_path):
    paths = write(tmp_path / "1", a="http://a"), write(tmp_path / "2", b="http://b")

    with pytest.raises(ConnectionSettingsError, match=r"1:.*2: has no context 'x'"):
        select(*paths, context="x")


def test_paths_are_relative_to_the_file_that_has_them(tmp_path):
    clusters, users = tmp_path / "clusters", tmp_path / "users"
    Authority(clusters)
    Authority(users)
    whole = yaml.safe_load(write(tmp_path / "whole", "a", a="https://a").read_text())
    whole["clusters"][0]["cluster"]["certificate-authority"] = "ca.crt"
    whole["users"][0]["user"] = {"client-certificate": "client.crt", "client-key": "client.key"}
    (clusters / "config").write_text(yaml.safe_dump(whole | {"users": []}))
    (users / "config").write_text(yaml.safe_dump({"users": whole["users"]}))

    found = select(clusters / "config", users / "config")

    assert found.login.tls is not None
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.login.identify(own)  # another server may be shown the same certificate


def test_the_scheduler_itself_uses_no_proxy(tmp_path):
    path = write(tmp_path / "1", "a", a="http://a")
    content = yaml.safe_load(path.read_text())
    content["clusters"][0]["cluster"]["proxy-url"] = "http://proxy"
    path.write_text(yaml.safe_dump(content))

    assert select(path).cluster.proxy_url == "http://proxy"
    with pytest.raises(ConnectionSettingsError, match="proxy-url is not supported"):
        kubeconfig.read(path, lambda: 0.0)
