"""Selectors and what they give for one device; `selectors.yaml` says how upstream decides them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.cel import CelDevice, CompileError, EvaluationError, Version, compile_selector, hint
from scheduler.model.releases import REFERENCES, V1_36, V1_37, Reference
from tests.cel.upstream import cost

TABLE = yaml.safe_load(Path(__file__).with_name("selectors.yaml").read_text(encoding="utf-8"))
DEVICE = CelDevice(
    driver="gpu.test",
    attributes={
        name: Version(value["version"]) if isinstance(value, dict) else value
        for name, value in TABLE["attributes"].items()
    },
    capacity=TABLE["capacity"],
)


def rows() -> Iterator[Any]:
    for family, selectors in TABLE["selectors"].items():
        for expression, stated in selectors:
            text = str(expression)
            for name, reference in REFERENCES.items():
                by_release = isinstance(stated, dict) and name in stated
                expected = stated[name] if by_release else stated
                yield pytest.param(text, reference, expected, id=f"{family}, {name}: {text}")


@pytest.mark.parametrize(("expression", "reference", "expected"), list(rows()))
def test_a_selector_gives_what_upstream_gives(expression: str, reference: Reference, expected: Any):
    if expected == "invalid" or (isinstance(expected, dict) and "invalid" in expected):
        with pytest.raises(CompileError) as refused:
            compile_selector(expression, reference)
        assert expected == "invalid" or str(refused.value) == expected["invalid"]
    elif isinstance(expected, dict):
        with pytest.raises(EvaluationError) as failed:
            compile_selector(expression, reference).evaluate(DEVICE)
        assert str(failed.value) == expected["error"]
    else:
        assert compile_selector(expression, reference).evaluate(DEVICE) is expected


@pytest.mark.parametrize("reference", REFERENCES.values(), ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("expression", "most"),
    [
        ('format.date().validate("no").hasValue()', 20),
        ('format.uuid().validate("no").hasValue()', 20),
        ("--1 == 1", 1),
        ("---1 == -1", 2),
        ('has(device.?attributes["none.test"].x)', 2),
        ('has({"a": {"b": 1}}.?c.b)', 0),
        ("1 in dyn([1, 2])", 1),
        ("1 in [1, 2]", 0),
    ],
)
def test_a_selector_costs_what_it_costs_upstream(expression, most, reference):
    assert cost(DEVICE, expression, reference) == most


def test_a_version_that_is_none_fails_every_selector():
    device = CelDevice("gpu.test", {"firmware": Version("2.x")}, {})

    with pytest.raises(
        EvaluationError, match="attribute firmware: parse semantic version: No Major"
    ):
        compile_selector("true", V1_37).evaluate(device)


def test_an_attribute_of_another_type_fails_every_selector():
    device = CelDevice("gpu.test", {"other": None}, {})

    with pytest.raises(EvaluationError, match="attribute other: unsupported attribute value"):
        compile_selector("true", V1_37).evaluate(device)


def test_an_attribute_with_a_list_fails_every_selector_of_the_older_release():
    device = CelDevice("gpu.test", {"lanes": [1, 2]}, {})
    expression = 'device.attributes["gpu.test"].lanes.exists(lane, lane == 2)'

    assert compile_selector(expression, V1_37).evaluate(device) is True
    with pytest.raises(EvaluationError, match="attribute lanes: unsupported attribute value"):
        compile_selector("true", V1_36).evaluate(device)


@pytest.mark.parametrize(
    ("text", "hinted"), [("no such key: a", True), ("division by zero", False)]
)
def test_the_next_release_hints_at_missing_names(text: str, hinted: bool):
    assert ("has()" in hint(text)) is hinted
