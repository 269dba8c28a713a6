import dataclasses
import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

from scheduler.terminal import view
from scheduler.terminal.values import (
    AttemptResult,
    AttemptView,
    NodeView,
    NominationView,
    PlacementView,
    PodPhase,
    PodView,
    QueueView,
    Totals,
    VictimView,
    ViewSnapshot,
)

GIB = 2**30


def node(name: str, *pods: PodView) -> NodeView:
    return NodeView(name, 3_500, 4_000, 6 * GIB, 16 * GIB, pods)


LOW = PodView("demo/batch-1", 0, "low")
LEAVING = PodView("demo/batch-2", 0, "low", PodPhase.TERMINATING)
COMING = PodView("demo/db-1", 1_000, "high", PodPhase.NOMINATED)

SNAPSHOT = ViewSnapshot(
    title="a demo",
    elapsed=12.5,
    totals=Totals(pods=60, placed=48, waiting=7, preemptions=3, evicted=6),
    queues=(
        QueueView("active", 1, ("demo/web-1",)),
        QueueView("unschedulable", 40, ("demo/batch-7", "demo/batch-8")),
    ),
    nodes=(node("node-1", LOW), node("node-2", LOW, LEAVING, COMING)),
    attempts=(
        AttemptView(12.3, "demo/db-1", AttemptResult.PREEMPTING, "node-2", ("demo/batch-2",)),
        AttemptView(
            12.2, "demo/batch-7", AttemptResult.UNSCHEDULABLE, message="0/2 nodes are available"
        ),
        AttemptView(12.1, "demo/batch-1", AttemptResult.PLACED, "node-1"),
        AttemptView(12.0, "demo/odd", AttemptResult.FAILED, message="\x1b[31mboom\n"),
    ),
    nominations=(NominationView("demo/db-1", "node-2", 12.3),),
    victims=(
        VictimView("demo/batch-2", 0, "node-2", "demo/db-1", evicted_at=12.3),
        VictimView("demo/batch-0", 0, "node-1", "demo/db-0", evicted_at=5.0, gone_at=7.0),
    ),
    placements=(
        PlacementView("demo/batch-1", 0, "node-1", at=12.1, waited=0.5),
        PlacementView("demo/db-0", 1_000, "node-1", at=7.1, waited=2.25),
    ),
)

NODES = tuple(node(f"node-{i}", LOW) for i in range(1, 301))
BUSY = dataclasses.replace(
    SNAPSHOT,
    nodes=(*NODES, node("node-301", LEAVING)),
    attempts=SNAPSHOT.attempts * 100,
    victims=SNAPSHOT.victims * 100,
)

sizes = pytest.mark.parametrize(
    ("width", "height"), [(80, 24), (60, 20), (109, 30), (110, 30), (140, 45), (250, 70)]
)
tiny = pytest.mark.parametrize(("width", "height"), [(20, 5), (1, 1), (40, 2), (300, 3), (10, 50)])
snapshots = pytest.mark.parametrize(
    "snapshot",
    [SNAPSHOT, BUSY, ViewSnapshot("empty", 0.0)],
    ids=["a few nodes", "many of everything", "nothing"],
)


def shown(picture: RenderableType, width: int, height: int) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width, height=height, color_system=None).print(picture)
    return stream.getvalue().splitlines()


@sizes
@snapshots
def test_a_picture_fills_the_terminal_exactly(snapshot, width, height):
    lines = shown(view.render(snapshot), width, height)

    assert len(lines) == height
    assert {cell_len(line) for line in lines} == {width}


def test_the_caption_has_space_for_a_quarter_of_an_hour_and_more():
    totals = Totals(pods=19, placed=13, waiting=6, preemptions=3, evicted=6)
    settled = dataclasses.replace(
        SNAPSHOT, totals=totals, elapsed=1_234.5, title="settled; Ctrl-C ends"
    )

    first = shown(view.render(settled), 80, 24)[0]

    assert first.startswith("1234 s  13/19 placed  6 waiting  3 preemptions  6 evicted")
    assert first.endswith("  settled; Ctrl-C ends")


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_footer_is_the_last_line(width: int):
    lines = shown(view.render(SNAPSHOT, "ask it: " + "a" * 60), width, 24)

    assert len(lines) == 24
    assert lines[-1].startswith("ask it: aaa")
    assert max(map(len, lines)) <= width


@tiny
@snapshots
def test_a_tiny_terminal_gets_what_fits(snapshot, width, height):
    lines = shown(view.render(snapshot), width, height)

    assert len(lines) == height
    assert max(map(cell_len, lines)) <= width


