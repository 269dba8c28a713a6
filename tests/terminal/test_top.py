"""The live view of `kubectl preemptive top` and `make run`."""

import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from scheduler.model.rest.cluster import (
    NodeUsage,
    PendingPodView,
    PriorityUse,
    ReasonCount,
    ResourceUse,
    Summary,
)
from scheduler.model.rest.common import PodView
from scheduler.model.rest.preemptions import PreemptionView, VictimView
from scheduler.terminal.browsing import Browsing
from scheduler.terminal.top import TopPicture, TopSnapshot, live

NOW = "2026-01-01T00:00:00Z"
SUMMARY = Summary(
    NOW,
    "v1.37",
    leader=True,
    revision=1,
    queue={"unschedulable": 40},
    reasons=(ReasonCount("Insufficient cpu", 40),),
    nodes=2,
    victims=6,
)
VICTIMS = (
    VictimView(PodView("prod", "batch-2"), state="terminating"),
    VictimView(PodView(hidden=True), state="gone"),
)


def pending(namespace: str, name: str, message: str = "") -> PendingPodView:
    pod = PodView(namespace, name)
    return PendingPodView(pod, "preemptive-scheduler", "unschedulable", NOW, message=message)


def node(name: str, *uses: PriorityUse, cpu: int = 3_500) -> NodeUsage:
    return NodeUsage(name, resources={"cpu": ResourceUse(4_000, cpu)}, priorities=uses)


def preemption(name: str, outcome: str = "") -> PreemptionView:
    pod = PodView("prod", name)
    return PreemptionView(name, 1, pod, "node-2", "awaiting", NOW, outcome=outcome, victims=VICTIMS)


LOW = PriorityUse(0, 90)
LEAVING = PriorityUse(0, 3, terminating=2)
COMING = PriorityUse(1_000, 1, nominated=True)
SNAPSHOT = TopSnapshot(
    SUMMARY,
    nodes=[node("node-1", LOW), node("node-2", COMING, LEAVING)],
    pending=[pending("prod", "odd", "0/2 nodes are available: \x1b[31mboom\n")],
    preemptions=[preemption("db-1"), preemption("db-0", outcome="bound")],
    log=[Text("12.3 ▲ preempts db-1 on node-2")],
)
BUSY = replace(
    SNAPSHOT,
    nodes=[*(node(f"node-{i}", LOW, cpu=1_000) for i in range(1, 301)), node("node-301", LEAVING)],
    pending=SNAPSHOT.pending * 100,
    preemptions=SNAPSHOT.preemptions * 100,
    log=SNAPSHOT.log * 100,
)

sizes = pytest.mark.parametrize(
    ("width", "height"), [(80, 24), (60, 20), (129, 30), (130, 30), (140, 45), (250, 70)]
)
tiny = pytest.mark.parametrize(("width", "height"), [(20, 5), (1, 1), (40, 2), (300, 3), (10, 50)])
snapshots = pytest.mark.parametrize(
    "snapshot",
    [SNAPSHOT, BUSY, TopSnapshot(SUMMARY)],
    ids=["a few nodes", "many of everything", "nothing"],
)


def shown(picture: TopPicture, width: int = 80, height: int = 24) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width, height=height, color_system=None).print(picture)
    return stream.getvalue().splitlines()


@sizes
@snapshots
def test_a_picture_fills_the_terminal_exactly(snapshot: TopSnapshot, width: int, height: int):
    lines = shown(TopPicture(snapshot, "q quits", "ask it"), width, height)

    assert len(lines) == height
    assert {cell_len(line) for line in lines} == {width}
    assert lines[0].endswith("q quits")
    assert lines[-1].startswith("ask it")


@tiny
@snapshots
def test_a_tiny_terminal_gets_what_fits(snapshot: TopSnapshot, width: int, height: int):
    lines = shown(TopPicture(snapshot, "q quits"), width, height)

    assert len(lines) == height
    assert max(map(cell_len, lines)) <= width


@sizes
def test_sections_share_the_height(width: int, height: int):
    few, many = ("\n".join(shown(TopPicture(it), width, height)) for it in (SNAPSHOT, BUSY))

    for fact in ("6 evicted", "unschedulable 40", "Insufficient cpu", "node-2", "awaiting", "▲"):
        assert fact in few, fact
    for section in ("Why pods wait", "Waiting pods", "Nodes", "Preemptions", "Log"):
        assert section in many, section


