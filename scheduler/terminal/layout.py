"""What the live view is drawn with: sections that share the height, lines that fit, bars, colours.

A line is a `Text` of exactly the requested width, so that nothing wraps and nothing moves between
two updates. Colours have a contrast of about 4:1 to white and to black, so they are legible on
light and dark backgrounds; no information is given by colour alone.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

__all__ = [
    "ACCENT",
    "BAD",
    "BUSY",
    "GOOD",
    "MUTED",
    "Section",
    "bar",
    "fitted",
    "natural",
    "percent",
    "stacked",
]

MUTED: Final = "grey46"
GOOD: Final = "green4"
BUSY: Final = "dark_orange3"
BAD: Final = "red1"
ACCENT: Final = "royal_blue1"

_DIGITS: Final = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True)
class Section:
    """A title, and lines as far as there is space."""

    name: str
    #: The number of lines that show everything.
    wanted: int
    #: Its relative share of the height if there is not enough for all.
    weight: int
    lines: Callable[[int], list[Text]]
    more: Text | None = None


def stacked(sections: Sequence[Section], width: int, height: int) -> list[Text]:
    """Return the sections stacked, in exactly `height` lines."""
    counts = _shares(sections, height - len(sections))
    lines: list[Text] = []
    for section, count in zip(sections, counts, strict=True):
        lines.append(_title(section.name, width, section.more))
        if count:
            lines += section.lines(count)
    blank = [fitted(Text(), width) for _ in range(height - len(lines))]
    return (lines + blank)[: max(0, height)]


def _shares(sections: Sequence[Section], lines: int) -> list[int]:
    """Return the number of lines of each section: by weight, and never more than it wants."""
    counts = [0] * len(sections)
    for _ in range(max(0, lines)):
        incomplete = [i for i, section in enumerate(sections) if counts[i] < section.wanted]
        if not incomplete:
            break
        smallest = min(incomplete, key=lambda i: (counts[i] + 1) / sections[i].weight)
        counts[smallest] += 1
    return counts


def _title(name: str, width: int, more: Text | None = None) -> Text:
    """Return the title line of a section."""
    line = Text(f"{name} ", f"bold {ACCENT}")
    if more is not None:
        line.append_text(more).append(" ")
    line.append("─" * max(0, width - line.cell_len), MUTED)
    return fitted(line, width)


def fitted(text: Text, width: int) -> Text:
    """Return the text in exactly `width` cells."""
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis", pad=True)
    return text


def bar(used: int, whole: int, width: int) -> Text:
    """Return a bar of `width` cells, filled by the used part."""
    share = min(1.0, used / whole) if whole > 0 else 0.0
    filled = round(share * width)
    bar = Text("█" * filled, BUSY if share > 0.9 else GOOD)
    return bar.append("░" * (width - filled), MUTED)


def percent(used: int, whole: int) -> int:
    """Return the used part; 0 of nothing."""
    return round(100 * used / whole) if whole else 0


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts `node-2` before `node-10`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in _DIGITS.split(name)]