@sizes
def test_a_picture_contains_the_facts(width, height):
    text = "\n".join(shown(view.render(SNAPSHOT), width, height))

    for fact in (
        "12.5 s",
        "48/60 placed",
        "7 waiting",
        "3 preemptions",
        "6 evicted",
        "batch-7  batch-8  +38",
        "3.5/4 cpu",
        "6/16 Gi",
        "db-1 waits for node-2",
        "batch-2 terminating 0.2 s",
        "batch-0 gone after 2.0 s  node-1 for db-0",
        "▲ db-1",
        "preempts on node-2: batch-2",
        "○ batch-7",
        "0/2 nodes are av",
        "on node-1",
    ):
        assert fact in text, fact


@pytest.mark.parametrize("width", [80, 140])
def test_pods_of_a_node_are_letters_by_class_and_phase(width):
    lines = shown(view.render(SNAPSHOT), width, 24)

    assert any(re.search(r"node-2 .* \(H\)Ll ", line) for line in lines)
    assert any("H high  L low" in line for line in lines)


def test_too_many_pods_are_counted_instead():
    crowded = dataclasses.replace(SNAPSHOT, nodes=(node("node-1", *[LOW] * 90, LEAVING),))

    text = "\n".join(shown(view.render(crowded), 80, 24))

    assert "L90 l1" in text


def test_nodes_where_something_moves_are_shown_first_and_the_rest_is_summed_up():
    lines = shown(view.render(BUSY), 80, 24)

    rows = [line for line in lines if re.match(r"node-\d|and ", line)]
    assert rows[0].startswith("node-301 ")
    assert rows[1].startswith("node-1 ")
    assert re.match(r"and 29\d more nodes: cpu 88 %, memory 38 %", rows[-1])


def test_nodes_are_in_natural_order():
    snapshot = dataclasses.replace(
        SNAPSHOT, nodes=(node("node-10"), node("node-9"), node("a"), node("node-1"))
    )

    lines = shown(view.render(snapshot), 80, 24)

    assert re.findall(r"^(node-\d+|a) ", "\n".join(lines), re.MULTILINE) == [
        "a",
        "node-1",
        "node-9",
        "node-10",
    ]


@sizes
def test_each_section_has_a_share_however_much_there_is_of_another(width, height):
    text = "\n".join(shown(view.render(BUSY), width, height))

    for section in ("Queues", "Nodes", "Preemption", "Attempts", "unschedulable", "▲ db-1"):
        assert section in text


def test_a_namespace_is_shown_when_there_are_several():
    foreign = AttemptView(1.0, "other/web", AttemptResult.PLACED, "node-1")

    text = "\n".join(shown(view.render(dataclasses.replace(SNAPSHOT, attempts=(foreign,))), 80, 24))

    assert "other/web" in text
    assert "demo/db-1" in text


def test_a_message_cannot_drive_the_terminal():
    stream = io.StringIO()
    console = Console(file=stream, width=140, height=45, color_system=None)

    console.print(view.render(SNAPSHOT))

    assert "\x1b" not in stream.getvalue()
    assert r"\x1b[31mboom\n" in stream.getvalue()


def test_a_node_without_capacity_is_no_division_by_zero():
    empty = dataclasses.replace(SNAPSHOT, nodes=(NodeView("node-1", 0, 0, 0, 0),))

    assert "0/0 cpu" in "\n".join(shown(view.render(empty), 80, 24))


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_summary_lists_placed_and_evicted_pods(width):
    lines = shown(view.summary(SNAPSHOT), width, 24)

    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    assert re.search(r"db-0 +1000 +node-1 +2.25 s +batch-0", text)
    assert re.search(r"batch-1 +0 +node-1 +0.50 s", text)
    assert re.search(r"batch-0 +0 +node-1 +2.00 s +db-0", text)
    assert re.search(r"batch-2 +0 +node-2 +terminating +db-1", text)
    assert "48 of 60 pods placed in 12.5 s" in text.replace("\n", " ")


def test_a_long_summary_is_cut():
    placements = tuple(
        PlacementView(f"demo/web-{i}", 0, "node-1", at=i, waited=1.0) for i in range(100)
    )

    text = "\n".join(
        shown(view.summary(dataclasses.replace(SNAPSHOT, placements=placements)), 80, 24)
    )

    assert "and 60 more" in text
    assert "web-39" in text
    assert "web-40" not in text


def test_the_live_display_shows_pictures_on_a_screen_of_its_own():
    stream = io.StringIO()
    console = Console(file=stream, width=80, height=24, force_terminal=True)

    with view.live(console) as display:
        display.update(view.render(SNAPSHOT), refresh=True)

    assert stream.getvalue().startswith("\x1b[?1049h")
    assert "48/60" in stream.getvalue()
    assert "\x1b[?1049l" in stream.getvalue()
