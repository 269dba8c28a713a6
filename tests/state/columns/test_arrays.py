"""Columns of integers, sparse while few are set."""

import numpy as np
import pytest

from scheduler.state.columns.arrays import MAX_NUMBER, IntColumn, grown


def test_an_array_that_is_large_enough_is_returned_itself():
    array = np.arange(4)

    assert grown(array, 4) is array


def test_an_array_grows_at_least_to_the_size_and_keeps_its_entries():
    larger = grown(np.arange(20), 21, fill=-1)

    assert larger.shape[0] >= 40
    assert larger[:20].tolist() == list(range(20))
    assert set(larger[20:].tolist()) == {-1}


@pytest.fixture(params=[10, 200], ids=["sparse", "dense"])
def rows(request) -> int:
    """Give a number of rows below and above the one at which a column becomes an array."""
    return int(request.param)


def filled(rows: int) -> IntColumn:
    column = IntColumn()
    for row in range(rows):
        column[row] = row + 1
    return column


def test_a_row_that_was_never_set_is_0(rows):
    column = filled(rows)

    assert column[rows] == 0
    assert column[5000] == 0


def test_a_row_keeps_what_was_set(rows):
    column = filled(rows)

    column[3] = 77

    assert [column[row] for row in (2, 3, 4)] == [3, 77, 5]


def test_a_row_can_be_reset_to_0(rows):
    column = filled(rows)

    column[3] = 0

    assert column[3] == 0
    assert column.all(5).tolist() == [1, 2, 3, 0, 5]


def test_adding_counts_up_and_down(rows):
    column = filled(rows)

    column.add(3, 10)
    column.add(3, -4)

    assert column[3] == 10


def test_adding_to_a_row_after_the_end_grows_the_column(rows):
    column = filled(rows)

    column.add(3000, 5)

    assert column[3000] == 5


def test_all_rows_are_returned_up_to_the_size(rows):
    column = filled(rows)

    assert column.all(rows + 5).tolist() == [*range(1, rows + 1), 0, 0, 0, 0, 0]
    assert column.all(2).tolist() == [1, 2]


def test_selected_rows_are_returned_as_a_copy(rows):
    column = filled(rows)

    taken = column.take(np.array([4, 0, 4]), rows)
    taken += 100

    assert taken.tolist() == [105, 101, 105]
    assert column[4] == 5


def test_many_rows_of_a_sparse_column_are_returned():
    column = IntColumn()
    column[7] = 9

    assert column.take(np.arange(100), 100).sum() == 9


def test_a_large_number_stays_exact(rows):
    column = filled(rows)

    column[0] = 2**53 - 1

    assert int(column.all(1)[0]) == 2**53 - 1


BEYOND = 2**70


def test_a_sum_above_int64_stays_exact(rows):
    column = filled(rows)

    for _ in range(3):
        column.add(3, BEYOND)
    column.add(3, -BEYOND)

    assert column[3] == 2 * BEYOND + 4
    assert column.exact(np.array([2, 3]), rows).tolist() == [3, 2 * BEYOND + 4]


def test_arrays_clip_larger_sums(rows):
    column = filled(rows)

    column[3], column[4] = BEYOND, -BEYOND

    assert column.all(5).tolist() == [1, 2, 3, MAX_NUMBER, -MAX_NUMBER]
    assert column.take(np.array([4, 3]), rows).tolist() == [-MAX_NUMBER, MAX_NUMBER]


def test_a_sum_that_falls_again_is_in_arrays_again(rows):
    column = filled(rows)
    column[3] = BEYOND

    column.add(3, 7 - BEYOND)

    assert column[3] == 7
    assert column.all(4).tolist() == [1, 2, 3, 7]
    assert column.exact(np.array([3]), rows).dtype == np.int64


def test_sums_stay_exact_when_a_column_becomes_dense():
    column = IntColumn()
    column[0] = BEYOND

    for row in range(1, 100):
        column[row] = row

    assert (column[0], column[99]) == (BEYOND, 99)
    assert column.all(2).tolist() == [MAX_NUMBER, 1]
