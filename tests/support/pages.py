"""The commands of pages, as a reader pastes them, and whether they print what the page shows.

Commands are in blocks of `sh`. A block of `text` that follows one shows what its last command
prints: `…` stands for any text, and the width of columns does not matter.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["Command", "commands", "run", "shell_blocks"]

#: For one command.
COMMAND_SECONDS = 120.0
_FENCE = re.compile(r" *```(\w*)$")


class Command(NamedTuple):
    """A command of a page."""

    #: The title of its section.
    section: str
    #: Where its block begins; commands of one block share variables.
    block: int
    line: int
    #: On one line, but for texts in quotes.
    text: str
    #: What the page shows; empty where it shows nothing.
    output: str = ""


def shell_blocks(page: Path) -> Iterator[tuple[str, int, list[str]]]:
    """Yield each block of commands or output: its language, where it begins, and its lines."""
    language, begun, content = "", 0, list[str]()
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if fence is None:
            content.append(line)
        elif begun:
            if language in ("sh", "text"):
                yield language, begun, content
            begun = 0
        else:
            language, begun, content = fence[1], number, []


def commands(page: Path) -> Iterator[Command]:
    """Yield the commands of a page, in order."""
    titles = [
        (number, line.lstrip("# "))
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if re.match("#+ ", line)
    ]
    pending = list[Command]()
    for language, begun, lines in shell_blocks(page):
        if language == "text":
            pending[-1:] = [each._replace(output="\n".join(lines)) for each in pending[-1:]]
            continue
        yield from pending
        section = [title for number, title in titles if number < begun][-1]
        pending = [Command(section, begun, begun + number, text) for number, text in _joined(lines)]
    yield from pending


def _joined(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield each command of a block with the number of its first line."""
    text, first = "", 0
    for number, line in enumerate(lines, 1):
        first = first if text else number
        text = f"{text[:-1]}{line.strip()}" if text.endswith("\\") else f"{text}{line}"
        if text.count("'") % 2 or text.endswith("|"):
            text += "\n"
        elif not text.endswith("\\"):
            yield first, text.strip()
            text = ""


def run(command: Command, environ: Mapping[str, str], folder: Path) -> str:
    """Run a command in a shell; return why that is not what the page shows, or nothing.

    Args:
        command: The command.
        environ: What is set in its environment.
        folder: Where it runs.
    """
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.text],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    printed = _plain(done.stdout)
    wanted = ".*".join(map(re.escape, _plain(command.output).split("…")))
    if done.returncode == 0 and re.fullmatch(wanted, printed, re.DOTALL):
        return ""
    return f"{command.text}: exit code {done.returncode}\n{done.stdout}{done.stderr}"


def _plain(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines())
