"""Selectors and what they give for one device; `selectors.yaml` says how upstream decides them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.cel import CompileError, Device, EvaluationError, Version, compile_selector, hint

TABLE = yaml.safe_load(Path(__file__).with_name("selectors.yaml").read_text(encoding="utf-8"))
DEVICE = Device(
    driver="gpu.test",
    attributes={
        name: Version(value["version"]) if isinstance(value, dict) else value
        for name, value in TABLE["attributes"].items()
    },
    capacity=TABLE["capacity"],
)


def rows() -> Iterator[Any]:
    for family, selectors in TABLE["selectors"].items():
        for expression, expected in selectors:
            text = str(expression)
            yield pytest.param(text, expected, id=f"{family}: {text}")


@pytest.mark.parametrize(("expression", "expected"), list(rows()))
def test_a_selector_gives_what_upstream_gives(expression: str, expected: Any):
    if expected == "invalid" or (isinstance(expected, dict) and "invalid" in expected):
        with pytest.raises(CompileError) as refused:
            compile_selector(expression)
        assert expected == "invalid" or str(refused.value) == expected["invalid"]
    elif isinstance(expected, dict):
        with pytest.raises(EvaluationError) as failed:
            compile_selector(expression).evaluate(DEVICE)
        assert str(failed.value) == expected["error"]
    else:
        assert compile_selector(expression).evaluate(DEVICE) is expected


def test_a_version_that_is_none_fails_every_selector():
    device = Device("gpu.test", {"firmware": Version("2.x")}, {})

    with pytest.raises(
        EvaluationError, match="attribute firmware: parse semantic version: No Major"
    ):
        compile_selector("true").evaluate(device)


def test_an_attribute_of_another_type_fails_every_selector():
    device = Device("gpu.test", {"list": [1, 2]}, {})  # type: ignore[dict-item]

    with pytest.raises(EvaluationError, match="attribute list: unsupported attribute value"):
        compile_selector("true").evaluate(device)


@pytest.mark.parametrize(
    ("text", "hinted"), [("no such key: a", True), ("division by zero", False)]
)
def test_the_next_release_hints_at_missing_names(text: str, hinted: bool):
    assert ("has()" in hint(text)) is hinted


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("true", set()),
        ("device.driver == 'x'", {("driver",)}),
        ("device.allowMultipleAllocations", {("allowMultipleAllocations",)}),
        ("device.attributes['d'].a == device.capacity.d['b']",
         {("attributes", "d", "a"), ("capacity", "d", "b")}),
        ("has(device.attributes['d'].a) || 'b' in device.attributes['d']",
         {("attributes", "d", "a"), ("attributes", "d", "b")}),
        ("cel.bind(x, device.attributes['d'], x.a == 1 || x.?b.hasValue())",
         {("attributes", "d", "a"), ("attributes", "d", "b")}),
        ("[1].exists(device, device == 1)", set()),
        ("'d' in device.attributes", None),
        ("device.attributes['d'].exists(k, k == 'a')", None),
        ("device.attributes[device.driver].a == 1", None),
        ("device.attributes['d'][device.driver] == 1", None),
        ("dyn(device).driver == 'x'", None),
        ("cel.bind(x, device.attributes['d'], x.size() == 1)", None),
    ],
)  # fmt: skip
def test_it_is_known_what_a_selector_reads(expression: str, reads: set[tuple[str, ...]] | None):
    expected = None if reads is None else frozenset(reads)

    # The type of the last two operands does not matter here.
    assert compile_selector(f"({expression}) == true").reads == expected
