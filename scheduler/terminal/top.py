"""The live view of `kubectl preemptive top` and `make run`: queue, nodes and preemptions.

It is drawn from documents of `/api/v1`, which may hide names, and fills a terminal of any size:
sections are stacked in a narrow one and in two columns in a wide one, and share its height.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from scheduler.model import times
from scheduler.model.messages import short_name, without_preamble
from scheduler.model.rest.cluster import NodeUsage, PendingPodView, ResourceUse, Summary
from scheduler.model.rest.common import PodView
from scheduler.model.rest.preemptions import PreemptionView
from scheduler.model.times import Seconds
from scheduler.observe.logs import escape
from scheduler.terminal.browsing import Browsing, key_of
from scheduler.terminal.layout import (
    ACCENT,
    BAD,
    BUSY,
    GOOD,
    MUTED,
    Section,
    bar,
    fitted,
    natural,
    percent,
    stacked,
)

__all__ = ["TopPicture", "TopSnapshot", "live"]

#: The least width for two columns.
_WIDE: Final = 130
_SEPARATOR: Final = " │ "

_NOTHING: Final = ResourceUse()
#: Short names of the priority classes of Kubernetes.
_SYSTEM: Final = {2_000_000_000: "cluster-critical", 2_000_001_000: "node-critical"}


@dataclass(frozen=True, slots=True)
class TopSnapshot:
    """All that is shown, at one moment."""

    summary: Summary
    nodes: Sequence[NodeUsage] = ()
    #: The first ones of the queue.
    pending: Sequence[PendingPodView] = ()
    #: Newest first.
    preemptions: Sequence[PreemptionView] = ()
    #: How many more of both there are whose names the user may not see.
    hidden_pending: int = 0
    hidden_preemptions: int = 0
    #: Why it is not up to date; empty if it is.
    problem: str = ""
    #: What the scheduler has done, newest first, where its log is at hand.
    log: Sequence[Text] = ()


def live(console: Console) -> Live:
    """Return a display for `live.update(TopPicture(snapshot), refresh=True)`.

    It uses the alternate screen while it is open, and restores the terminal afterwards.
    """
    return Live(console=console, screen=True, auto_refresh=False)


@dataclass(frozen=True, slots=True)
class TopPicture:
    """A renderable that fills the console that it is printed on."""

    snapshot: TopSnapshot
    #: At the end of the first line: which key ends the view, for example.
    hint: str = ""
    #: The last lines; empty for none.
    footer: str = ""
    #: What the user has chosen, where there are keys.
    browsing: Browsing | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        width = options.max_width
        snapshot, chosen = self.snapshot, self.browsing
        hint = self.hint or (chosen.hint if chosen else "")
        lines = [_header(snapshot, hint, width), _queue(snapshot, width)]
        if snapshot.problem:
            lines.append(fitted(Text(escape.printable(snapshot.problem), BAD), width))
        if chosen and chosen.line():
            lines.append(fitted(Text(escape.printable(chosen.line()), BUSY), width))
        footer = [fitted(Text(line, MUTED), width) for line in self.footer.splitlines()]
        above = height - len(footer)
        lines += _below(snapshot, chosen, width, above - len(lines))
        return iter(lines[:above] + footer)


def _below(snapshot: TopSnapshot, chosen: Browsing | None, width: int, height: int) -> list[Text]:
    if not chosen:
        return _body(snapshot, "", width, height)
    if chosen.page:
        shown = [fitted(line.copy(), width) for line in chosen.page[chosen.top :][: max(0, height)]]
        return shown + [fitted(Text(), width) for _ in range(height - len(shown))]
    found = replace(
        snapshot,
        pending=chosen.pods(snapshot.pending),
        preemptions=chosen.past(snapshot.preemptions),
    )
    return _body(found, chosen.selected, width, height)


def _body(snapshot: TopSnapshot, selected: str, width: int, height: int) -> list[Text]:
    if width < _WIDE:
        sections = [
            *_queue_sections(snapshot, selected, width),
            *_preemption_sections(snapshot, selected, width),
        ]
        return stacked(sections, width, height)
    left_width = (width - len(_SEPARATOR)) // 2
    right_width = width - len(_SEPARATOR) - left_width
    left = stacked(_queue_sections(snapshot, selected, left_width), left_width, height)
    right = stacked(_preemption_sections(snapshot, selected, right_width), right_width, height)
    return [
        Text.assemble(a, (_SEPARATOR, MUTED), b, no_wrap=True)
        for a, b in zip(left, right, strict=True)
    ]


def _queue_sections(snapshot: TopSnapshot, selected: str, width: int) -> list[Section]:
    reasons = _reasons(snapshot, width)
    pending: list[Text] = []
    at = 0
    for each in snapshot.pending:
        line = _pending(each, snapshot, width)
        if selected == key_of(each):
            at = len(pending)
            _mark(line)
        pending.append(line)
    pending += _hidden(snapshot.hidden_pending, "waiting pods", width)
    nodes = snapshot.nodes
    return [
        Section("Why pods wait", len(reasons), 3, lambda count: reasons[:count]),
        Section(
            "Waiting pods",
            len(pending),
            4,
            lambda count: _around(pending, at, count),
            _shared(snapshot),
        ),
        Section("Nodes", len(nodes), 4, lambda count: _nodes(nodes, width, count), _legend()),
    ]


def _preemption_sections(snapshot: TopSnapshot, selected: str, width: int) -> list[Section]:
    preemptions: list[Text] = []
    at = 0
    for each in snapshot.preemptions:
        lines = _preemption(each, snapshot, width)
        if selected == key_of(each):
            at = len(preemptions)
            _mark(lines[0])
        preemptions += lines
    preemptions += _hidden(snapshot.hidden_preemptions, "preemptions", width)
    sections = [
        Section("Preemptions", len(preemptions), 4, lambda count: _around(preemptions, at, count))
    ]
    if snapshot.log:
        log = [fitted(line.copy(), width) for line in snapshot.log]
        sections.append(Section("Log", len(log), 4, lambda count: log[:count]))
    return sections


def _mark(line: Text) -> None:
    """Mark a line as selected: by a sign as well as by colours."""
    line.plain = f">{line.plain[1:]}"
    line.stylize("reverse")


def _around(lines: Sequence[Text], at: int, count: int) -> list[Text]:
    """Return so many lines: the first ones, or those up to the one at an index."""
    first = max(0, at - count + 1)
    return list(lines[first : first + count])


def _header(snapshot: TopSnapshot, hint: str, width: int) -> Text:
    summary = snapshot.summary
    moment = escape.printable(summary.now[11:19] or "-")
    line = Text(moment, "bold")
    if not summary.leader:
        line.append(" standby", BUSY)
    for count, word, style in (
        (summary.nodes, "nodes", ""),
        (summary.pods, "pods", ""),
        (summary.preemptions_active, "preempting", BUSY),
        (summary.victims, "evicted", ""),
        (summary.wasted_victims, "wasted", BAD if summary.wasted_victims else ""),
    ):
        line.append(f"  {count}", f"bold {style}").append(f" {word}")
    space = width - line.cell_len - len(hint)
    if hint and space < 2:
        line.truncate(max(0, width - len(hint) - 2), overflow="ellipsis")
        space = 2
    return fitted(line.append(" " * space).append(hint, MUTED), width)


def _queue(snapshot: TopSnapshot, width: int) -> Text:
    line = Text("queue", f"bold {ACCENT}")
    filled = {name: count for name, count in snapshot.summary.queue.items() if count}
    for name, count in filled.items():
        line.append(f"  {escape.printable(name)} ", MUTED).append(str(count), "bold")
    if not filled:
        line.append("  empty", MUTED)
    oldest = snapshot.summary.oldest_pending_seconds
    if oldest:
        line.append(f"  oldest {_age(oldest)}", MUTED)
    return fitted(line, width)


def _reasons(snapshot: TopSnapshot, width: int) -> list[Text]:
    lines = [
        Text(f"{each.pods:>6} ", "bold").append(escape.printable(each.reason))
        for each in snapshot.summary.reasons
    ]
    if snapshot.summary.other_reasons:
        lines.append(Text(f"{snapshot.summary.other_reasons:>6} other reasons", MUTED))
    return [fitted(line, width) for line in lines]


def _pending(each: PendingPodView, snapshot: TopSnapshot, width: int) -> Text:
    line = Text(f"{_since(each.since, snapshot):>6} ", MUTED)
    line.append(f"{escape.printable(each.phase):<13} ", BUSY if each.nominated_node else "")
    line.append_text(_fitted_name(each.pod, snapshot, width)).append(" ")
    if each.nominated_node:
        line.append(f"nominated to {escape.printable(each.nominated_node)}", BUSY)
    else:
        line.append(escape.printable(without_preamble(each.message)), MUTED)
    return fitted(line, width)


def _preemption(each: PreemptionView, snapshot: TopSnapshot, width: int) -> list[Text]:
    """Return the line of a preemption; and of its victims, while it is under way."""
    count = len(each.victims) + each.hidden_victims
    wasted = sum(victim.wasted for victim in each.victims)
    state = each.outcome or each.phase
    line = Text(f"{_since(each.decided_at, snapshot):>6} ", MUTED)
    line.append(f"{escape.printable(state):<12} ", GOOD if each.outcome == "bound" else BUSY)
    line.append_text(_fitted_name(each.preemptor, snapshot, width)).append(" ")
    line.append(f"{count} evicted on {escape.printable(each.node)}")
    if wasted:
        line.append(f", {wasted} wasted", BAD)
    lines = [line]
    if not each.outcome:
        shared = bool(_shared_namespace(snapshot))
        for victim in each.victims:
            name = _name(victim.pod, shared=shared)
            lines.append(Text(" " * 7).append(f"{victim.state:<12} ", BUSY).append(name))
    return [fitted(line, width) for line in lines]


def _hidden(count: int, what: str, width: int) -> list[Text]:
    """Return a line on what the user may not see, if there is any."""
    text = Text(f"and {count} {what} of namespaces in which you may not get pods", MUTED)
    return [fitted(text, width)] if count else []


def _nodes(nodes: Sequence[NodeUsage], width: int, limit: int) -> list[Text]:
    """Return a line for each node: those with changes first, then the fullest ones."""
    ordered = sorted(nodes, key=lambda node: natural(node.name))
    rest: Sequence[NodeUsage] = ()
    if len(ordered) > limit:
        ordered.sort(key=lambda node: (not _moves(node), -_fullness(node)))
        ordered, rest = ordered[: limit - 1], ordered[limit - 1 :]
    name_width = min(max((len(node.name) for node in ordered), default=0), width // 4)
    lines = [_node(node, name_width, width) for node in ordered]
    if rest:
        shares = (f"{name} {_share(rest, name)} %" for name in ("cpu", "memory"))
        lines.append(Text(f"and {len(rest)} more nodes: {', '.join(shares)}", MUTED))
    return [fitted(line, width) for line in lines]


def _node(node: NodeUsage, name_width: int, width: int) -> Text:
    bar_width = 6 if width < 100 else 12
    line = fitted(Text(escape.printable(node.name)), name_width)
    for name in ("cpu", "memory"):
        use = node.resources.get(name, _NOTHING)
        line.append(f" {name} ").append_text(bar(use.requested, use.allocatable, bar_width))
        line.append(f"{percent(use.requested, use.allocatable):>4} %")
    line.append(" ")
    if node.unschedulable:
        line.append(" cordoned", BUSY)
    # What changes comes first: the end of the line may be cut.
    for use_of in sorted(node.priorities, key=lambda use_of: not use_of.nominated):
        name = _SYSTEM.get(use_of.priority, str(use_of.priority))
        if use_of.nominated:
            line.append(f" ({name}:{use_of.pods})", f"bold {BUSY}")
            continue
        line.append(f" {name}:", MUTED).append(str(use_of.pods), "bold")
        if use_of.terminating:
            line.append(f"-{use_of.terminating}", BUSY)
    return line


def _legend() -> Text:
    return Text("priority:pods -terminating (nominated)", MUTED)


def _share(nodes: Sequence[NodeUsage], name: str) -> int:
    uses = [node.resources.get(name, _NOTHING) for node in nodes]
    return percent(sum(use.requested for use in uses), sum(use.allocatable for use in uses))


def _moves(node: NodeUsage) -> bool:
    return any(use.nominated or use.terminating for use in node.priorities)


def _fullness(node: NodeUsage) -> float:
    uses = (node.resources.get(name, _NOTHING) for name in ("cpu", "memory"))
    return max(use.requested / use.allocatable if use.allocatable else 0.0 for use in uses)


def _fitted_name(pod: PodView, snapshot: TopSnapshot, width: int) -> Text:
    """Return the name of a pod in a column; a namespace that all pods share is left out."""
    shown = _pods(snapshot)
    shared = bool(_shared_namespace(snapshot))
    longest = max(len(_name(each, shared=shared)) for each in shown)
    size = min(longest, max(12, width * 2 // 5))
    return fitted(Text(short_name(_name(pod, shared=shared), size)), size)


def _pods(snapshot: TopSnapshot) -> list[PodView]:
    """Return the pods whose names are shown."""
    pods = [each.pod for each in snapshot.pending]
    for each in snapshot.preemptions:
        pods.append(each.preemptor)
        if not each.outcome:
            pods += [victim.pod for victim in each.victims]
    return pods


def _shared_namespace(snapshot: TopSnapshot) -> str:
    """Return the namespace that all pods share; empty if they have several."""
    found = {each.namespace for each in _pods(snapshot) if not each.hidden}
    return found.pop() if len(found) == 1 else ""


def _shared(snapshot: TopSnapshot) -> Text | None:
    """Return what the title of the pods says about their namespace."""
    name = _shared_namespace(snapshot)
    return Text(f"namespace {escape.printable(name)}", MUTED) if name else None


def _name(pod: PodView, *, shared: bool) -> str:
    if pod.hidden:
        return "<hidden>"
    return escape.printable(pod.name if shared else f"{pod.namespace}/{pod.name}")


def _since(stamp: str, snapshot: TopSnapshot) -> str:
    then, now = times.parse(stamp), times.parse(snapshot.summary.now)
    return "?" if then is None or now is None else _age(now - then)


def _age(seconds: Seconds) -> str:
    """Return an age in at most five characters."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{int(seconds / size)}{unit}"
    return f"{max(0, int(seconds))}s"
