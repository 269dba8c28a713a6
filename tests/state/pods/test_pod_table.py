"""Pods in slots; the pods of a row in NodeInfo order, and most important first."""

from collections.abc import Iterator

import numpy as np
import pytest

from scheduler.model.releases import V1_37
from scheduler.state.columns.pod_footprints import PodFootprints
from scheduler.state.columns.resource_axis import ResourceAxis
from scheduler.state.pods.pod_table import NOWHERE, PodTable
from tests.support.builders import PodBuilder, pod


@pytest.fixture
def table() -> Iterator[PodTable]:
    made = PodTable(PodFootprints(ResourceAxis()))
    yield made
    made.check()


def put(table: PodTable, row: int, *builders: PodBuilder) -> None:
    for builder in builders:
        table.add(builder.build(), row, 0)


def names(table: PodTable, slots) -> list[str]:
    return [table.pod(int(slot)).metadata.name for slot in slots if slot >= 0]


def on_row(table: PodTable, row: int) -> list[str]:
    return names(table, table.on_row(row))


def ranked(table: PodTable, *rows: int) -> dict[int, list[str]]:
    """Return the names of the pods of each row, most important first."""
    found = {}
    for row in rows:
        for positions, slots in table.ranked(np.array([row], dtype=np.int64)):
            if positions.shape[0]:
                found[row] = names(table, slots.ravel())
    return found


def test_a_pod_is_found_by_its_uid(table):
    built = pod("p").priority(7).started(5).build()
    slot = table.add(built, 3, 2)

    assert built.uid in table
    assert (table.slot(built.uid), table.row(slot), table.footprint_code(slot)) == (slot, 3, 2)
    assert table.pod(slot) is built
    assert table.priorities(np.array([slot])).tolist() == [7]


def test_an_unknown_pod_has_no_slot(table):
    assert table.slot("absent") is None
    assert "absent" not in table


def test_a_slot_that_is_free_has_no_pod(table):
    slot = table.add(pod("p").build(), 0, 0)
    table.remove("uid:default/p")

    with pytest.raises(LookupError, match="is free"):
        table.pod(slot)
    assert table.row(slot) == NOWHERE


def test_a_free_slot_is_reused(table):
    put(table, 0, pod("a"), pod("b"))
    freed = table.slot("uid:default/a")
    table.remove("uid:default/a")

    assert table.add(pod("c").build(), 1, 0) == freed
    assert len(table) == 2


def test_a_nominated_pod_is_on_no_row(table):
    slot = table.add(pod("p").build(), NOWHERE, 0)

    assert table.row(slot) == NOWHERE
    assert list(table.on_row(NOWHERE)) == []
    table.remove("uid:default/p")


def test_an_added_pod_is_last_on_its_row(table):
    put(table, 0, pod("a"), pod("b"), pod("c"))

    assert on_row(table, 0) == ["a", "b", "c"]


def test_the_last_pod_moves_into_the_gap_of_a_removed_one(table):
    put(table, 0, pod("a"), pod("b"), pod("c"), pod("d"))

    table.remove("uid:default/b")

    assert on_row(table, 0) == ["a", "d", "c"]


def test_the_last_pod_may_be_removed(table):
    put(table, 0, pod("a"), pod("b"))

    table.remove("uid:default/b")
    assert on_row(table, 0) == ["a"]

    table.remove("uid:default/a")
    assert on_row(table, 0) == []


def test_a_new_state_replaces_the_old_one(table):
    slot = table.add(pod("p").priority(1).build(), 0, 0)
    later = pod("p").priority(9).build()

    table.update(slot, later)

    assert table.pod(slot) is later
    assert table.priorities(np.array([slot])).tolist() == [9]


def test_a_start_that_is_not_known_is_the_latest(table):
    slots = [table.add(pod(name).build(), 0, 0) for name in ("a", "b")]
    table.update(slots[1], pod("b").started(3).build())

    starts = table.starts(np.array(slots)).tolist()

    assert starts[0] > starts[1]


def test_protection_is_kept_by_slot(table):
    slot = table.add(pod("p").build(), 0, 0)
    assert table.protection(np.array([slot])).tolist() == [0]

    table.protect(slot, 5)
    assert table.protection(np.array([slot])).tolist() == [5]


def test_a_reused_slot_is_not_protected_as_before(table):
    slot = table.add(pod("a").build(), 0, 0)
    table.protect(slot, 5)
    table.remove("uid:default/a")

    again = table.add(pod("b").build(), 0, 0)

    assert (again, table.protection(np.array([again])).tolist()) == (slot, [0])


def test_all_slots_in_use_are_listed(table):
    put(table, 0, pod("a"))
    put(table, NOWHERE, pod("b"))

    assert {(table.row(slot), each.metadata.name) for slot, each in table.occupied()} == {
        (0, "a"),
        (NOWHERE, "b"),
    }
    table.remove("uid:default/b")


