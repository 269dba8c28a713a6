"""`python -m deploy.tools.pages.diagrams`: writes the diagrams in `docs/img`.

Positions are chosen by hand; words are not. An arrow of a state diagram names its moves, and the
phases that it starts from and leads to come from the tables of the scheduler. A move that the
tables have and no arrow shows is an error, and so is the opposite.

A diagram has a background of its own and follows the colour scheme of the reader, so it is legible
on light and on dark pages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from scheduler.core.eviction import phases as preemption_phases
from scheduler.queue import phases as pod_phases

__all__ = ["DIAGRAMS", "Arrow", "Box", "Diagram", "main", "moves", "shown"]

FOLDER: Final = Path(__file__).parents[3] / "docs" / "img"

#: Phase, move, phase.
Moves = frozenset[tuple[str, str, str]]
#: (phase, move) -> phase, as the scheduler has it.
Table = Mapping[tuple[Any, Any], Any]
Point = tuple[int, int]

STYLE: Final = """\
  <style>
    svg { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
    .page { fill: #ffffff; stroke: #d0d7de; }
    .area { fill: #f6f8fa; stroke: #8c959f; stroke-dasharray: 5 4; }
    .box { fill: #ddf4ff; stroke: #0969da; stroke-width: 1.5; }
    .end { fill: #dafbe1; stroke: #1a7f37; }
    .outside { fill: #fff8c5; stroke: #9a6700; }
    .line { fill: none; stroke: #57606a; stroke-width: 1.5; marker-end: url(#tip); }
    .tip { fill: #57606a; }
    text { fill: #1f2328; font-size: 14px; text-anchor: middle; }
    .name { font-weight: 600; }
    .note, .label { font-size: 12px; fill: #424a53; }
    .left { text-anchor: start; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117; stroke: #3d444d; }
      .area { fill: #151b23; stroke: #656c76; }
      .box { fill: #0c2d6b; stroke: #4493f8; }
      .end { fill: #04260f; stroke: #3fb950; }
      .outside { fill: #341a00; stroke: #d29922; }
      .line { stroke: #9198a1; }
      .tip { fill: #9198a1; }
      text { fill: #f0f6fc; }
      .note, .label { fill: #c7d1db; }
    }
  </style>
  <defs>
    <marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">
      <path class="tip" d="M0,0 L9,4 L0,8 z"/>
    </marker>
  </defs>
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with a name and lines of text below it."""

    name: str
    x: int
    y: int
    width: int = 130
    height: int = 42
    notes: tuple[str, ...] = ()
    kind: str = "box"

    def svg(self) -> Iterable[str]:
        """Yield the elements of the box."""
        middle = self.x + self.width // 2
        top = self.y + 22 if self.kind == "area" else self.y + self._first_line()
        css = self.kind if self.kind in ("area", "box") else f"box {self.kind}"
        yield (
            f'<rect class="{css}" x="{self.x}" y="{self.y}" '
            f'width="{self.width}" height="{self.height}" rx="8"/>'
        )
        if self.name:
            yield f'<text class="name" x="{middle}" y="{top}">{escape(self.name)}</text>'
        for number, note in enumerate(self.notes, start=1):
            yield f'<text class="note" x="{middle}" y="{top + 17 * number}">{escape(note)}</text>'

    def _first_line(self) -> int:
        return (self.height - 17 * len(self.notes)) // 2 + 5


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line through points, with lines of text at a position of its own."""

    points: tuple[Point, ...]
    text: str
    at: Point
    #: The phases that it starts from, where it shows moves of a table.
    sources: tuple[str, ...] = ()
    left: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The moves that it shows."""
        return tuple(self.text.replace("\n", " ").split(", "))

    def svg(self) -> Iterable[str]:
        """Yield the elements of the arrow."""
        path = " L".join(f"{x},{y}" for x, y in self.points)
        yield f'<path class="line" d="M{path}"/>'
        x, y = self.at
        css = "label left" if self.left else "label"
        for number, line in enumerate(self.text.splitlines()):
            yield f'<text class="{css}" x="{x}" y="{y + 15 * number}">{escape(line)}</text>'


@dataclass(frozen=True, slots=True)
class Diagram:
    """A picture: what it shows, its boxes and its arrows."""

    title: str
    size: Point
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    notes: tuple[tuple[int, int, str], ...] = ()

    def svg(self) -> str:
        """Return the picture as SVG."""
        width, height = self.size
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" role="img">',
                f"  <title>{escape(self.title)}</title>",
                STYLE.rstrip("\n"),
                f'  <rect class="page" x="0.5" y="0.5" width="{width - 1}" '
                f'height="{height - 1}" rx="10"/>',
                *(f"  {line}" for box in self.boxes for line in box.svg()),
                *(f"  {line}" for arrow in self.arrows for line in arrow.svg()),
                *(
                    f'  <text class="note left" x="{x}" y="{y}">{escape(text)}</text>'
                    for x, y, text in self.notes
                ),
                "</svg>",
                "",
            ]
        )


def moves(table: Table) -> Moves:
    """Return the moves of a table."""
    return frozenset((str(phase), str(move), str(after)) for (phase, move), after in table.items())


def shown(arrows: Sequence[Arrow], table: Table) -> Moves:
    """Return the moves that arrows show; a move leads to the same phase from everywhere."""
    target = {str(move): str(after) for (_, move), after in table.items()}
    return frozenset(
        (source, move, target[move])
        for arrow in arrows
        for source in arrow.sources
        for move in arrow.names
    )


def _checked(diagram: Diagram, table: Table) -> Diagram:
    """Return a diagram that shows exactly the moves and phases of a table.

    Raises:
        ValueError: It does not.
    """
    want, found = moves(table), shown(diagram.arrows, table)
    if want != found:
        raise ValueError(f"{diagram.title}: {sorted(want ^ found)}")
    phases = {phase for source, _, target in want for phase in (source, target)}
    boxes = {box.name for box in diagram.boxes if box.kind != "area"}
    if boxes != phases:
        raise ValueError(f"{diagram.title}: {sorted(boxes ^ phases)}")
    return diagram


_WAITING: Final = ("gated", "active", "backoff", "unschedulable")

_POD: Final = Diagram(
    title="Phases of a pending pod",
    size=(980, 500),
    boxes=(
        Box("in the queue", 180, 20, 320, 420, kind="area"),
        Box("new", 16, 160, 80),
        Box("gated", 290, 70, 140, 46, ("a PreEnqueue plugin",)),
        Box("active", 290, 158, 140, 46, ("waits for its turn",)),
        Box("backoff", 290, 256, 140, 46, ("waits for a time",)),
        Box("unschedulable", 290, 356, 140, 46, ("waits for an event",)),
        Box("deciding", 620, 158, 150, 46, ("one attempt",)),
        Box("asking", 690, 48, 150, 46, ("waits for extenders",)),
        Box("binding", 836, 158, 126, 46, ("assumed",)),
        Box("preempting", 620, 270, 150, 46, ("evicts its victims",)),
        Box("removed", 836, 380, 126, 46, ("bound or deleted",), "end"),
    ),
    arrows=(
        Arrow(((96, 181), (178, 181)), "activate,\ngate", (136, 157), ("new",)),
        Arrow(((340, 116), (340, 156)), "activate", (347, 141), ("gated",), left=True),
        Arrow(
            ((430, 93), (452, 93), (452, 270), (432, 270)),
            "back_off", (457, 150), ("gated",), left=True,
        ),
        Arrow(((310, 70), (310, 54), (350, 54), (350, 68)), "gate", (382, 60), ("gated",)),
        Arrow(((340, 256), (340, 206)), "activate", (347, 236), ("backoff",), left=True),
        Arrow(((360, 356), (360, 304)), "back_off", (367, 334), ("unschedulable",), left=True),
        Arrow(
            ((290, 372), (268, 372), (268, 190), (288, 190)),
            "activate", (272, 232), ("unschedulable",), left=True,
        ),
        Arrow(
            ((290, 388), (226, 388), (226, 93), (288, 93)), "gate", (207, 240), ("unschedulable",)
        ),
        Arrow(((430, 174), (618, 174)), "pop", (560, 167), ("active",)),
        Arrow(
            ((430, 286), (560, 286), (560, 194), (618, 194)),
            "pop", (566, 250), ("backoff",), left=True,
        ),
        Arrow(
            ((640, 158), (640, 110), (502, 110)),
            "activate, back_off,\nmark_unschedulable, gate", (580, 87), ("deciding",),
        ),
        Arrow(((720, 158), (720, 96)), "suspend", (684, 130), ("deciding",)),
        Arrow(((750, 94), (750, 156)), "resume", (757, 130), ("asking",), left=True),
        Arrow(((770, 181), (834, 181)), "assume", (801, 173), ("deciding",)),
        Arrow(((695, 204), (695, 268)), "preempt", (702, 240), ("deciding",), left=True),
        Arrow(
            ((620, 300), (590, 300), (590, 340), (502, 340)),
            "activate, back_off,\nmark_unschedulable, gate", (510, 358), ("preempting",), left=True,
        ),
        Arrow(
            ((899, 204), (899, 344), (780, 344), (780, 410), (502, 410)),
            "activate, back_off, gate", (640, 402), ("binding",),
        ),
        Arrow(
            ((899, 460), (899, 428)), "delete", (906, 450),
            ("new", *_WAITING, "deciding", "asking", "preempting", "binding"), left=True,
        ),
    ),
    notes=(
        (24, 470, "A move names its goal: gate leads to gated, activate to active, back_off to "
         "backoff."),
        (730, 476, "delete leads to removed from every phase."),
    ),
)  # fmt: skip

_OPEN: Final = ("nominating", "recording", "evicting")
_WAITS: Final = ("awaiting", "deallocating")
_UNDER_WAY: Final = ("inherited", *_OPEN, "stopping", "failing", *_WAITS, "withdrawn")

_PREEMPTION: Final = Diagram(
    title="Phases of a preemption",
    size=(1130, 560),
    boxes=(
        Box("", 16, 16, 896, 500, kind="area"),
        Box("inherited", 500, 34, 150, 46, ("from an earlier leader",)),
        Box("", 28, 140, 636, 86, kind="area"),
        Box("nominating", 42, 160, 150, 46, ("write the nomination",)),
        Box("recording", 270, 160, 150, 46, ("write the ledger",)),
        Box("evicting", 500, 160, 150, 46, ("request evictions",)),
        Box("", 724, 140, 168, 180, kind="area"),
        Box("awaiting", 734, 160, 148, 46, ("victims terminate",)),
        Box("deallocating", 734, 254, 148, 46, ("claims keep devices",)),
        Box("stopping", 150, 390, 150, 46, ("then retry at once",)),
        Box("failing", 440, 390, 150, 46, ("then back off",)),
        Box("withdrawn", 734, 390, 148, 46, ("nomination given up",)),
        Box("vacated", 984, 390, 130, 46, ("resources are free",)),
        Box("done", 984, 160, 130, 46, (), "end"),
    ),
    arrows=(
        Arrow(((192, 183), (268, 183)), "nominated", (229, 174), ("nominating",)),
        Arrow(((420, 183), (498, 183)), "recorded", (458, 174), ("recording",)),
        Arrow(((650, 183), (732, 183)), "evicted", (692, 174), ("evicting",)),
        Arrow(((500, 57), (345, 57), (345, 158)), "resume", (422, 49), ("inherited",)),
        Arrow(((650, 68), (790, 68), (790, 158)), "recognise", (718, 84), ("inherited",)),
        Arrow(
            ((650, 46), (902, 46), (902, 404), (884, 404)), "withdraw", (800, 38), ("inherited",)
        ),
        Arrow(((808, 206), (808, 252)), "victims gone", (814, 234), ("awaiting",), left=True),
        Arrow(((225, 226), (225, 388)), "stop", (232, 310), _OPEN, left=True),
        Arrow(((515, 226), (515, 388)), "fail", (522, 310), _OPEN, left=True),
        Arrow(((300, 413), (438, 413)), "fail", (368, 405), ("stopping",)),
        Arrow(((590, 413), (732, 413)), "withdraw", (660, 405), ("failing",)),
        Arrow(
            ((225, 436), (225, 476), (790, 476), (790, 438)), "withdraw", (512, 469), ("stopping",)
        ),
        Arrow(((808, 320), (808, 388)), "withdraw", (814, 360), _WAITS, left=True),
        Arrow(((912, 423), (982, 423)), "vacate", (946, 415), _UNDER_WAY),
        Arrow(((912, 183), (982, 183)), "end", (946, 175), _UNDER_WAY),
        Arrow(((1049, 390), (1049, 208)), "end", (1056, 302), ("vacated",), left=True),
    ),
    notes=(
        (28, 540, "An arrow from a dashed frame starts at every phase in it. "
         "end: the preemptor is bound, or nothing was evicted for it."),
    ),
)  # fmt: skip

_ARCHITECTURE: Final = Diagram(
    title="Architecture",
    size=(980, 520),
    boxes=(
        Box("API server", 24, 40, 120, 380, (), "outside"),
        Box("one event loop: the owner of all state", 210, 20, 746, 336, kind="area"),
        Box("kube/watch", 234, 64, 150, 62, ("informers:", "list and watch")),
        Box("core/machine", 470, 64, 190, 62, ("observe: events in", "step: one attempt")),
        Box("queue", 740, 56, 200, 46, ("active, backoff, ...",)),
        Box("state", 740, 116, 200, 62, ("nodes, pods, volumes,", "budgets, ledger")),
        Box("core/attempt", 470, 176, 190, 46, ("filter, score, pick a node",)),
        Box("plugins", 740, 194, 200, 46, ("compiled by class of pods",)),
        Box("core/preemption", 470, 252, 190, 46, ("candidates and victims",)),
        Box("core/eviction", 740, 260, 200, 66, ("carries plans out:", "nominate, evict, wait")),
        Box("kube/write", 234, 246, 150, 62, ("writer:", "effects, in order")),
        Box("extenders", 24, 450, 120, 46, (), "outside"),
        Box("kube/extenders", 234, 450, 150, 46, ("HTTP, optional",)),
        Box("other threads", 450, 376, 506, 126, kind="area"),
        Box("kube/policies", 474, 422, 210, 62, ("kopf watches", "PreemptionPolicies")),
        Box("observe/server", 730, 422, 210, 62, ("health, metrics,", "debug pages")),
    ),
    arrows=(
        Arrow(((144, 95), (232, 95)), "watch", (177, 87)),
        Arrow(((384, 82), (468, 82)), "events", (424, 74)),
        Arrow(((660, 80), (738, 80)), "pop", (698, 73)),
        Arrow(((660, 112), (696, 112), (696, 147), (738, 147)), "write", (716, 140)),
        Arrow(((565, 126), (565, 174)), "step", (572, 154), left=True),
        Arrow(((740, 217), (700, 217), (700, 199), (662, 199)), "rules", (702, 234)),
        Arrow(((565, 222), (565, 250)), "no node fits", (573, 241), left=True),
        Arrow(((660, 275), (738, 275)), "plan", (698, 268)),
        Arrow(((470, 207), (430, 207), (430, 264), (386, 264)), "bind", (436, 238), left=True),
        Arrow(
            ((740, 316), (430, 316), (430, 290), (386, 290)), "nominate, evict", (560, 334)
        ),
        Arrow(((234, 277), (146, 277)), "requests", (178, 269)),
        Arrow(((309, 246), (309, 160), (430, 160), (430, 108), (468, 108)), "outcomes", (368, 152)),
        Arrow(((309, 308), (309, 448)), "asks", (316, 400), left=True),
        Arrow(((234, 473), (146, 473)), "HTTP", (189, 465)),
        Arrow(((579, 422), (579, 358)), "policies, as events", (586, 416), left=True),
        Arrow(((835, 422), (835, 358)), "reads pages", (842, 416), left=True),
    ),
)  # fmt: skip

_SERVING: Final = Diagram(
    title="What serves people",
    size=(1060, 520),
    boxes=(
        Box("kubectl preemptive", 20, 56, 176, 62, ("why, preemptions,", "plan, top"), "outside"),
        Box("browser", 20, 170, 176, 46, ("the page of the console",), "outside"),
        Box("Prometheus, kubelet", 20, 290, 176, 62, ("metrics,", "health checks"), "outside"),
        Box("web_console", 240, 162, 150, 62, ("a server on the", "user's machine")),
        Box("the serving thread", 440, 20, 260, 360, kind="area"),
        Box("observe/server", 480, 64, 200, 62, ("accepts, limits,", "authenticates, responds")),
        Box("observe/pages/health", 480, 170, 200, 46, ("reads single values",)),
        Box("service/what_if", 480, 300, 200, 46, ("a queue of questions",)),
        Box("the scheduler's loop", 800, 20, 240, 360, kind="area"),
        Box("service/page_access", 820, 56, 200, 46, ("authorizes the caller",)),
        Box("observe/api", 820, 116, 200, 62, ("documents of /api/v1,", "history of decisions")),
        Box("observe/pages, metrics", 820, 192, 200, 46, ("/debug, /metrics",)),
        Box("core/machine", 820, 252, 200, 46, ("pages only read it",)),
        Box("service/recording", 820, 312, 200, 46, ("when a segment begins",)),
        Box("what-if process", 480, 430, 200, 62, ("sim: a machine on a", "cluster in memory")),
        Box("writing thread", 800, 430, 140, 62, ("observe/recorder",)),
        Box("files", 976, 430, 64, 62, (), "outside"),
    ),
    arrows=(
        Arrow(((196, 87), (478, 87)), "port-forward through the API server", (316, 79)),
        Arrow(((196, 193), (238, 193)), "HTTP", (217, 186)),
        Arrow(((315, 162), (315, 108), (478, 108)), "port-forward", (378, 124)),
        Arrow(((196, 321), (420, 321), (420, 118), (478, 118)), "HTTPS to the pod", (308, 314)),
        Arrow(((680, 95), (798, 95)), "page_runner", (749, 87)),
        Arrow(((600, 126), (600, 168)), "/healthz, /readyz", (607, 152), left=True),
        Arrow(((510, 126), (510, 140), (462, 140), (462, 323), (478, 323)), "plan", (480, 262)),
        Arrow(((800, 323), (682, 323)), "parts of the state", (745, 315)),
        Arrow(((580, 346), (580, 428)), "state and question", (587, 408), left=True),
        Arrow(((870, 358), (870, 428)), "lines", (878, 408), left=True),
        Arrow(((940, 461), (974, 461)), "", (0, 0)),
    ),
)  # fmt: skip

_OPERATION: Final = Diagram(
    title="What runs where, and who talks to whom",
    size=(1000, 470),
    boxes=(
        Box("a user's machine", 16, 30, 220, 220, kind="area"),
        Box("kubectl preemptive", 36, 70, 180, 46, ("kubeconfig of the user",), "outside"),
        Box("browser", 36, 180, 180, 46, ("console on 127.0.0.1",), "outside"),
        Box("API server", 350, 30, 150, 410, ("keeps in etcd:", "Lease, ledger,",
            "policies, nominations,", "plans, Events"), "outside"),
        Box("the scheduler's namespace", 620, 30, 364, 340, kind="area"),
        Box("leading replica", 650, 70, 304, 86, ("decides, writes, serves port 10259;",
            "in memory: queue, history;", "recording in its emptyDir")),
        Box("what-if process", 650, 196, 304, 46, ("a child of the replica, without credentials",)),
        Box("standby replica", 650, 300, 304, 46, ("the whole cluster in memory, ready to lead",)),
        Box("Prometheus", 650, 404, 130, 42, (), "outside"),
        Box("kubelet", 824, 404, 130, 42, (), "outside"),
    ),
    arrows=(
        Arrow(((216, 93), (348, 93)), "port-forward,\nuser's token", (282, 68)),
        Arrow(((126, 178), (126, 118)), "HTTP", (134, 152), left=True),
        Arrow(((500, 93), (648, 93)), "tunnel to 10259", (566, 85)),
        Arrow(((650, 132), (502, 132)), "list, watch, bind,\nnominate, evict,\nreview of tokens",
              (560, 150)),
        Arrow(((802, 156), (802, 194)), "copy of the state", (810, 180), left=True),
        Arrow(((650, 323), (502, 323)), "list, watch,\ntry the lease", (560, 341)),
        Arrow(((715, 404), (715, 372)), "/metrics, token", (722, 394), left=True),
        Arrow(((889, 404), (889, 372)), "probes", (896, 394), left=True),
    ),
    notes=(
        (24, 290, "The user's token goes through the"),
        (24, 307, "tunnel to the scheduler, which asks"),
        (24, 324, "the API server who it is and what"),
        (24, 341, "it may read. Its hash is kept for"),
        (24, 358, "ten seconds, the token is not."),
        (24, 392, "There is no webhook and no database."),
    ),
)  # fmt: skip

_TIMELINE: Final = Diagram(
    title="One preemption on one node, from left to right",
    size=(980, 372),
    boxes=(
        Box("waits", 200, 136, 120, 46, ("fits on no node",)),
        Box("nominated to the node", 320, 136, 410, 46, ("what is freed is kept "
            "from pods of lower priority",), "outside"),
        Box("runs", 730, 136, 226, 46, ("bound",), "end"),
        Box("runs", 200, 216, 190, 46, ()),
        Box("terminates", 390, 216, 240, 46, ("within its own grace period",), "outside"),
        Box("gone", 630, 216, 100, 46, kind="area"),
        Box("runs", 200, 56, 756, 46, ("spared: the preemptor fits without its eviction",)),
    ),
    arrows=(
        Arrow(((320, 314), (320, 184)), "1. nominate", (320, 331)),
        Arrow(((390, 314), (390, 264)), "2. evict", (402, 331), left=True),
        Arrow(((630, 314), (630, 264)), "3. wait ends", (630, 331)),
        Arrow(((730, 314), (730, 184)), "4. bind", (730, 331)),
        Arrow(((200, 290), (956, 290)), "time", (936, 308)),
    ),
    notes=(
        (20, 36, "All three pods compete for one node, the candidate that was chosen."),
        (20, 76, "another pod"),
        (20, 93, "priority 100"),
        (20, 156, "preemptor"),
        (20, 173, "priority 10000"),
        (20, 236, "victim"),
        (20, 253, "priority 100"),
        (20, 358, "Wasted: the victim is evicted and the preemptor does not run on what it freed."),
    ),
)  # fmt: skip

#: By file name.
DIAGRAMS: Final[Mapping[str, Diagram]] = {
    "architecture.svg": _ARCHITECTURE,
    "operation.svg": _OPERATION,
    "preemption.svg": _TIMELINE,
    "serving.svg": _SERVING,
    "pod-phases.svg": _checked(_POD, pod_phases.TABLE),
    "preemption-phases.svg": _checked(_PREEMPTION, preemption_phases.TABLE),
}


def main() -> None:
    """Write the diagrams."""
    for name, diagram in DIAGRAMS.items():
        (FOLDER / name).write_text(diagram.svg())


if __name__ == "__main__":
    main()
