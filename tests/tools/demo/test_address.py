"""The file that tells the plugin where the demonstration listens."""

import os
from pathlib import Path

import pytest

from deploy.tools.demo import address
from scheduler.kubectl.connection import demo_file


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_the_address_is_announced_while_it_runs():
    path = demo_file(os.environ)

    with address.announced(1234):
        assert path.read_text() == "https://127.0.0.1:1234\n"
    assert not path.exists()


def test_the_address_of_a_later_demonstration_stays():
    with address.announced(1):
        demo_file(os.environ).write_text("https://127.0.0.1:2\n")

    assert demo_file(os.environ).read_text() == "https://127.0.0.1:2\n"


def test_a_folder_that_cannot_be_written_is_no_error(cache: Path):
    (cache / "preemptive-scheduler").write_text("a file")

    with address.announced(1):
        pass
