"""The sections of the terminal view, each as a list of lines.

The input is a `ViewSnapshot`; `view` lays the sections out. A line is a `Text` of exactly the
requested width, so that nothing wraps and nothing moves between two updates.

Colours have a contrast of about 4:1 to white and to black, so they are legible on light and dark
backgrounds; no information is given by colour alone.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rich.text import Text

from scheduler.observe.logs import escape
from scheduler.terminal.values import (
    AttemptResult,
    AttemptView,
    NodeView,
    PodPhase,
    PodView,
    QueueView,
    VictimView,
    ViewSnapshot,
)

__all__ = [
    "Palette",
    "attempts",
    "bar",
    "fitted",
    "header",
    "natural",
    "nodes",
    "percent",
    "preemption",
    "queues",
    "title",
]

MUTED: Final = "grey46"
GOOD: Final = "green4"
BUSY: Final = "dark_orange3"
BAD: Final = "red1"
ACCENT: Final = "royal_blue1"

#: Styles of priority classes, the highest first; the last one is for all further classes.
_CLASS_STYLES: Final = ("deep_pink3", "dark_orange3", "royal_blue1", "spring_green4", "grey46")
_DIGITS: Final = re.compile(r"([0-9]+)")
_RESULTS: Final = {
    AttemptResult.PLACED: ("●", GOOD),
    AttemptResult.PREEMPTING: ("▲", BUSY),
    AttemptResult.UNSCHEDULABLE: ("○", MUTED),
    AttemptResult.FAILED: ("!", BAD),
}


class Palette:
    """Names, letters and colours of the pods of a snapshot.

    Classes get letters by priority, highest first: the first letter of the name that is still
    free. Pods without a class have `-`. A namespace that all pods share is left out.
    """

    def __init__(self, snapshot: ViewSnapshot) -> None:
        classes = dict(snapshot.classes)
        for pod in _pods(snapshot):
            if pod.priority_class:
                classes.setdefault(pod.priority_class, pod.priority)
        #: Highest first.
        self.classes = sorted(classes, key=lambda name: (-classes[name], name))
        self._letters = {"": "-"}
        self._styles = {"": MUTED}
        for rank, name in enumerate(self.classes):
            self._letters[name] = _free_letter(name, set(self._letters.values()))
            self._styles[name] = _CLASS_STYLES[min(rank, len(_CLASS_STYLES) - 1)]
        self._prefix = _shared_prefix(snapshot)

    def name(self, key: str) -> str:
        """Return the displayed name of a pod."""
        return escape.printable(key.removeprefix(self._prefix))

    def mark(self, pod: PodView) -> Text:
        """Return the symbol of a pod on a node."""
        letter = self._letters[pod.priority_class]
        style = self._styles[pod.priority_class]
        match pod.phase:
            case PodPhase.BOUND:
                return Text(letter, f"bold {style}")
            case PodPhase.TERMINATING:
                return Text(letter.lower(), f"{style} underline")
            case PodPhase.NOMINATED:
                return Text(f"({letter})", f"bold {style}")

    def legend(self) -> Text:
        """Return the legend of the symbols."""
        legend = Text("x terminating (X) nominated", MUTED)
        for name in self.classes:
            legend.append(f"  {self._letters[name]}", f"bold {self._styles[name]}")
            legend.append(f" {escape.printable(name)}", MUTED)
        return legend


def fitted(text: Text, width: int) -> Text:
    """Return the text in exactly `width` cells."""
    text.no_wrap = True
    text.truncate(width, overflow="ellipsis", pad=True)
    return text


def title(name: str, width: int, more: Text | None = None) -> Text:
    """Return the title line of a section."""
    line = Text(f"{name} ", f"bold {ACCENT}")
    if more is not None:
        line.append_text(more).append(" ")
    line.append("─" * max(0, width - line.cell_len), MUTED)
    return fitted(line, width)


def header(snapshot: ViewSnapshot, width: int) -> Text:
    """Return the first line: the time, the totals and, if there is space, the title."""
    totals = snapshot.totals
    elapsed = snapshot.elapsed
    line = Text(f"{elapsed:.1f} s" if elapsed < 100 else f"{int(elapsed)} s", "bold")
    for count, word, style in (
        (f"{totals.placed}/{totals.pods}", "placed", GOOD),
        (totals.waiting, "waiting", ""),
        (totals.preemptions, "preemptions", BUSY),
        (totals.evicted, "evicted", BUSY),
    ):
        line.append(f"  {count}", f"bold {style}").append(f" {word}")
    name = escape.printable(snapshot.title)
    space = width - line.cell_len - len(name)
    if space >= 2:
        line.append(" " * space + name, MUTED)
    return fitted(line, width)


def queues(snapshot: ViewSnapshot, palette: Palette, width: int) -> list[Text]:
    """Return a line for each queue: its length and its first pods."""
    return [fitted(_queue(queue, palette, width), width) for queue in snapshot.queues]


def nodes(snapshot: ViewSnapshot, palette: Palette, width: int, limit: int) -> list[Text]:
    """Return a line for each node, at most `limit`; nodes with changes come first."""
    shown = sorted(snapshot.nodes, key=lambda node: natural(node.name))
    rest: Sequence[NodeView] = ()
    if len(shown) > limit:
        shown.sort(key=lambda node: not _moves(node))
        shown, rest = shown[: limit - 1], shown[limit - 1 :]
    name_width = min(max((len(node.name) for node in shown), default=0), width // 5)
    lines = [_node(node, palette, width, name_width) for node in shown]
    if rest:
        cpu = percent(sum(n.cpu_used_millicores for n in rest), sum(n.cpu_millicores for n in rest))
        memory = percent(sum(n.memory_used_bytes for n in rest), sum(n.memory_bytes for n in rest))
        lines.append(Text(f"and {len(rest)} more nodes: cpu {cpu} %, memory {memory} %", MUTED))
    return [fitted(line, width) for line in lines]


def preemption(snapshot: ViewSnapshot, palette: Palette, width: int) -> list[Text]:
    """Return the waiting preemptors with their victims, then all other victims."""
    lines: list[Text] = []
    waiting = {nomination.pod for nomination in snapshot.nominations}
    for nomination in snapshot.nominations:
        line = Text(palette.name(nomination.pod), "bold")
        line.append(f" waits for {escape.printable(nomination.node)}", BUSY)
        lines.append(line.append(f"  {snapshot.elapsed - nomination.since:.1f} s", MUTED))
        lines.extend(
            _victim(victim, snapshot, palette, indent=2)
            for victim in snapshot.victims
            if victim.preemptor == nomination.pod
        )
    lines.extend(
        _victim(victim, snapshot, palette, indent=0)
        for victim in snapshot.victims
        if victim.preemptor not in waiting
    )
    return [fitted(line, width) for line in lines]


def attempts(snapshot: ViewSnapshot, palette: Palette, width: int) -> list[Text]:
    """Return a line for each recent attempt, newest first."""
    name_width = min(
        max((len(palette.name(attempt.pod)) for attempt in snapshot.attempts), default=0),
        width // 3,
    )
    return [fitted(_attempt(attempt, palette, name_width), width) for attempt in snapshot.attempts]


def _queue(queue: QueueView, palette: Palette, width: int) -> Text:
    style = "bold" if queue.count else MUTED
    line = Text(f"{queue.name:<13} {queue.count:>5}  ", style)
    names = "  ".join(palette.name(key) for key in queue.first)
    hidden = queue.count - len(queue.first)
    more = f"  +{hidden}" if hidden and names else ""
    space = max(1, width - line.cell_len - len(more))
    shown = Text(names)
    shown.truncate(space, overflow="ellipsis")
    return line.append_text(shown).append(more, MUTED)


def _node(node: NodeView, palette: Palette, width: int, name_width: int) -> Text:
    bar_width = 6 if width < 100 else 10
    line = fitted(Text(escape.printable(node.name)), name_width)
    for used, whole, unit, unit_name in (
        (node.cpu_used_millicores, node.cpu_millicores, 1000, "cpu"),
        (node.memory_used_bytes, node.memory_bytes, 2**30, "Gi"),
    ):
        line.append(" ").append_text(bar(used, whole, bar_width))
        amounts = f"{used / unit:.3g}/{whole / unit:.3g} {unit_name}"
        line.append(f" {amounts:<10} ")
    return line.append_text(_marks(node.pods, palette, max(1, width - line.cell_len)))


def _marks(pods: Iterable[PodView], palette: Palette, width: int) -> Text:
    ordered = sorted(pods, key=lambda pod: (-pod.priority, pod.phase, pod.key))
    marks = Text.assemble(*(palette.mark(pod) for pod in ordered))
    if marks.cell_len <= width:
        return marks
    signs = {(pod.priority_class, pod.phase): palette.mark(pod) for pod in ordered}
    counts = Counter((pod.priority_class, pod.phase) for pod in ordered)
    return Text(" ").join(signs[kind].append(str(count)) for kind, count in counts.items())


def _victim(victim: VictimView, snapshot: ViewSnapshot, palette: Palette, *, indent: int) -> Text:
    line = Text(" " * indent).append(palette.name(victim.pod))
    if victim.gone_at is None:
        line.append(f" terminating {snapshot.elapsed - victim.evicted_at:.1f} s", BUSY)
    else:
        line.append(f" gone after {victim.gone_at - victim.evicted_at:.1f} s", MUTED)
    if not indent:
        line.append(
            f"  {escape.printable(victim.node)} for {palette.name(victim.preemptor)}", MUTED
        )
    return line


def _attempt(attempt: AttemptView, palette: Palette, name_width: int) -> Text:
    sign, style = _RESULTS[attempt.result]
    line = Text(f"{attempt.at:6.1f} ", MUTED).append(f"{sign} ", style)
    line.append_text(fitted(Text(palette.name(attempt.pod)), name_width)).append(" ")
    node = escape.printable(attempt.node)
    match attempt.result:
        case AttemptResult.PLACED:
            return line.append(f"on {node}")
        case AttemptResult.PREEMPTING:
            line.append(f"preempts on {node}: ", style)
            return line.append(", ".join(palette.name(key) for key in attempt.victims))
        case AttemptResult.UNSCHEDULABLE | AttemptResult.FAILED:
            return line.append(escape.printable(attempt.message), style)


def bar(used: int, whole: int, width: int) -> Text:
    """Return a bar of `width` cells, filled by the used part."""
    share = min(1.0, used / whole) if whole > 0 else 0.0
    filled = round(share * width)
    bar = Text("█" * filled, BUSY if share > 0.9 else GOOD)
    return bar.append("░" * (width - filled), MUTED)


def percent(used: int, whole: int) -> int:
    """Return the used part; 0 of nothing."""
    return round(100 * used / whole) if whole else 0


def _moves(node: NodeView) -> bool:
    return any(pod.phase is not PodPhase.BOUND for pod in node.pods)


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts `node-2` before `node-10`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in _DIGITS.split(name)]


def _pods(snapshot: ViewSnapshot) -> Iterable[PodView]:
    return (pod for node in snapshot.nodes for pod in node.pods)


def _free_letter(name: str, taken: set[str]) -> str:
    letters = (char for char in name.upper() if char.isascii() and char.isalpha())
    return next((letter for letter in letters if letter not in taken), "?")


def _shared_prefix(snapshot: ViewSnapshot) -> str:
    keys = [pod.key for pod in _pods(snapshot)]
    keys += [attempt.pod for attempt in snapshot.attempts]
    keys += [key for queue in snapshot.queues for key in queue.first]
    namespaces = {key.partition("/")[0] for key in keys}
    return f"{namespaces.pop()}/" if len(namespaces) == 1 else ""
