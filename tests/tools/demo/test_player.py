"""What the demonstration does when the scheduler ends by itself."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from deploy.tools.demo import screens
from deploy.tools.demo.example import Example
from deploy.tools.demo.player import DemoError, Pace, Player


class EndedCluster:
    """A cluster on which every process has ended as soon as it was started."""

    def __init__(self, folder: Path, ending: str) -> None:
        self.api = self
        self.folder = folder
        self.ending = ending
        self.started = 0

    def apply(self, _: Any) -> None:
        pass

    def service_account_kubeconfig(self, *_: str) -> Path:
        return self.folder / "kubeconfig"

    def run(self, *_: Any) -> Path:
        self.started += 1
        log = self.folder / "log"
        log.write_text(self.ending + "\n")
        return log

    def exit_code(self, _: str) -> int:
        return 1


@pytest.mark.parametrize(
    ("ending", "problem", "started"),
    [
        (
            '{"event":"lease_lost","problem":"not renewed in time"}',
            "the scheduler has lost its lease again and again: not renewed in time",
            4,
        ),
        (
            '{"event":"defect","problem":"boom"}',
            "the scheduler ended with 1: defect boom",
            1,
        ),
        ("OSError: no", "the scheduler ended with 1: OSError: no", 1),
    ],
    ids=["lease lost", "defect", "trace"],
)
def test_a_scheduler_is_started_again_a_few_times_if_it_lost_its_lease(
    tmp_path: Path, ending: str, problem: str, started: int
):
    cluster: Any = EndedCluster(tmp_path, ending)
    lines = screens.Lines(Console(file=io.StringIO()), 0.0)
    player = Player(cluster, Example((), {}), Pace(0.0, None), lines, port=1)

    with pytest.raises(DemoError) as error:
        player.play()

    assert str(error.value) == problem
    assert cluster.started == started
