"""Pods in slots; the pods of a row in NodeInfo order, and most important first."""

from collections.abc import Iterator

import numpy as np
import pytest

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


def ranked(table: PodTable, *rows: int) -> dict[int, list[str]]:
    """Return the names of the pods of each row, most important first."""
    found = {}
    for row in rows:
        for positions, slots in table.ranked(np.array([row], dtype=np.int64)):
            if positions.shape[0]:
                found[row] = names(table, slots.ravel())
    return found


# Importance


def test_a_removal_changes_the_order_of_pods_that_are_equal(table):
    put(table, 0, *(pod(name).started(1) for name in "abcd"))
    assert ranked(table, 0) == {0: ["a", "b", "c", "d"]}

    table.remove("uid:default/b")

    assert ranked(table, 0) == {0: ["a", "d", "c"]}


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


def test_rows_are_ranked_in_parts_in_advance(table):
    for row in range(600):
        put(table, row, pod(f"low{row}"), pod(f"high{row}").priority(1))

    parts = 1
    while table.advance():
        parts += 1

    assert parts == 3
    assert ranked(table, *range(600)) == {row: [f"high{row}", f"low{row}"] for row in range(600)}


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