# Importance


def test_higher_priority_is_more_important(table):
    put(table, 0, pod("low").priority(-5), pod("high").priority(7), pod("mid"))

    assert ranked(table, 0) == {0: ["high", "mid", "low"]}


def test_of_equal_priority_the_pod_that_runs_longer_is_more_important(table):
    put(table, 0, pod("new").started(9), pod("old").started(1), pod("middle").started(5))

    assert ranked(table, 0) == {0: ["old", "middle", "new"]}


def test_a_pod_that_runs_is_more_important_than_one_that_does_not(table):
    put(table, 0, pod("waiting"), pod("running").started(9))

    assert ranked(table, 0) == {0: ["running", "waiting"]}


def test_of_pods_that_started_at_once_the_first_added_is_more_important(table):
    put(table, 0, pod("a").started(1), pod("b").started(1), pod("c").started(1))

    assert ranked(table, 0) == {0: ["a", "b", "c"]}


def test_of_pods_that_have_not_started_v1_37_takes_the_first_added_as_more_important():
    table = PodTable(PodFootprints(ResourceAxis()), V1_37)
    put(table, 0, pod("a"), pod("b"), pod("old").started(1), pod("c"))

    assert ranked(table, 0) == {0: ["old", "a", "b", "c"]}


def test_of_pods_that_have_not_started_the_last_added_is_more_important(table):
    put(table, 0, pod("a"), pod("b"), pod("c"))

    assert ranked(table, 0) == {0: ["c", "b", "a"]}


def test_a_removal_changes_the_order_of_pods_that_are_equal(table):
    put(table, 0, *(pod(name).started(1) for name in "abcd"))
    assert ranked(table, 0) == {0: ["a", "b", "c", "d"]}

    table.remove("uid:default/b")

    assert ranked(table, 0) == {0: ["a", "d", "c"]}


def test_a_new_priority_changes_the_order(table):
    put(table, 0, pod("a").priority(1), pod("b").priority(2))
    assert ranked(table, 0) == {0: ["b", "a"]}

    slot = table.slot("uid:default/a")
    assert slot is not None
    table.update(slot, pod("a").priority(3).build())

    assert ranked(table, 0) == {0: ["a", "b"]}


def test_rows_are_ranked_independently(table):
    put(table, 0, pod("a"), pod("b").priority(1))
    put(table, 2, pod("c"))

    assert ranked(table, 0, 1, 2) == {0: ["b", "a"], 1: [], 2: ["c"]}


def test_a_row_that_never_had_a_pod_is_empty_at_any_index(table):
    put(table, 0, pod("a"))

    assert ranked(table, 0, 500) == {0: ["a"], 500: []}


def test_rows_of_different_lengths_are_returned_together(table):
    put(table, 0, pod("a"), pod("b").priority(1))
    put(table, 1, pod("c"))

    rows = np.array([1, 0])
    groups = list(table.ranked(rows))

    assert sorted(int(position) for positions, _ in groups for position in positions) == [0, 1]
    assert sorted(names(table, np.concatenate([slots.ravel() for _, slots in groups]))) == [
        "a", "b", "c",
    ]  # fmt: skip


def crowd(size: int) -> list[PodBuilder]:
    return [pod(f"p{number:03}").priority(number) for number in range(size)]


@pytest.mark.parametrize("size", [5, 17, 256, 257, 400])
def test_a_crowded_row_is_ranked_like_any_other(table, size):
    put(table, 0, pod("alone"))
    put(table, 1, *crowd(size))

    want = [f"p{number:03}" for number in reversed(range(size))]
    assert ranked(table, 0, 1) == {0: ["alone"], 1: want}


def test_a_row_that_was_crowded_may_empty_again(table):
    put(table, 1, *crowd(300))
    assert len(ranked(table, 1)[1]) == 300

    for number in range(298):
        table.remove(f"uid:default/p{number:03}")

    assert ranked(table, 1) == {1: ["p299", "p298"]}


def test_the_invariants_are_really_checked():
    table = PodTable(PodFootprints(ResourceAxis()))
    put(table, 0, pod("a"))
    table._on_row[0].append(0)

    with pytest.raises(AssertionError):
        table.check()


def test_the_lowest_priority_is_that_of_an_existing_pod(table):
    assert table.lowest_priority() > 2**31
    table.add(pod("high").priority(9).build(), 0, 0)
    slot = table.add(pod("low").priority(3).build(), NOWHERE, 0)
    table.add(pod("equal").priority(3).build(), 1, 0)
    assert table.lowest_priority() == 3

    table.update(slot, pod("low").priority(-5).build())
    assert table.lowest_priority() == -5
    table.remove("uid:default/low")
    assert table.lowest_priority() == 3
    table.remove("uid:default/equal")

    assert table.lowest_priority() == 9
