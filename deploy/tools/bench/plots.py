"""Bar plots as SVG, in groups that have their own scales."""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Group", "Row", "bars"]

#: Colours of the segments of a bar.
COLORS: Final = ("#3b6fb6", "#9bb8dd", "#d5dfee")

_FONT: Final = 'font-family="system-ui, sans-serif" font-size="12" fill="#222"'
_NAMES: Final = 250
_WIDTH: Final = 480
_TEXTS: Final = 190
_LINE: Final = 18
_GAP: Final = 12
_HEAD: Final = 62


@dataclass(frozen=True)
class Row:
    """One bar: its segments in the unit of its group, and the text behind it."""

    name: str
    segments: tuple[float, ...]
    text: str


@dataclass(frozen=True)
class Group:
    """Bars that are compared with each other; `full` is the value at full width."""

    name: str
    full: float
    rows: tuple[Row, ...]

    def size(self, value: float) -> float:
        """Return the length of a bar."""
        return value / self.full * _WIDTH if self.full else 0.0


def bars(title: str, note: str, groups: Sequence[Group], legend: Sequence[str] = ()) -> str:
    """Return a plot; the dashed line marks the full width of all groups."""
    height = _HEAD + sum(_GAP + _LINE * (len(group.rows) + 1) for group in groups) + _GAP
    longest = max(
        (group.size(sum(row.segments)) for group in groups for row in group.rows), default=0.0
    )
    width = _NAMES + max(_WIDTH, round(longest)) + _TEXTS
    parts = [_text(10, 20, title, 'font-size="15" font-weight="bold"'), _text(10, 40, note)]
    left = _NAMES
    for color, name in zip(COLORS, legend, strict=False):
        parts += [_box(left, 48, 10, 10, color), _text(left + 14, 57, name)]
        left += 24 + 7 * len(name)
    top = _HEAD
    for group in groups:
        parts += _group(group, top)
        top += _GAP + _LINE * (len(group.rows) + 1)
    right = _NAMES + _WIDTH
    parts.append(
        f'<line x1="{right}" y1="{_HEAD}" x2="{right}" y2="{height - _GAP}" stroke="#b33"'
        ' stroke-dasharray="4 3"/>'
    )
    return _svg(width, height, parts)


def _group(group: Group, top: int) -> Iterator[str]:
    yield _text(10, top + _LINE, group.name, 'font-weight="bold"')
    for number, row in enumerate(group.rows, 1):
        y = top + number * _LINE + 4
        yield _text(24, y + 13, row.name)
        left = float(_NAMES)
        for color, value in zip(COLORS, row.segments, strict=False):
            size = group.size(value)
            yield _box(left, y + 2, size, _LINE - 4, color)
            left += size
        yield _text(left + 5, y + 13, row.text)


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{html.escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, color: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>'
    )


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_FONT}>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )
