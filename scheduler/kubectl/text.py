"""Words and tables for a terminal: ages and amounts as kubectl writes them.

Names and messages are from objects that any user of the cluster may have written, so each text
passes through `clean`.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from scheduler.model import times
from scheduler.model.messages import age, amount, count, short_name, spent
from scheduler.model.rest.common import PodView
from scheduler.observe.logs import escape

__all__ = [
    "HIDDEN",
    "age",
    "amounts",
    "clean",
    "count",
    "owner_name",
    "paragraph",
    "pod_name",
    "since",
    "spent",
    "table",
    "window",
]

HIDDEN: Final = "<hidden>"
_GAP: Final = "   "
_SMALL_GAP: Final = "  "
#: No column is made narrower.
_LEAST: Final = 8
#: A column that is not wider is cut only if nothing else is left to cut.
_SHORT: Final = 20


def clean(text: str) -> str:
    """Return a text that cannot control the terminal."""
    return escape.printable(text)


def window(seconds: float) -> str:
    """Return a period that a policy names: `1h`, `90s`."""
    whole = int(seconds)
    size, unit = next(each for each in ((3_600, "h"), (60, "m"), (1, "s")) if whole % each[0] == 0)
    return f"{whole // size}{unit}"


def since(stamp: str, now: float) -> str:
    """Return the age of a time stamp; `<unknown>` where it is none."""
    moment = times.parse(stamp)
    return "<unknown>" if moment is None else age(now - moment)


def amounts(requests: Mapping[str, int]) -> str:
    """Return requests in one line: `cpu 250m, memory 512Mi`."""
    parts = (f"{clean(name)} {amount(name, value)}" for name, value in requests.items() if value)
    return ", ".join(parts) or "nothing"


def pod_name(pod: PodView) -> str:
    """Return namespace and name of a pod, if the caller may see them."""
    return HIDDEN if pod.hidden else clean(f"{pod.namespace}/{pod.name}")


def owner_name(pod: PodView) -> str:
    """Return the owner of a pod; `-` if it has none."""
    return "-" if pod.owner is None else clean(f"{pod.owner.kind}/{pod.owner.name}")


def paragraph(text: str, width: int | None, indent: str = "") -> str:
    """Return a text in lines of at most `width` cells; in one line where there is no width."""
    safe = clean(text)
    if width is None:
        return indent + safe
    return textwrap.fill(
        safe,
        max(20, width),
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], width: int | None, indent: str = ""
) -> list[str]:
    """Return the lines of a table in kubectl's style.

    Args:
        head: The names of the columns, in capitals.
        rows: The cells.
        width: If the lines are longer, cells are cut: texts first, then names, in the middle;
            short cells, such as decisions and numbers, last. `None` cuts nothing.
        indent: Before each line.
    """
    cells = [list(head), *([clean(cell) for cell in row] for row in rows)]
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    gap = _GAP
    if width is not None:
        space = width - len(indent)
        if sum(widths) + len(gap) * (len(head) - 1) > space:
            gap = _SMALL_GAP
        texts = [any(" " in cell for cell in column[1:]) for column in columns]
        widths = _fitted(widths, texts, space - len(gap) * (len(head) - 1))
    lines = []
    for row in cells:
        parts = (_cut(cell, size).ljust(size) for cell, size in zip(row, widths, strict=True))
        lines.append((indent + gap.join(parts)).rstrip())
    return lines


def _fitted(widths: Sequence[int], texts: Sequence[bool], space: int) -> list[int]:
    """Return widths that fit, if that is possible: the widest column of a kind gives first.

    Args:
        widths: Those of the longest cells.
        texts: Whether a column has texts, otherwise names.
        space: For all of them.
    """
    found = list(widths)
    long = [width > _SHORT for width in widths]
    for is_text, least in ((True, 24), (False, 32), (True, _LEAST), (False, _LEAST)):
        may = [i for i, text in enumerate(texts) if long[i] and text == is_text]
        _give(found, may, least, sum(found) - space)
    _give(found, range(len(found)), _LEAST, sum(found) - space)
    return found


def _give(widths: list[int], columns: Sequence[int], least: int, excess: int) -> None:
    for _ in range(excess):
        widest = max(columns, key=lambda i: widths[i], default=None)
        if widest is None or widths[widest] <= least:
            return
        widths[widest] -= 1


def _cut(text: str, size: int) -> str:
    """Return a text that fits."""
    if len(text) <= size:
        return text
    return text[: size - 1] + "…" if " " in text else short_name(text, size)
