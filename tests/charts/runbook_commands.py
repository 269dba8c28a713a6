"""The commands of pages for operators, as a reader pastes them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support import pages

__all__ = ["Command", "blocks", "commands", "glob_outside_quotes"]

#: Inline code that is a command and not just its name, as `helm rollback` in a sentence.
_INLINE: Final = re.compile(r"(?<!`)`((?:kubectl|helm|curl) [^`]+)`")
_QUOTED: Final = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\$\([^()]*\)""")


@dataclass(frozen=True)
class Command:
    """One command of a page."""

    page: str
    line: int
    text: str
    #: Where the block begins that it belongs to, whose variables it shares; 0 outside of blocks.
    block: int = 0


def commands(page: Path) -> list[Command]:
    """Return the commands of a page in order: those of its blocks, and inline code."""
    found = [Command(page.name, each.line, each.text, each.block) for each in pages.commands(page)]
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for inline in _INLINE.finditer(line):
            found.append(Command(page.name, number, inline[1].replace("\\|", "|")))
    return sorted(found, key=lambda each: each.line)


def blocks(page: Path) -> list[tuple[Command, ...]]:
    """Return the commands of a page, those of one block together."""
    together: dict[tuple[int, str], list[Command]] = {}
    for each in commands(page):
        key = (each.block, "") if each.block else (each.line, each.text)
        together.setdefault(key, []).append(each)
    return [tuple(each) for each in together.values()]


def glob_outside_quotes(text: str) -> bool:
    """Return whether a shell might take a part of a command for a pattern of file names.

    zsh refuses a command with a pattern that matches nothing.
    """
    return re.search(r"[?*\[]", _QUOTED.sub("", text)) is not None
