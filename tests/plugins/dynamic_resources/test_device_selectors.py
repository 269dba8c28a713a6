"""Selectors see a device as its ResourceSlice says it."""

import pytest

from scheduler.model.api.devices import AttributeValue, Device
from scheduler.model.releases import V1_36, V1_37, Reference
from scheduler.plugins.dynamic_resources.device_selectors import Expressions
from scheduler.state.devices.slices import DeviceKind
from tests.support.devices import DRIVER


def result(attribute: AttributeValue, expression: str, reference: Reference) -> bool | str:
    device = Device("d", {"a": attribute}, {})
    return Expressions(reference).get(expression).result(DeviceKind(DRIVER, device))


@pytest.mark.parametrize(
    ("attribute", "test"),
    [
        pytest.param(AttributeValue(ints=[1, 2]), "2 in ATTRIBUTE", id="ints"),
        pytest.param(AttributeValue(bools=[True]), "ATTRIBUTE.all(each, each)", id="bools"),
        pytest.param(AttributeValue(strings=["x"]), "ATTRIBUTE.includes('x')", id="strings"),
        pytest.param(
            AttributeValue(versions=["1.2.3"]), "ATTRIBUTE[0].minor() == 2", id="versions"
        ),
    ],
)
def test_lists_are_values_since_the_newer_release(attribute: AttributeValue, test: str):
    expression = test.replace("ATTRIBUTE", f'dyn(device.attributes["{DRIVER}"].a)')

    assert result(attribute, expression, V1_37) is True
    assert result(attribute, expression, V1_36) == "attribute a: unsupported attribute value"


def test_an_attribute_without_a_known_value_fails_every_selector():
    assert result(AttributeValue(), "true", V1_37) == "attribute a: unsupported attribute value"
