"""Stacks sections in a terminal, each with a fair share of the height."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text

from scheduler.terminal import sections as view_lines

__all__ = ["Section", "stacked"]


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
        lines.append(view_lines.title(section.name, width, section.more))
        if count:
            lines += section.lines(count)
    blank = [view_lines.fitted(Text(), width) for _ in range(height - len(lines))]
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
