"""Runs the console blocks of a page, and compares what is printed with what the page shows.

A line that begins with `$ ` is a command; the lines up to the next one are its output. In these
`…` stands for any text, and the width of columns does not matter.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["Command", "commands", "run"]

#: For one command.
COMMAND_SECONDS = 120.0


class Command(NamedTuple):
    """A command of a page."""

    #: The title of its section.
    section: str
    text: str
    #: What the page shows.
    output: str


def commands(page: Path) -> Iterator[Command]:
    """Yield the commands of a page, in order; those of root, which begin with `# `, too."""
    section = ""
    for title, block in re.findall(
        r"^#+ ([^\n]+)$|^```console\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
    ):
        if title:
            section = title
            continue
        for prompted in re.split(r"^(?=[$#] )", block, flags=re.MULTILINE)[1:]:
            text, _, output = prompted[2:].partition("\n")
            yield Command(section, text.partition("  #")[0].rstrip(), output)


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
