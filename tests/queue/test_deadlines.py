"""Moments in order, and entries that are not meant any more."""

from scheduler.queue.deadlines import Deadlines


def made(*entries: tuple[str, float]) -> tuple[Deadlines[str], dict[str, float]]:
    """Return deadlines, and the moments that are meant, which a test may change."""
    meant = dict(entries)
    deadlines: Deadlines[str] = Deadlines(lambda item, moment: meant.get(item) == moment)
    for item, moment in entries:
        deadlines.put(item, moment)
    return deadlines, meant


def test_items_come_in_the_order_of_their_moments():
    deadlines, _ = made(("late", 3.0), ("first", 1.0), ("second", 1.0), ("never", 9.0))

    assert deadlines.first() == 1.0
    assert list(deadlines.pop_until(3.0)) == ["first", "second", "late"]
    assert deadlines.first() == 9.0


def test_what_is_not_meant_any_more_is_left_out():
    deadlines, meant = made(("moved", 1.0), ("gone", 2.0), ("there", 3.0))
    meant["moved"] = 4.0
    deadlines.put("moved", 4.0)
    del meant["gone"]

    assert deadlines.first() == 3.0
    assert list(deadlines.pop_until(5.0)) == ["there", "moved"]
    assert deadlines.first() is None


def test_what_is_done_about_one_counts_for_the_next():
    deadlines, meant = made(("one", 1.0), ("other", 2.0))
    found = []

    for each in deadlines.pop_until(5.0):
        found.append(each)
        meant.clear()

    assert found == ["one"]


def test_void_entries_do_not_pile_up():
    deadlines, meant = made()
    for number in range(100_000):
        meant["one"] = float(number)
        deadlines.put("one", float(number))

    assert len(deadlines) < 100
    assert list(deadlines.pop_until(1e9)) == ["one"]
