"""What keys do in the live view."""

import pytest
from rich.text import Text

from scheduler.model.rest.cluster import PendingPodView
from scheduler.model.rest.common import PodView
from scheduler.model.rest.preemptions import PreemptionView, VictimView
from scheduler.terminal.browsing import Browsing, keys, press

NOW = "2026-01-01T00:00:00Z"
PODS = [
    PendingPodView(PodView(namespace, name), "preemptive-scheduler", "backoff", NOW, message=why)
    for namespace, name, why in (
        ("prod", "api-0", "2 Insufficient cpu"),
        ("prod", "api-1", "2 Insufficient memory"),
        ("batch", "train-0", "2 Insufficient cpu"),
    )
]
PREEMPTION = PreemptionView(
    "p-1", 1, PodView("prod", "api-0"), "node-2", "awaiting", NOW,
    victims=(VictimView(PodView("batch", "train-9")),),
)  # fmt: skip


def after(sent: str, browsing: Browsing | None = None) -> tuple[Browsing, list[str]]:
    """Return the choices after what a terminal has sent, and what had to be done."""
    browsing, wishes = browsing or Browsing(), []
    for key in keys(sent):
        rows = browsing.past([PREEMPTION]) if browsing.preemptions else browsing.pods(PODS)
        browsing, wish = press(browsing, key, rows)
        wishes.append(wish)
    return browsing, [wish for wish in wishes if wish]


@pytest.mark.parametrize(
    ("sent", "selected"),
    [
        pytest.param("j", "prod/api-0", id="the first key selects the first row"),
        pytest.param("k", "prod/api-0", id="also upwards"),
        pytest.param("jj", "prod/api-1", id="down"),
        pytest.param("jjjjj", "batch/train-0", id="not beyond the end"),
        pytest.param("jjk", "prod/api-0", id="up"),
        pytest.param("\x1b[B\x1bOB\x1b[A", "prod/api-0", id="arrows, in both modes of a terminal"),
        pytest.param("\x1b[F", "batch/train-0", id="End"),
        pytest.param("j\x1b[F\x1b[H", "prod/api-0", id="Home"),
        pytest.param("\x1b[15~", "", id="a key that is not used"),
        pytest.param("/train\rj", "batch/train-0", id="the first one of the filter"),
        pytest.param("njq\r", "", id="none where no row matches"),
        pytest.param("pj", "p-1", id="a preemption"),
        pytest.param("jp", "", id="the other list has a selection of its own"),
        pytest.param("j\x1b", "", id="Esc"),
    ],
)
def test_a_row_is_selected(sent: str, selected: str):
    assert after(sent)[0].selected == selected


@pytest.mark.parametrize(
    ("sent", "wishes"),
    [
        pytest.param("q", ["quit"], id="q"),
        pytest.param("\x03", ["quit"], id="Ctrl-C"),
        pytest.param("/qQ", [], id="q in a filter"),
        pytest.param("/q\x03", ["quit"], id="Ctrl-C in a filter"),
        pytest.param("j\r", ["open"], id="Enter"),
        pytest.param("\r", [], id="Enter without a selection"),
        pytest.param("/api\r", ["read"], id="a filter, whose rows are read again"),
        pytest.param("j?\r", [], id="Enter closes a page"),
    ],
)
def test_what_has_to_be_done(sent: str, wishes: list[str]):
    assert after(sent)[1] == wishes


@pytest.mark.parametrize(
    ("sent", "line", "pods"),
    [
        pytest.param("", "", ["api-0", "api-1", "train-0"], id="all"),
        pytest.param("/CPU x\x7f\x7fi", "filter: CPUi▏", [], id="as it is typed"),
        pytest.param("/cpu prod\r", "filter: cpu prod", ["api-0"], id="each word"),
        pytest.param("nbatch\r", "namespace: batch", ["train-0"], id="a namespace"),
        pytest.param("nprod\r/memory\r", "filter: memory  namespace: prod", ["api-1"], id="both"),
        pytest.param("nprod\r\x1b", "", ["api-0", "api-1", "train-0"], id="Esc ends both"),
        pytest.param("/cpu\x1b[A\x1b", "", ["api-0", "api-1", "train-0"], id="Esc while typing"),
    ],
)
def test_rows_are_filtered(sent: str, line: str, pods: list[str]):
    browsing = after(sent)[0]

    assert browsing.line() == line
    assert [each.pod.name for each in browsing.pods(PODS)] == pods


@pytest.mark.parametrize("words", ["train-9", "node-2 await", "prod/api"])
def test_a_preemption_is_found_by_preemptor_victim_node_and_state(words: str):
    assert after(f"/{words}\r")[0].past([PREEMPTION]) == [PREEMPTION]


def test_a_selection_stays_with_its_pod_and_then_with_its_place():
    browsing = after("jj")[0]

    moved, _ = press(browsing, "k", PODS[::-1])
    gone, _ = press(browsing, "j", [PODS[0], PODS[2]])

    assert moved.selected == "batch/train-0"
    assert gone.selected == "batch/train-0"


def test_a_page_is_scrolled_and_left():
    browsing = Browsing(selected="prod/api-0", page=[Text(str(line)) for line in range(30)])

    assert after("jj k\x1b[6~", browsing)[0].top == 21
    assert after("\x1b[F", browsing)[0].top == 29
    assert after("j\x1b", browsing)[0] == Browsing(selected="prod/api-0")
