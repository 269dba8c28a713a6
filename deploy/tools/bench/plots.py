"""Plots as SVG: bars in groups, each group on a scale of its own, and flame graphs."""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Group", "Row", "bars", "flames"]

#: Of the segments of a bar.
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
    """One bar: its segments in the unit of its group, and what stands behind it."""

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
        """Return how long a bar of a value is."""
        return value / self.full * _WIDTH if self.full else 0.0


def bars(title: str, note: str, groups: Sequence[Group], legend: Sequence[str] = ()) -> str:
    """Return a plot; the line at the right is where every group's full width is."""
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


# Flame graphs


@dataclass
class _Frame:
    samples: int = 0
    below: dict[str, "_Frame"] = field(default_factory=dict)


def flames(title: str, stacks: Mapping[tuple[str, ...], int]) -> str:
    """Return a flame graph: a box for each function, as wide as it was seen, callers below.

    Args:
        title: what was sampled.
        stacks: how often each stack was seen, outermost function first.
    """
    root = _Frame()
    for stack, samples in stacks.items():
        frame = root
        frame.samples += samples
        for name in stack:
            frame = frame.below.setdefault(name, _Frame())
            frame.samples += samples
    depth = max(map(len, stacks), default=0)
    width, height = 1200, _HEAD + (depth + 1) * _LINE
    parts = [_text(10, 20, f"{title}: {root.samples} samples", 'font-weight="bold"')]
    if root.samples:
        parts += _boxes(root, 0.0, height - _LINE, width / root.samples, root.samples)
    return _svg(width, height, parts)


def _boxes(frame: _Frame, left: float, y: int, unit: float, total: int) -> Iterator[str]:
    for name, below in sorted(frame.below.items()):
        size = below.samples * unit
        if size < 1:
            left += size
            continue
        share = f"{name}: {below.samples} samples, {below.samples / total:.1%}"
        shown = name[: max(int(size / 7) - 1, 0)]
        color = f"hsl({sum(name.encode()) % 50 + 10}, 80%, 65%)"
        yield f"<g><title>{html.escape(share)}</title>"
        yield _box(left, y, size - 0.5, _LINE - 1, color)
        yield _text(left + 3, y + 13, shown) + "</g>"
        yield from _boxes(below, left, y - _LINE, unit, total)
        left += size


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
