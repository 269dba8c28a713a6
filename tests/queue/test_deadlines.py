"""The order of items, and void entries."""

from scheduler.queue.deadlines import Deadlines


def made(*entries: tuple[str, float]) -> tuple[Deadlines[str], dict[str, float]]:
    """Return deadlines, and the valid moments, which a test may change."""
    valid = dict(entries)
    deadlines: Deadlines[str] = Deadlines(lambda item, moment: valid.get(item) == moment)
    for item, moment in entries:
        deadlines.put(item, moment)
    return deadlines, valid


def test_items_come_in_the_order_of_their_moments():
    deadlines, _ = made(("late", 3.0), ("first", 1.0), ("second", 1.0), ("never", 9.0))

    assert deadlines.first() == 1.0
    assert list(deadlines.pop_until(3.0)) == ["first", "second", "late"]
    assert deadlines.first() == 9.0


def test_void_entries_are_skipped():
    deadlines, valid = made(("moved", 1.0), ("gone", 2.0), ("there", 3.0))
    valid["moved"] = 4.0
    deadlines.put("moved", 4.0)
    del valid["gone"]

    assert deadlines.first() == 3.0
    assert list(deadlines.pop_until(5.0)) == ["there", "moved"]
    assert deadlines.first() is None


def test_the_treatment_of_one_item_can_make_the_next_one_void():
    deadlines, valid = made(("one", 1.0), ("other", 2.0))
    found = []

    for each in deadlines.pop_until(5.0):
        found.append(each)
        valid.clear()

    assert found == ["one"]


def test_void_entries_do_not_accumulate():
    deadlines, valid = made()
    for number in range(100_000):
        valid["one"] = float(number)
        deadlines.put("one", float(number))

    assert len(deadlines) < 100
    assert list(deadlines.pop_until(1e9)) == ["one"]
