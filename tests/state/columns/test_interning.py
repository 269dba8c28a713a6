"""Small integers for values that recur."""

from scheduler.state.columns.interning import Interner


def test_equal_values_have_one_code_counted_up_from_0():
    interner = Interner[str]()

    assert [interner.code(value) for value in ("a", "b", "a")] == [0, 1, 0]
    assert len(interner) == 2
    assert interner.values == ["a", "b"]


def test_the_first_values_are_fixed():
    interner = Interner("x", "y")

    assert interner.code("y") == 1


def test_an_unknown_value_has_no_code():
    interner = Interner("x")

    assert interner.find("x") == 0
    assert interner.find("z") is None
    assert len(interner) == 1
