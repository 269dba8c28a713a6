"""The files that tell the plugin, and kubectl, where the demonstration is."""

import os
from pathlib import Path

import pytest
import yaml

from deploy.tools.demo import address
from scheduler.kubectl.connection import demo_files


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def admin(tmp_path: Path) -> Path:
    path = tmp_path / "admin"
    path.write_text("contexts: [{name: admin, context: {user: admin}}]")
    return path


def test_address_and_kubeconfig_are_there_for_this_user_while_it_runs(cache, admin):
    server, kubeconfig = demo_files(os.environ)

    with address.announced(1234, admin, "example", os.environ) as used:
        assert used == kubeconfig
        assert server.read_text() == "https://127.0.0.1:1234\n"
        (context,) = yaml.safe_load(kubeconfig.read_text())["contexts"]
        assert context == {"name": "admin", "context": {"user": "admin", "namespace": "example"}}
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
    assert list(server.parent.iterdir()) == []


def test_the_files_of_a_later_demonstration_stay(admin):
    with address.announced(1, admin, "example", os.environ):
        for path in demo_files(os.environ):
            path.write_text("another")

    assert [path.read_text() for path in demo_files(os.environ)] == ["another", "another"]


def test_if_the_folder_cannot_be_written_the_first_kubeconfig_is_used(cache, admin):
    (cache / "preemptive-scheduler").write_text("a file")

    with address.announced(1, admin, "example", os.environ) as used:
        assert used == admin
