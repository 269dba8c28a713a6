"""Node labels as columns of codes."""

from weakref import ref

import pytest

from scheduler.model.api import selectors
from scheduler.state.columns.labels import ABSENT, LabelColumn, LabelColumns, LabelTest
from tests.support.builders import requirement, term

VALUES = [None, "", "a", "b", "9", "10", "-3", "x1", str(2**63)]


def column_of(values: list[str | None], key: str = "k") -> LabelColumn:
    column = LabelColumn()
    for row, value in enumerate(values):
        column.write(row, {} if value is None else {key: value}, key)
    return column


def test_equal_values_have_one_code_and_absent_is_0():
    column = column_of([None, "a", "b", "a", ""])

    assert column.codes(5).tolist() == [ABSENT, 1, 2, 1, 3]
    assert list(column.values) == [None, "a", "b", ""]


def test_rows_that_were_never_written_are_absent():
    assert column_of(["a"]).codes(40).tolist() == [1] + [ABSENT] * 39


def test_a_row_after_the_end_grows_the_column():
    column = LabelColumn()
    column.write(100, {"k": "a"}, "k")

    assert column.codes(101)[100] == 1


def test_a_value_that_some_node_has_or_had_is_found():
    column = column_of(["a"])

    assert column.code("a") == 1
    assert column.code("b") is None


def columns_of(*rows: dict[str, str]) -> LabelColumns:
    columns = LabelColumns()
    for row, labels in enumerate(rows):
        columns.write(row, labels)
    return columns


def test_a_column_is_built_from_all_nodes_when_first_asked_for():
    column = columns_of({"k": "a"}, {}, {"other": "a"}).column("k")

    assert column.codes(3).tolist() == [1, ABSENT, ABSENT]


def test_every_column_in_use_follows_a_node():
    columns = columns_of({"k": "a"})
    first, second = columns.column("k"), columns.column("other")

    columns.write(0, {"other": "b"})

    assert (first.codes(1)[0], second.codes(1)[0]) == (ABSENT, 1)
    assert columns.column("other") is second


def test_a_key_is_known_while_a_node_has_it():
    columns = columns_of({"k": "a"}, {"k": "b", "l": ""})

    columns.write(0, {})
    versions = [columns.version]
    columns.write(1, {"l": "c"})
    versions.append(columns.version)

    assert [columns.exists(key) for key in ("k", "l", "m")] == [False, True, False]
    assert columns.existing(["k", "l", "m"]) == {"l"}
    assert versions[0] < versions[1]


def test_a_column_without_values_is_dropped():
    columns = columns_of({"k": "a"})
    gone = ref(columns.column("nowhere"))
    kept = columns.column("k")

    assert gone() is None
    assert columns.column("k") is kept


EXPRESSIONS = [
    requirement("k", "In", "a", "9"),
    requirement("k", "NotIn", "a"),
    requirement("k", "Exists"),
    requirement("k", "DoesNotExist"),
    requirement("k", "Gt", "9"),
    requirement("k", "Lt", "9"),
    requirement("k", "Gt", "-4"),
]


@pytest.mark.parametrize(
    "expression", EXPRESSIONS, ids=lambda each: f"{each.operator} {each.values}"
)
def test_an_expression_over_a_column_agrees_with_the_one_over_a_node(expression):
    column = column_of(VALUES)
    test = LabelTest(expression, column)

    want = [
        selectors.matches_term(term(expression), "n", {} if value is None else {"k": value})
        for value in VALUES
    ]
    assert test.table()[column.codes(len(VALUES))].tolist() == want


def test_a_comparison_without_a_number_is_false():
    test = LabelTest(requirement("k", "Gt", "low"), column_of(["9"]))

    assert test.table().tolist() == [False, False]


def test_later_values_are_evaluated_too():
    column = column_of(["a"])
    test = LabelTest(requirement("k", "In", "b"), column)
    assert test.table().tolist() == [False, False]

    column.write(1, {"k": "b"}, "k")

    assert test.table().tolist() == [False, False, True]
    assert test.column is column


def test_values_that_no_node_has_any_more_are_dropped():
    column = column_of(["kept"])
    test = LabelTest(requirement("k", "In", "kept", "7"), column)

    for number in range(10_000):
        column.write(1, {"k": str(number)}, "k")
        assert test.table()[column.codes(2)].tolist() == [True, number == 7]

    assert len(column.values) < 200


def test_a_column_without_values_is_kept_while_a_plugin_refers_to_it():
    labels = LabelColumns()
    labels.write(0, {"k": "a"})
    column = labels.column("k")
    labels.write(0, {})

    assert labels.column("k") is column
    labels.write(1, {"k": "b"})
    assert [column.values[code] for code in column.codes(2).tolist()] == [None, "b"]

    labels.write(1, {})
    gone = ref(column)
    del column
    assert gone() is None
