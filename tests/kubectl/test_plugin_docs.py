"""docs/kubectl-plugin.md names each command and flag, and shows what is printed."""

import argparse
import re
from pathlib import Path

import pytest

from scheduler.kubectl import parsing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kubectl-plugin.md").read_text()
COMMANDS = parsing.parser().commands
#: Where a flag of all commands is documented.
COMMON = {
    flag
    for action in parsing.parser()._actions
    if not isinstance(action, argparse._SubParsersAction)
    for flag in action.option_strings
}


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def documented(text: str) -> set[str]:
    rows = re.findall(r"^\| (`-.*?) \|", text, re.MULTILINE)
    return {flag for row in rows for flag in re.findall(r"`(--?[A-Za-z][a-z-]*)", row)}


def test_each_command_is_in_the_list():
    assert set(re.findall(r"^\| \[`([a-z]+)[ `]", PAGE, re.MULTILINE)) == set(parsing.COMMANDS)


def test_the_flags_of_all_commands_are_documented():
    assert documented(section("Output")) == COMMON - {"-h", "--help"}


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"replay", "completion", "help"}))
def test_each_flag_is_documented_and_no_other(command):
    title = {"record": "record and replay", "version": "version and completion"}.get(
        command, command
    )
    flags = {flag for action in COMMANDS[command]._actions for flag in action.option_strings}

    assert documented(section(title)) == flags - COMMON


@pytest.mark.parametrize(
    "name", [path.stem for path in sorted((ROOT / "tests/kubectl/golden").glob("*.txt"))
             if not path.stem.startswith(("why-", "preemption-", "preemptions-"))]
)  # fmt: skip
def test_the_page_shows_what_is_printed(name):
    golden = (ROOT / "tests/kubectl/golden" / f"{name}.txt").read_text()

    assert golden.rstrip() in PAGE
