"""The results of `plan` as a table for people."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["show"]

_STYLES = {
    "Scheduled": "green",
    "Preempting": "yellow",
    "Unschedulable": "red",
    "Gated": "blue",
    "Error": "bold red",
}

#: Wider than any table.
_PIPE_WIDTH: Final = 10_000


def show(
    results: Sequence[Mapping[str, Any]],
    final: Mapping[str, str | None] | None,
    console: Console | None = None,
) -> None:
    """Print the results, the verdict on each node if it is given, and the final placements."""
    console = console or _standard()
    if not results:
        console.print("no pending pods")
    else:
        console.print(_results(results))
    for result in results:
        if result.get("nodes"):
            # Not the title of the table, which would be wrapped at the width of the table.
            console.print(Text(f"{result['pod']}, node by node", "italic"))
            console.print(_nodes(result))
    if final is not None:
        console.print(_final(final))


def _standard() -> Console:
    """Return the console for standard output; in a pipe only `COLUMNS` breaks names."""
    found = Console(highlight=False)
    if found.is_terminal or os.environ.get("COLUMNS"):
        return found
    return Console(highlight=False, width=_PIPE_WIDTH)


def _table(*columns: str, title: str = "") -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _results(results: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("POD", "DECISION", "NODE", "VICTIMS", "WHY")
    for result in results:
        decision = result["decision"]
        victims = ", ".join(result["victims"])
        if result["pdbViolations"]:
            victims += f" ({result['pdbViolations']} violating a PodDisruptionBudget)"
        table.add_row(
            Text(result["pod"]),
            Text(decision, style=_STYLES[decision]),
            Text(result["node"] or "-"),
            Text(victims or "-"),
            Text(result["message"]),
        )
    return table


def _nodes(result: Mapping[str, Any]) -> Table:
    table = _table("NODE", "VERDICT", "SCORES", "TOTAL")
    for node in result["nodes"]:
        scores = ", ".join(f"{plugin} {score}" for plugin, score in node["scores"].items())
        rejected = node["filter"]
        verdict = "\n".join((rejected or "fits", *node.get("vetoes", ())))
        table.add_row(
            Text(node["name"]),
            Text(verdict, style="red" if rejected else "green"),
            Text(scores or "-"),
            Text(str(node["total"]) if node["scores"] else "-"),
        )
    return table


def _final(final: Mapping[str, str | None]) -> Table:
    table = _table("POD", "NODE", title="final placements")
    for pod, node in final.items():
        table.add_row(Text(pod), Text(node or "no node", style="" if node else "red"))
    return table
