"""`python -m deploy.tools.pages.recording`: records `make run` into `docs/img/demo.svg`.

The demonstration runs in a terminal of tmux, which has to be installed. Its screen is read twice a
second, until it says that it has settled. The picture has one group for each screen that differs,
shown in turn by an animation of CSS; for readers who prefer no motion it is the last one. Lines
that several screens share are in it once. It has no script, and refers to nothing else.
"""

import itertools
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from rich.ansi import AnsiDecoder
from rich.style import Style
from rich.text import Text

__all__ = ["Frame", "main", "picture"]

FILE: Final = Path(__file__).parents[3] / "docs" / "img" / "demo.svg"
COLUMNS, ROWS = 100, 34
#: Between two readings, how long the last screen stays, and when the recording is given up.
READ_SECONDS: Final = 0.5
LAST_SECONDS: Final = 6.0
PATIENCE_SECONDS: Final = 900.0
#: What the screen shows at the end, and what shows that something happens.
SETTLED: Final = "settled"
BEGUN: Final = "step 1"
#: Of a cell, in units of the picture.
CELL_WIDTH, LINE_HEIGHT, MARGIN = 8, 17, 12

_STYLE: Final = """\
    text { font: 13.3px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
    .page { fill: #0d1117; stroke: #3d444d; }
    .frame { visibility: hidden; }
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """A screen, as text with the escapes of a terminal, and for how many seconds it is shown."""

    screen: str
    seconds: float


def picture(frames: Sequence[Frame]) -> str:
    """Return frames as an animated SVG."""
    width, height = COLUMNS * CELL_WIDTH + 2 * MARGIN, ROWS * LINE_HEIGHT + 2 * MARGIN
    total = sum(frame.seconds for frame in frames)
    lines: dict[str, str] = {}
    rules, groups, shown_at = list[str](), list[str](), 0.0
    for number, frame in enumerate(frames):
        begin, end = (100 * at / total for at in (shown_at, shown_at + frame.seconds))
        shown_at += frame.seconds
        steps = f"0% {{ visibility: hidden; }} {begin:.3f}% {{ visibility: visible; }}"
        if number < len(frames) - 1:
            steps += f" {end:.3f}% {{ visibility: hidden; }}"
        rules += [
            f"    @keyframes k{number} {{ {steps} }}",
            f"    .f{number} {{ animation: k{number} {total:.1f}s step-end infinite; }}",
        ]
        groups += [f'  <g class="frame f{number}">', *_uses(frame.screen, lines), "  </g>"]
    last = f".f{len(frames) - 1} {{ visibility: visible; }}"
    still = (
        "    @media (prefers-reduced-motion: reduce) { .frame { animation: none; } " + last + " }"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">',
            "  <title>make run: pods of high priority preempt on a demo cluster</title>",
            f"  <style>\n{_STYLE}" + "\n".join([*rules, still]) + "\n  </style>",
            "  <defs>",
            *(f'    <g id="{name}">{line}</g>' for line, name in lines.items()),
            "  </defs>",
            f'  <rect class="page" x="0.5" y="0.5" width="{width - 1}" '
            f'height="{height - 1}" rx="8"/>',
            '  <g fill="#d0d7de">',
            *groups,
            "  </g>",
            "</svg>",
            "",
        ]
    )


def _uses(screen: str, lines: dict[str, str]) -> Iterable[str]:
    """Yield a reference for each line of a screen; lines that are new get a name."""
    for row, text in enumerate(AnsiDecoder().decode(screen)):
        line = "".join(_runs(text))
        if line:
            name = lines.setdefault(line, f"l{len(lines)}")
            yield f'    <use href="#{name}" y="{MARGIN + (row + 1) * LINE_HEIGHT - 4}"/>'


def _runs(text: Text) -> Iterable[str]:
    """Yield the parts of a line that have one style each; blanks need none."""
    column = 0
    for segment in _segments(text):
        content, style = segment
        stripped = content.strip()
        if stripped:
            x = MARGIN + CELL_WIDTH * (column + len(content) - len(content.lstrip()))
            yield (
                f'<text x="{x}" textLength="{CELL_WIDTH * len(stripped)}" xml:space="preserve"'
                f"{_look(style)}>{escape(stripped)}</text>"
            )
        column += len(content)


def _segments(text: Text) -> Iterable[tuple[str, Style]]:
    borders = sorted({0, len(text), *(at for span in text.spans for at in (span.start, span.end))})
    for start, end in itertools.pairwise(borders):
        style = Style.null()
        for span in text.spans:
            if span.start <= start and end <= span.end and isinstance(span.style, Style):
                style += span.style
        yield text.plain[start:end], style


def _look(style: Style) -> str:
    look = ""
    if style.color is not None and not style.color.is_default:
        look += f' fill="{style.color.get_truecolor().hex}"'
    if style.bold:
        look += ' font-weight="600"'
    if style.dim:
        look += ' opacity="0.6"'
    return look


def _tmux(*arguments: str) -> str:
    command = ["tmux", "-L", "recording", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _frames() -> list[Frame]:
    """Record the demonstration.

    Raises:
        TimeoutError: It does not settle.
    """
    demo = shlex.join([sys.executable, "-m", "deploy.tools.demo"])
    _tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), demo)
    screens = list[tuple[str, float]]()
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while not screens or SETTLED not in screens[-1][0]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"it has not settled after {PATIENCE_SECONDS} seconds")
            time.sleep(READ_SECONDS)
            screen = _tmux("capture-pane", "-p", "-e")
            if screen != screens[-1][0] if screens else BEGUN in screen:
                screens.append((screen, time.monotonic()))
    finally:
        _tmux("send-keys", "C-c")
        time.sleep(READ_SECONDS)
    ends = [*(at for _, at in screens[1:]), screens[-1][1] + LAST_SECONDS]
    return [Frame(screen, end - at) for (screen, at), end in zip(screens, ends, strict=True)]


def main() -> None:
    """Write the picture."""
    FILE.write_text(picture(_frames()))
    print(f"{FILE}: {FILE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
