"""The log of changed rows."""

from scheduler.state.columns.change_log import ChangeLog


def noted(*rows: int) -> ChangeLog:
    log = ChangeLog()
    for row in rows:
        log.record(row)
    return log


def since(log: ChangeLog, position: int, most: int = 100) -> list[int] | None:
    found = log.since(position, most)
    return None if found is None else found.tolist()


def test_a_reader_at_the_end_has_nothing_to_read():
    log = noted(1, 2)

    assert since(log, log.position) == []


def test_a_reader_gets_each_changed_row_once_in_row_order():
    log = noted(9)
    position = log.position
    for row in (5, 3, 5, 1):
        log.record(row)

    assert since(log, position) == [1, 3, 5]


def test_one_change_is_read_alone():
    log = noted(4, 7)

    assert since(log, log.position - 1) == [7]


def test_a_reader_that_missed_too_many_changes_must_recompute():
    log = noted(1, 2, 3)

    assert since(log, 0, most=2) is None
    assert since(log, 0, most=3) == [1, 2, 3]


def test_a_reader_that_never_read_must_recompute():
    assert since(ChangeLog(), -1) is None


def test_old_changes_are_dropped_and_positions_continue():
    log = ChangeLog()
    for number in range(200_000):
        log.record(number % 7)

    assert log.position == 200_000
    assert since(log, 10, most=10**6) is None
    assert since(log, 199_999, most=10) == [199_999 % 7]


def test_changes_of_one_row_are_known_for_any_position():
    log = noted(4)
    position = log.position
    log.record(7)
    for _ in range(200_000):
        log.record(1)

    assert log.has_changed(7, position)
    assert not log.has_changed(4, position)
    assert not log.has_changed(9, 0)
    assert not log.has_changed(7, position + 1)