def test_a_preemption_under_way_has_its_victims():
    lines = shown(TopPicture(SNAPSHOT))

    first = next(i for i, line in enumerate(lines) if "awaiting" in line)
    assert [" ".join(line.split()) for line in lines[first : first + 4]] == [
        "0s awaiting db-1 2 evicted on node-2",
        "terminating batch-2",
        "gone <hidden>",
        "0s bound db-0 2 evicted on node-2",
    ]


def test_there_is_no_log_where_there_is_none_to_show():
    assert "Log" not in "\n".join(shown(TopPicture(replace(SNAPSHOT, log=()))))


def test_nodes_that_change_come_first_and_the_rest_is_one_line():
    rows = [line for line in shown(TopPicture(BUSY)) if re.match(r"node-\d|and ", line)]

    assert rows[0].startswith("node-301 ")
    assert re.match(r"and \d+ more nodes: cpu 25 %", rows[-1])


def test_nodes_are_in_natural_order():
    nodes = [node("node-10"), node("node-9"), node("a"), node("node-1")]

    text = "\n".join(shown(TopPicture(TopSnapshot(SUMMARY, nodes))))

    found = re.findall(r"^(node-\d+|a) ", text, re.MULTILINE)
    assert found == ["a", "node-1", "node-9", "node-10"]


def test_a_node_without_capacity_is_empty():
    text = "\n".join(shown(TopPicture(TopSnapshot(SUMMARY, [NodeUsage("node-1")]))))

    assert "cpu ░░░░░░   0 %" in text


def test_names_of_several_namespaces_keep_their_ends():
    names = [f"batch-5b8b7f945b-{end}" for end in ("2rjdx", "9pn5m")]
    pods = [pending("preemption-example", name, "") for name in names] + SNAPSHOT.pending

    text = "\n".join(shown(TopPicture(replace(SNAPSHOT, pending=pods))))

    assert "/batch-…-2rjdx" in text
    assert "/batch-…-9pn5m" in text


def test_a_message_cannot_drive_the_terminal():
    text = "\n".join(shown(TopPicture(SNAPSHOT)))

    assert "\x1b" not in text
    assert r"\x1b[31mboom\n" in text


@pytest.mark.parametrize(
    ("namespaces", "title", "name"),
    [
        pytest.param(("prod", "prod"), "Waiting pods namespace prod ─", " api-1", id="shared"),
        pytest.param(("prod", "batch"), "Waiting pods ─", "batch/api-1", id="several"),
    ],
)
def test_a_namespace_that_all_pods_share_is_in_the_title(
    namespaces: tuple[str, str], title: str, name: str
):
    pods = [pending(namespace, f"api-{i}") for i, namespace in enumerate(namespaces)]

    text = "\n".join(shown(TopPicture(TopSnapshot(SUMMARY, pending=pods))))

    assert title in text
    assert name in text


@pytest.mark.parametrize("width", [80, 200])
def test_the_selected_row_is_in_sight_and_marked(width: int):
    pods = [pending("prod", f"api-{i}") for i in range(99)]
    chosen = Browsing(selected="prod/api-70")

    lines = shown(TopPicture(replace(SNAPSHOT, pending=pods), browsing=chosen), width)

    (marked,) = [line for line in lines if line.startswith(">")]
    assert "api-70 " in marked
    assert lines[0].endswith("? help  q quit")


def test_a_page_covers_the_lists():
    chosen = Browsing(page=[Text("Pod prod/api-0"), Text("is waiting")], top=1)

    lines = shown(TopPicture(SNAPSHOT, browsing=chosen), height=5)

    assert [line.rstrip() for line in lines[2:]] == ["is waiting", "", ""]


def test_the_live_display_has_a_screen_of_its_own():
    stream = io.StringIO()
    console = Console(file=stream, width=80, height=24, force_terminal=True)

    with live(console) as display:
        display.update(TopPicture(SNAPSHOT), refresh=True)

    assert stream.getvalue().startswith("\x1b[?1049h")
    assert "evicted" in stream.getvalue()
    assert "\x1b[?1049l" in stream.getvalue()
