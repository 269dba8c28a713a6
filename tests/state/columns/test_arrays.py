"""Columns of integers, sparse while few are set."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.state.columns.arrays import MAX_NUMBER, IntColumn, grown


def test_an_array_that_is_large_enough_is_returned_itself():
    array = np.arange(4)

    assert grown(array, 4) is array


def test_an_array_grows_at_least_to_the_size_and_keeps_its_entries():
    larger = grown(np.arange(20), 21, fill=-1)

    assert larger.shape[0] >= 40
    assert larger[:20].tolist() == list(range(20))
    assert set(larger[20:].tolist()) == {-1}


SIZE = 310
STEPS = st.lists(
    st.tuples(
        st.booleans(),
        st.integers(0, 5) | st.integers(0, SIZE - 1),
        st.integers(-9, 9) | st.sampled_from([2**53 - 1, MAX_NUMBER, 2**70, -(2**70), 7 - 2**70]),
    ),
    max_size=40,
)


@given(st.sampled_from([0, 10, 200]), STEPS, st.lists(st.integers(0, SIZE - 1), max_size=80))
def test_a_column_has_exact_numbers_and_its_arrays_clip_them(filled, steps, some):
    """It is an array as soon as many rows are set; numbers beyond 64 bits are kept apart."""
    column, want = IntColumn(), [0] * SIZE
    for row in range(filled):
        column[row] = want[row] = row + 1
    for adds, row, amount in steps:
        if adds:
            column.add(row, amount)
            want[row] += amount
        else:
            column[row] = want[row] = amount

    rows = np.array(some, dtype=np.int64)
    clipped = [max(-MAX_NUMBER, min(MAX_NUMBER, each)) for each in want]
    taken, exact = column.take(rows, SIZE), column.exact(rows, SIZE)

    assert column.all(SIZE).tolist() == clipped
    assert column.all(2).tolist() == clipped[:2]
    assert taken.tolist() == [clipped[row] for row in some]
    assert exact.tolist() == [want[row] for row in some]
    assert exact.dtype == np.int64 or want != clipped
    taken += 1
    assert [column[row] for row in range(SIZE)] == want
    assert column[5000] == 0
