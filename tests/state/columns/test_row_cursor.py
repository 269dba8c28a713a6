"""The position of a reader in a log of changed rows."""

from scheduler.state.columns.change_log import ChangeLog
from scheduler.state.columns.row_cursor import RowCursor, max_incremental


def log_of(*rows: int) -> ChangeLog:
    log = ChangeLog()
    for row in rows:
        log.record(row)
    return log


def test_at_first_all_rows_must_be_recomputed():
    cursor = RowCursor(log_of())

    assert not cursor.up_to_date
    assert cursor.take_changed(100) is None
    assert cursor.up_to_date


def test_rows_are_read_once():
    log = log_of(1)
    cursor = RowCursor(log)
    cursor.take_changed(100)

    log.record(7)
    log.record(3)
    log.record(7)

    assert not cursor.up_to_date
    assert _read(cursor) == [3, 7]
    assert _read(cursor) == []


def test_after_too_many_changes_all_rows_must_be_recomputed_once():
    log = log_of()
    cursor = RowCursor(log)
    cursor.take_changed(100)
    for row in range(9):
        log.record(row)

    assert cursor.take_changed(max_incremental(64)) is None
    assert _read(cursor) == []


def _read(cursor: RowCursor) -> list[int] | None:
    found = cursor.take_changed(max_incremental(80))
    return None if found is None else found.tolist()
