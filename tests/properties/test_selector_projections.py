"""Devices share results of selectors, and each result is that of its own evaluation."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.cel import CelDevice, CompileError, EvaluationError, compile_selector
from scheduler.cel.device import Attribute, Version
from scheduler.cel.planning.budget import COST, COST_LIMIT
from scheduler.cel.planning.planner import plan
from scheduler.cel.selector import typed_tree
from scheduler.model.api.devices import AttributeValue, Capacity, Device
from scheduler.model.releases import REFERENCES, Reference
from scheduler.plugins.dynamic_resources.structured import selectors
from scheduler.plugins.dynamic_resources.structured.selectors import Projection
from scheduler.state.devices.device_kinds import DeviceKind, DeviceKinds
from tests.support import cel_expressions
from tests.support.cel_expressions import DRIVER, OTHER
from tests.support.seeds import share

pytestmark = pytest.mark.seeded

#: Names that devices have twice, or that only look like those that expressions read.
ODD = (f"{DRIVER}/model", f"{DRIVER}/numa", "x/model", f"{OTHER}/lane/1", "serial", "unread")


def value(attribute: Attribute) -> AttributeValue:
    if isinstance(attribute, list):
        kind = {bool: "bools", int: "ints", str: "strings", Version: "versions"}[type(attribute[0])]
        texts = [str(each) if isinstance(each, str) else each for each in attribute]
        return AttributeValue(**{kind: texts})
    kinds: dict[type, str] = {bool: "bool_", int: "int_", str: "string", Version: "version"}
    plain = str(attribute) if isinstance(attribute, str) else attribute
    fields: dict[str, Any] = {kinds[type(attribute)]: plain}
    return AttributeValue(**fields)


def kind_of(kinds: DeviceKinds, device: CelDevice, odd: dict[str, str]) -> DeviceKind:
    attributes = {name: value(each) for name, each in device.attributes.items()}
    attributes |= {name: AttributeValue(string=text) for name, text in odd.items()}
    capacity = {name: Capacity(text) for name, text in device.capacity.items()}
    shared = device.allow_multiple_allocations
    made = Device("d", attributes, capacity, allow_multiple_allocations=shared)
    return kinds.of(device.driver, made)


def direct(expression: str, reference: Reference, device: CelDevice) -> bool | str:
    try:
        return compile_selector(expression, reference).evaluate(device)
    except (CompileError, EvaluationError) as error:
        return str(error)


def cost(expression: str, reference: Reference, device: CelDevice) -> int:
    planned = plan(typed_tree(expression, reference), reference, tracked=True)
    environment = planned.environment(device.view.fields)
    with contextlib.suppress(EvaluationError):
        planned.run(environment)
    return int(environment[COST])


@st.composite
def devices(draw, made: cel_expressions.Expressions) -> list[tuple[CelDevice, dict[str, str]]]:
    """Draw devices with additional attributes that few expressions read."""
    odd = st.dictionaries(st.sampled_from(ODD), st.sampled_from(["a", "b"]), max_size=3)
    return [(made.device(lists=0.2), draw(odd)) for _ in range(6)]


@given(st.data(), st.integers(0, 10**9), st.sampled_from(list(REFERENCES.values())))
@settings(deadline=None, max_examples=share(100))
def test_a_shared_result_is_the_result_of_each_device(data, seed, reference):
    made = cel_expressions.Expressions(seed, reference)
    known, kinds = selectors.CelCache(reference, bounded=False), DeviceKinds(reference)
    drawn = [kind_of(kinds, *each) for each in data.draw(devices(made))]
    for _ in range(8):
        expression = made.selector()
        shared = known.get(expression)
        for kind in drawn:
            result = shared.device_matches(kind)
            alone = direct(expression, reference, kind.complete())
            assert result == alone or cost(expression, reference, kind.complete()) > 10_000


@given(st.data(), st.integers(0, 10**9), st.sampled_from(list(REFERENCES.values())))
@settings(deadline=None, max_examples=share(100))
def test_the_values_that_are_read_determine_the_cost(data, seed, reference):
    made, kinds = cel_expressions.Expressions(seed, reference), DeviceKinds(reference)
    drawn = [kind_of(kinds, *each) for each in data.draw(devices(made))]
    for _ in range(8):
        expression = made.selector()
        with contextlib.suppress(CompileError):
            read = compile_selector(expression, reference).reads
            for kind in drawn if read is not None else ():
                projection = Projection(read)
                if kind.error is None and projection.key(kind) is not None:
                    part = cost(expression, reference, projection.device(kind))
                    whole = cost(expression, reference, kind.complete())
                    assert part == whole or min(part, whole) > COST_LIMIT
