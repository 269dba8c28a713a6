"""The terminal view: live display of the scheduler, and a summary at the end.

`render` draws a `ViewSnapshot` that fills a terminal of any size: sections are stacked in a narrow
terminal and in two columns in a wide one, each with a fair share of the height. `summary` makes the
final tables. Both are pure; `live` updates the terminal without flicker.
"""

from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from scheduler.observe.logs import escape
from scheduler.terminal import sections as view_lines
from scheduler.terminal.layout import Section, stacked
from scheduler.terminal.sections import Palette
from scheduler.terminal.values import ViewSnapshot

__all__ = ["live", "render", "summary"]

#: The least width for two columns.
_WIDE: Final = 110
_SEPARATOR: Final = " │ "
#: The maximum number of rows of a table of the summary.
_SUMMARY_ROWS: Final = 40


def render(snapshot: ViewSnapshot, footer: str = "") -> RenderableType:
    """Return a renderable that fills the console it is printed on; the footer is its last line."""
    return _Picture(snapshot, footer)


def live(console: Console) -> Live:
    """Return a display for `live.update(render(snapshot), refresh=True)`.

    It uses the alternate screen while it is open, and restores the terminal afterwards.
    """
    return Live(console=console, screen=True, auto_refresh=False)


class _Picture:
    def __init__(self, snapshot: ViewSnapshot, footer: str) -> None:
        self._snapshot = snapshot
        self._footer = footer
        self._palette = Palette(snapshot)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        width = options.max_width
        footer = [Text(self._footer, view_lines.MUTED)] if self._footer else []
        above = height - len(footer)
        lines = [view_lines.header(self._snapshot, width), *self._body(width, above - 1)]
        return iter(lines[:above] + [view_lines.fitted(each, width) for each in footer])

    def _body(self, width: int, height: int) -> list[Text]:
        if width < _WIDE:
            return stacked(self._left(width) + self._right(width), width, height)
        left_width = (width - len(_SEPARATOR)) // 2
        right_width = width - len(_SEPARATOR) - left_width
        left = stacked(self._left(left_width), left_width, height)
        right = stacked(self._right(right_width), right_width, height)
        return [
            Text.assemble(a, (_SEPARATOR, view_lines.MUTED), b, no_wrap=True)
            for a, b in zip(left, right, strict=True)
        ]

    def _left(self, width: int) -> list[Section]:
        snapshot, palette = self._snapshot, self._palette
        queue_lines = view_lines.queues(snapshot, palette, width)
        return [
            Section("Queues", len(queue_lines), 6, lambda count: queue_lines[:count]),
            Section(
                "Nodes",
                len(snapshot.nodes),
                4,
                lambda count: view_lines.nodes(snapshot, palette, width, count),
                palette.legend(),
            ),
        ]

    def _right(self, width: int) -> list[Section]:
        snapshot, palette = self._snapshot, self._palette
        preemption = view_lines.preemption(snapshot, palette, width)
        attempts = view_lines.attempts(snapshot, palette, width)
        return [
            Section("Preemption", len(preemption), 3, lambda count: preemption[:count]),
            Section("Attempts", len(attempts), 3, lambda count: attempts[:count]),
        ]


def summary(snapshot: ViewSnapshot) -> RenderableType:
    """Return the final tables: placed pods, and victims with their preemptors and durations."""
    palette = Palette(snapshot)
    totals = snapshot.totals
    closing = Text(
        f"{totals.placed} of {totals.pods} pods placed in {snapshot.elapsed:.1f} s, "
        f"{totals.waiting} waiting; {totals.preemptions} preemptions evicted "
        f"{totals.evicted} pods.",
        "bold",
    )
    parts: list[RenderableType] = [Text(escape.printable(snapshot.title), "bold")]
    if snapshot.placements:
        parts.append(_placements(snapshot, palette))
    if snapshot.victims:
        parts.append(_victims(snapshot, palette))
    return Group(*parts, closing)


def _placements(snapshot: ViewSnapshot, palette: Palette) -> Table:
    table = _table("Placed", ("pod", "priority", "node", "waited", "in place of"))
    victims: dict[str, list[str]] = {}
    for victim in snapshot.victims:
        victims.setdefault(victim.preemptor, []).append(palette.name(victim.pod))
    ordered = sorted(snapshot.placements, key=lambda pod: (-pod.priority, pod.at))
    for placement in ordered[:_SUMMARY_ROWS]:
        table.add_row(
            Text(palette.name(placement.pod)),
            str(placement.priority),
            Text(escape.printable(placement.node)),
            f"{placement.waited:.2f} s",
            Text(", ".join(victims.get(placement.pod, []))),
        )
    return _capped(table, len(ordered))


def _victims(snapshot: ViewSnapshot, palette: Palette) -> Table:
    table = _table("Evicted", ("pod", "priority", "from", "gone after", "for"))
    for victim in snapshot.victims[:_SUMMARY_ROWS]:
        gone = "terminating"
        if victim.gone_at is not None:
            gone = f"{victim.gone_at - victim.evicted_at:.2f} s"
        table.add_row(
            Text(palette.name(victim.pod)),
            str(victim.priority),
            Text(escape.printable(victim.node)),
            gone,
            Text(palette.name(victim.preemptor)),
        )
    return _capped(table, len(snapshot.victims))


def _table(name: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=name, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        right = column in {"priority", "waited", "gone after"}
        table.add_column(
            column,
            header_style=view_lines.ACCENT,
            justify="right" if right else "left",
            overflow="ellipsis",
        )
    return table


def _capped(table: Table, rows: int) -> Table:
    if rows > _SUMMARY_ROWS:
        table.add_row(Text(f"and {rows - _SUMMARY_ROWS} more", view_lines.MUTED))
    return table
