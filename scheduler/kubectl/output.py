"""Where output goes: a terminal of some width, or a pipe."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

import yaml

from scheduler.kubectl import text
from scheduler.observe.logs import escape

__all__ = ["Output", "complain"]

_STYLES: Final = {"green": "32", "red": "31", "yellow": "33", "bold": "1", "cyan": "36"}


def complain(content: str) -> None:
    """Write a line to standard error; a terminal gets prose wrapped at words, but no command."""
    prose = sys.stderr.isatty() and not content.startswith(" ")
    width = shutil.get_terminal_size().columns if prose else None
    print(text.paragraph(content, width), file=sys.stderr)


class Output:
    """Writes lines.

    Args:
        stream: Where to; standard output by default.
        width: Of the terminal; `None` cuts and wraps nothing, as in a pipe.
        color: Whether it may use colours.
    """

    def __init__(self, stream: TextIO, width: int | None, *, color: bool) -> None:
        self.stream = stream
        self.width = width
        self.color = color

    @classmethod
    def standard(cls, environment: Mapping[str, str] = os.environ) -> "Output":
        """Return the one for standard output."""
        terminal = sys.stdout.isatty()
        plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"
        width = shutil.get_terminal_size().columns if terminal else None
        return cls(sys.stdout, width, color=terminal and not plain)

    def line(self, content: str = "", style: str = "") -> None:
        """Write a line, which is clean already."""
        if style and self.color and content:
            content = f"\x1b[{_STYLES[style]}m{content}\x1b[0m"
        self.stream.write(f"{content}\n")

    def paragraph(self, content: str, indent: str = "", style: str = "") -> None:
        """Write a text from the server, wrapped at words."""
        self.line(text.paragraph(content, self.width, indent), style)

    def table(
        self, head: Sequence[str], rows: Iterable[Sequence[str]], *, wide: bool = False,
        indent: str = "",
    ) -> None:  # fmt: skip
        """Write a table; a wide one is not cut."""
        head_line, *lines = text.table(head, rows, None if wide else self.width, indent)
        self.line(head_line, "bold")
        for each in lines:
            self.line(each)

    def document(self, content: Any, form: str) -> None:
        """Write a document as `json` or `yaml`."""
        if form == "json":
            escapes = (self.stream.encoding or "utf-8").lower() not in {"utf-8", "utf8"}
            shown = json.dumps(content, indent=2, ensure_ascii=escapes)
            self.stream.write("\n".join(map(escape.json_text, shown.split("\n"))) + "\n")
            return
        self.stream.write(yaml.safe_dump(content, sort_keys=False))

    def flush(self) -> None:
        """Write what is buffered."""
        self.stream.flush()
