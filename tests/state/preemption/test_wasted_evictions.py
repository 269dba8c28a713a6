"""Wasted evictions are limited within an hour, for any reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.state.preemption.wasted_evictions import (
    FORGOTTEN_AFTER,
    MAX_BYTES,
    MAX_PREEMPTIONS,
    MAX_VICTIMS,
    WINDOW,
    NodePause,
    WastedEvictions,
    WasteEntry,
    WastePause,
    WasteScope,
)

OWNER = "Job/ns/j"


def wasted(*victims: int, every: float = 1.0) -> WastedEvictions:
    """Return wasted preemptions of one pod, each on another node."""
    made = WastedEvictions()
    for number, many in enumerate(victims):
        made.record("p", OWNER, f"n{number}", many, number * every)
    return made


def spread(count: int, owner: str = "Job/ns/{}", node: str = "n{}") -> WastedEvictions:
    """Return wasted preemptions of many pods with one victim each, at one moment."""
    made = WastedEvictions()
    for number in range(count):
        made.record(f"p{number}", owner.format(number), node.format(number), 1, 0.0)
    return made


@pytest.mark.parametrize(
    ("before", "victims", "allowed"),
    [
        ((), 500, True),
        ((40,), 8, True),
        ((40,), 9, False),
        ((1,), 40, True),
        ((8,), 8, True),
        ((8, 1), 8, False),
        ((4, 4), 4, True),
        ((1, 1), 1, True),
        ((1, 1, 1), 1, False),
        ((0, 0, 0, 0), 1, True),
    ],
)
def test_one_pod_has_few_wasted_victims_in_addition_to_its_largest_preemption(
    before, victims, allowed
):
    pause = wasted(*before).view("p", OWNER, 10.0).anywhere(victims)

    assert (pause is None) == allowed


def test_a_stop_ends_when_enough_wasted_evictions_are_an_hour_old():
    made = wasted(1, 1, 1, every=100.0)

    assert made.allowed("p", OWNER, "n9", 1, 300.0) == WastePause(WINDOW, WasteScope.POD, 3)
    assert made.allowed("p", OWNER, "n9", 1, WINDOW) is None


def test_another_pod_of_the_owner_may_still_preempt():
    assert wasted(1, 1, 1).allowed("q", OWNER, "n9", 1, 300.0) is None


@pytest.mark.parametrize(
    ("scope", "owner", "node", "stopped_owner"),
    [
        (WasteScope.OWNER, OWNER, "n{}", OWNER),
        (WasteScope.NAMESPACE, "Job/ns/{}", "n{}", "Job/ns/new"),
        (WasteScope.CLUSTER, "Job/ns{}/j", "n{}", "Job/ns7/new"),
        (WasteScope.NODE, "Job/ns{}/j", "one", "Job/ns7/new"),
    ],
)
def test_pods_that_share_a_limit_are_stopped_together(scope, owner, node, stopped_owner):
    fewer, all_of = (spread(MAX_VICTIMS[scope] - less, owner, node) for less in (1, 0))

    assert fewer.allowed("new", stopped_owner, "one", 1, 10.0) is None
    assert all_of.allowed("new", stopped_owner, "one", 1, 10.0) == WastePause(
        WINDOW, scope, MAX_VICTIMS[scope]
    )


@pytest.mark.parametrize(
    ("scope", "node"),
    [(WasteScope.NODE, "one"), (WasteScope.CLUSTER, "n{}"), (WasteScope.NAMESPACE, "n{}")],
)
def test_a_namespace_without_any_waste_is_not_stopped_by_others(scope, node):
    made = spread(MAX_VICTIMS[scope], "Job/ns{}/j", node)

    assert made.allowed("new", "Job/quiet/j", "one", 50, 10.0) is None


def test_a_node_is_backed_off_for_the_owner_and_others_are_tried():
    made = WastedEvictions()
    waits = []
    for _ in range(11):
        made.record("p", OWNER, "n1", 0, 0.0)
        pause = made.allowed("p", OWNER, "n1", 1, 0.0)
        assert pause is not None
        assert (pause.scope, pause.backed_off) == (WasteScope.NODE, True)
        waits.append(pause.until)

    assert waits == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]
    assert made.allowed("p", OWNER, "n2", 1, 0.0) is None
    assert made.allowed("p", "Job/ns/k", "n1", 1, 0.0) is None
    assert made.allowed("p", OWNER, "n1", 1, 3600.0) is None


def test_a_node_without_recent_failures_starts_with_the_first_pause():
    made = wasted(0)
    later = FORGOTTEN_AFTER + 1

    made.record("p", OWNER, "n0", 0, later)

    assert made.allowed("p", OWNER, "n0", 1, later) == WastePause(
        later + 10, WasteScope.NODE, 1, True
    )


def test_a_success_ends_the_pause_of_the_node_but_wasted_evictions_still_count():
    made = wasted(4, 4, 1)

    assert made.record_binding(OWNER, "n2")
    assert not made.record_binding(OWNER, "n2")
    assert made.view("p", OWNER, 3.0).on("n2", 1) is None
    assert made.view("p", OWNER, 3.0).anywhere(1) == WastePause(WINDOW, WasteScope.POD, 9)


def test_record_returns_the_pause_only_when_preemption_stops():
    made = WastedEvictions()

    pauses = [made.record("p", OWNER, f"n{n}", 1, float(n)) for n in range(5)]

    assert pauses == [None, None, WastePause(WINDOW, WasteScope.POD, 3), None, None]


def test_old_entries_are_dropped():
    made = wasted(1, 1)

    made.prune(FORGOTTEN_AFTER + 0.5)

    assert made.written() == ([], [NodePause(OWNER, "n1", 1, 1.0)])


def test_the_records_of_two_processes_are_merged():
    made, other = wasted(1, 1), wasted(1, 1, 1)

    made.merge(*other.written())

    assert made.written() == other.written()
    version = made.version
    made.merge(*other.written())
    assert made.version == version


def test_merged_entries_are_in_time_order():
    made = wasted(1, 1)

    made.merge([WasteEntry(-5.0, "p", OWNER, "n8", 1)], [])

    assert [each.at for each in made.written()[0]] == [-5.0, 0.0, 1.0]
    assert made.allowed("p", OWNER, "n9", 1, 2.0) == WastePause(WINDOW - 5.0, WasteScope.POD, 3)


def test_names_of_any_length_are_kept_within_bounds():
    made = WastedEvictions()
    for number in range(2000):
        made.record(f"{number}" * 99, f"Job/ns/{number}" + "x" * 500, "n" * 900, 1, float(number))

    entries, pauses = made.written()
    text = sum(len(repr(each)) for each in [*entries, *pauses])
    assert text < 4 * MAX_BYTES
    assert entries[-1].at == pauses[-1].last == 1999.0


@given(
    st.lists(
        st.tuples(st.integers(0, 900), st.integers(1, 12), st.integers(0, 3), st.booleans()),
        max_size=60,
    )
)
def test_no_pod_wastes_more_within_any_hour(tries):
    """A pod fails each time that it may preempt, on any node and with any number of victims."""
    made, now, done = WastedEvictions(), 0.0, []
    for wait, victims, node, succeeds in tries:
        now += wait
        if made.allowed("p", OWNER, f"n{node}", victims, now) is not None:
            continue
        if succeeds:
            made.record_binding(OWNER, f"n{node}")
        else:
            made.record("p", OWNER, f"n{node}", victims, now)
            done.append((now, victims))

    for begin, _ in done:
        hour = [victims for at, victims in done if begin <= at < begin + WINDOW]
        assert len(hour) <= MAX_PREEMPTIONS
        assert sum(hour) <= max(hour) + MAX_VICTIMS[WasteScope.POD]
