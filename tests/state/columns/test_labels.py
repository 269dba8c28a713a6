"""Node labels as columns of codes."""

from weakref import ref

import pytest

from scheduler.model.api import selectors
from scheduler.state.columns.labels import LabelColumn, LabelColumns, LabelTest
from tests.support.builders import requirement, term

VALUES = [None, "", "a", "b", "9", "10", "-3", "x1", str(2**63)]


def column_of(values: list[str | None], key: str = "k") -> LabelColumn:
    column = LabelColumn()
    for row, value in enumerate(values):
        column.write(row, {} if value is None else {key: value}, key)
    return column


def columns_of(*rows: dict[str, str]) -> LabelColumns:
    columns = LabelColumns()
    for row, labels in enumerate(rows):
        columns.write(row, labels)
    return columns


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
