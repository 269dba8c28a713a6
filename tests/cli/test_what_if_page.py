"""The commands of the page about plans do what the page says."""

import shlex
from pathlib import Path

import pytest

from scheduler.cli.main import main
from tests.support import pages

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "what-if.md"


def steps() -> list[tuple[str, str]]:
    """Return the commands that need no cluster, each with the output that the page shows."""
    return [
        (each.text, each.output.rstrip())
        for each in pages.commands(PAGE)
        if each.text.startswith("preemptive-scheduler ")
    ]


@pytest.mark.parametrize(("command", "shown"), steps())
def test_a_command_of_the_page_prints_what_the_page_shows(command, shown, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    code = main(shlex.split(command)[1:])

    assert shown
    assert code == (0 if "--fail-on" in command else 3)
    assert capsys.readouterr().out.rstrip() == shown


def test_the_page_has_commands():
    assert len(steps()) == 2
