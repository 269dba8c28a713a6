"""Label and node selectors, one object at a time."""

import pytest

from scheduler.model.api import selectors
from scheduler.model.api.objects import LabelSelector, Requirement
from scheduler.model.api.selectors import Selector, SelectorError
from tests.support.builders import requirement, term

LABELS = {"app": "web", "tier": ""}

MATCHES = [
    ("In with the value", requirement("app", "In", "db", "web"), True),
    ("In without the value", requirement("app", "In", "db"), False),
    ("In on an absent key", requirement("zone", "In", "a"), False),
    ("NotIn with the value", requirement("app", "NotIn", "web"), False),
    ("NotIn without the value", requirement("app", "NotIn", "db"), True),
    ("NotIn on an absent key", requirement("zone", "NotIn", "a"), True),
    ("Exists on an empty value", requirement("tier", "Exists"), True),
    ("Exists on an absent key", requirement("zone", "Exists"), False),
    ("DoesNotExist on a present key", requirement("app", "DoesNotExist"), False),
    ("DoesNotExist on an absent key", requirement("zone", "DoesNotExist"), True),
]

INVALID = [
    ("an unknown operator", requirement("app", "Like", "web")),
    ("Gt, which is for nodes only", requirement("app", "Gt", "1")),
    ("In without values", requirement("app", "In")),
    ("NotIn without values", requirement("app", "NotIn")),
    ("Exists with a value", requirement("app", "Exists", "web")),
    ("DoesNotExist with a value", requirement("app", "DoesNotExist", "web")),
    ("an empty key", requirement("", "Exists")),
    ("a key with a blank", requirement("a b", "Exists")),
    ("a key that is too long", requirement("k" * 64, "Exists")),
    ("a key with an empty prefix", requirement("/app", "Exists")),
    ("a key with a prefix in capitals", requirement("Example.com/app", "Exists")),
    ("a key with a prefix that is too long", requirement("p" * 254 + "/app", "Exists")),
    ("a value with a blank", requirement("app", "In", "a b")),
    ("a value that is too long", requirement("app", "In", "v" * 64)),
]

NODE = {"disk": "ssd", "generation": "10", "shelf": "top"}

SSD = requirement("disk", "In", "ssd")


def named(operator, *names):
    return (requirement("metadata.name", operator, *names),)


NODE_TERMS = [
    ("all expressions hold", term(SSD, requirement("shelf", "Exists")), True),
    ("one expression does not", term(SSD, requirement("gpu", "Exists")), False),
    ("no expression and no field", term(), False),
    ("Gt compares numbers", term(requirement("generation", "Gt", "9")), True),
    ("Gt is strict", term(requirement("generation", "Gt", "10")), False),
    ("Lt compares numbers", term(requirement("generation", "Lt", "11")), True),
    ("Lt is strict", term(requirement("generation", "Lt", "10")), False),
    ("Gt on an absent label", term(requirement("gpus", "Gt", "-1")), False),
    ("Gt on a label that is no number", term(requirement("shelf", "Gt", "0")), False),
    ("Gt with a bound that is no number", term(requirement("generation", "Gt", "low")), False),
    ("Gt with two bounds", term(requirement("generation", "Gt", "1", "2")), False),
    ("Gt with a bound beyond 64 bits", term(requirement("generation", "Lt", str(2**63))), False),
    ("Gt on an invalid key", term(requirement("-", "Gt", "1")), False),
    ("an expression without meaning", term(requirement("disk", "Maybe", "ssd")), False),
    ("the field names the node", term(fields=named("In", "n1")), True),
    ("the field names another", term(fields=named("In", "n2")), False),
    ("the field leaves out another", term(fields=named("NotIn", "n2")), True),
    ("the field leaves out the node", term(fields=named("NotIn", "n1")), False),
    ("the field has two values", term(fields=named("In", "n1", "n2")), False),
    ("the field has another operator", term(fields=named("Exists", "n1")), False),
    ("an unknown field", term(fields=(requirement("metadata.uid", "In", "n1"),)), False),
    ("expressions and fields", term(requirement("gpu", "Exists"), fields=named("In", "n1")), False),
]  # fmt: skip


def cases(table):
    return [pytest.param(*row[1:], id=row[0]) for row in table]


@pytest.mark.parametrize(("expression", "want"), cases(MATCHES))
def test_a_label_expression_selects(expression, want):
    selector = Selector.of(LabelSelector(match_expressions=[expression]))

    assert selector.matches(LABELS) is want


@pytest.mark.parametrize("expression", cases(INVALID))
def test_an_expression_that_the_api_refuses_is_an_error(expression):
    with pytest.raises(SelectorError):
        Selector.of(LabelSelector(match_expressions=[expression]))


def test_labels_and_expressions_must_all_match():
    selector = Selector.of(LabelSelector({"app": "web"}, [Requirement("tier", "Exists", [])]))

    assert selector.matches(LABELS)
    assert not selector.matches({"app": "web"})
    assert not selector.matches({"tier": ""})


def test_a_label_with_an_invalid_value_is_an_error():
    with pytest.raises(SelectorError):
        Selector.of(LabelSelector({"app": "not a value"}))


def test_an_empty_selector_selects_everything():
    selector = Selector.of(LabelSelector())

    assert selector.empty
    assert selector.matches({})


def test_selectors_with_the_same_requirements_are_equal():
    one = Selector.of(LabelSelector({"a": "1", "b": "2"}))
    other = Selector.of(LabelSelector({"b": "2", "a": "1"}))

    assert one == other


@pytest.mark.parametrize(("one", "want"), cases(NODE_TERMS))
def test_a_node_satisfies_a_term(one, want):
    assert selectors.matches_term(one, "n1", NODE) is want


INTEGERS = [
    ("0", 0), ("-0", 0), ("+7", 7), ("007", 7), ("-12", -12),
    (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63)),
    (str(2**63), None), ("", None), ("1.0", None), ("1e3", None), ("0x1", None),
    (" 1", None), ("1\n", None), ("\u0661", None), ("1" * 21, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "want"), INTEGERS, ids=[repr(text) for text, _ in INTEGERS])
def test_a_decimal_integer_of_64_bits_is_read(text, want):
    assert selectors.parse_int64(text) == want
