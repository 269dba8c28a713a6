"""What of a device a selector reads is told from its text, at least as much as it reads."""

import pytest

from scheduler.cel.planning.reads import DeviceField, DeviceReads, reads
from scheduler.cel.selector import typed_tree
from scheduler.model.releases import REFERENCES, Reference

MODEL = DeviceField("attributes", "a.b", "model")
MEMORY = DeviceField("capacity", "a.b", "memory")
RELEASES = pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES.keys())


def entries(expression: str, reference: Reference) -> tuple[DeviceField, ...] | None:
    found = reads(typed_tree(expression, reference))
    return None if found is None else found.entries


@RELEASES
@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["a.b"].model == "x"',
        'device.attributes["a.b"]["model"] == "x"',
        '.device.attributes["a.b"].model == "x"',
        'has(device.attributes["a.b"].model)',
        '"model" in device.attributes["a.b"]',
        'device.attributes["a.b"].?model.orValue("") == "x"',
        'device.attributes["a.b"][?"model"].hasValue()',
        'device.attributes[?"a.b"].?model.hasValue()',
        'device.?attributes["a.b"].?model.hasValue()',
        'cel.bind(own, device.attributes["a.b"], own.model == "x")',
        'cel.bind(all, device.attributes, has(all["a.b"].model))',
        'cel.bind(own, device.attributes["a.b"], "model" in own)',
        'cel.bind(d, device, d.attributes["a.b"].model == "x")',
        '["x"].exists(device, device == "y") || device.attributes["a.b"].model == "x"',
        'device.attributes["a.b"].model.startsWith("x")',
    ],
)
def test_an_attribute_is_read(expression: str, reference: Reference):
    assert entries(expression, reference) == (MODEL,)


@RELEASES
@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["a.b"].exists(name, name == "model")',
        'device.attributes["a.b"].size() == 1',
        'device.attributes["a" + ".b"].model == "x"',
        'device.attributes["a.b"][device.driver] == "x"',
        '[device].exists(each, each.attributes["a.b"].model == "x")',
        'dyn(device).attributes["a.b"].model == "x"',
        'cel.bind(own, device.attributes["a.b"], own == own)',
        '(device.driver == "x" ? device.attributes["a.b"] : device.attributes["c"]).model == "x"',
        'optional.of(device.attributes["a.b"]).?model.hasValue()',
        '"a.b" in device.attributes',
        'device.driver in device.attributes["a.b"]',
        "device == device",
    ],
)
def test_anything_can_be_read_where_a_map_is_a_value(expression: str, reference: Reference):
    assert entries(expression, reference) is None


@RELEASES
def test_fields_and_capacities_are_told_apart(reference: Reference):
    capacity = 'device.capacity["a.b"].memory.compareTo(quantity("1")) > 0'
    found = reads(typed_tree(f"{capacity} && device.allowMultipleAllocations", reference))
    driver = reads(typed_tree('device.driver == "x"', reference))
    nothing = reads(typed_tree("true", reference))

    assert found == DeviceReads(driver=False, shared=True, entries=(MEMORY,))
    assert driver == DeviceReads(driver=True, shared=False, entries=())
    assert nothing == DeviceReads(driver=False, shared=False, entries=())
