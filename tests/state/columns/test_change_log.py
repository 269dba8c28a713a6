"""The log of changed rows."""

from scheduler.state.columns.change_log import ChangeLog


def noted(*rows: int) -> ChangeLog:
    log = ChangeLog()
    for row in rows:
        log.note(row)
    return log


def since(log: ChangeLog, position: int, most: int = 100) -> list[int] | None:
    found = log.since(position, most)
    return None if found is None else found.tolist()


def test_a_reader_who_has_seen_everything_has_nothing_to_read():
    log = noted(1, 2)

    assert since(log, log.position) == []


def test_a_reader_gets_what_changed_since_each_row_once_in_row_order():
    log = noted(9)
    position = log.position
    for row in (5, 3, 5, 1):
        log.note(row)

    assert since(log, position) == [1, 3, 5]


def test_one_change_is_read_alone():
    log = noted(4, 7)

    assert since(log, log.position - 1) == [7]


def test_a_reader_who_is_too_far_behind_shall_recompute():
    log = noted(1, 2, 3)

    assert since(log, 0, most=2) is None
    assert since(log, 0, most=3) == [1, 2, 3]


def test_a_reader_who_never_read_shall_recompute():
    assert since(ChangeLog(), -1) is None


def test_what_is_long_ago_is_forgotten_but_positions_go_on():
    log = ChangeLog()
    for number in range(200_000):
        log.note(number % 7)

    assert log.position == 200_000
    assert since(log, 10, most=10**6) is None
    assert since(log, 199_999, most=10) == [199_999 % 7]


def test_whether_one_row_changed_is_known_however_long_ago():
    log = noted(4)
    position = log.position
    log.note(7)
    for _ in range(200_000):
        log.note(1)

    assert log.has_changed(7, position)
    assert not log.has_changed(4, position)
    assert not log.has_changed(9, 0)
    assert not log.has_changed(7, position + 1)
