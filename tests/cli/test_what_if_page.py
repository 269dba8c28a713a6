"""The commands of the page about plans do what the page says."""

import re
import shlex
from pathlib import Path

import pytest

from scheduler.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "what-if.md"


def steps() -> list[tuple[str, str]]:
    """Return the commands that need no cluster, each with the output that the page shows."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = step.replace("\\\n", " ").partition("\n")
            if command.startswith("preemptive-scheduler "):
                found.append((command, shown.rstrip()))
    return found


@pytest.mark.parametrize(("command", "shown"), steps())
def test_a_command_of_the_page_prints_what_the_page_shows(command, shown, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    assert main(shlex.split(command)[1:]) == 0

    assert shown
    assert capsys.readouterr().out.rstrip() == shown


def test_the_page_has_commands():
    assert len(steps()) == 2
