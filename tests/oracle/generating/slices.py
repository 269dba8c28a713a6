"""Random devices: classes, slices and the rules that taint devices."""

import copy
from dataclasses import dataclass, field

from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.labels import HOSTNAME, ZONE
from tests.oracle.generating.resources import FPGA, GPU
from tests.oracle.generating.traits import DeviceTraits

__all__ = [
    "API_VERSION", "CLASSES", "TAINTS", "Pools", "classes", "selectors", "slices", "taint_rules",
]  # fmt: skip

API_VERSION = "resource.k8s.io/v1"
GPUS, NET = "gpu.example.com", "net.example.com"
CLASSES = ("gpu", "net", "any", "big")
TAINTS = (("broken", ""), ("dedicated", "db"), ("dedicated", "web"))
_EFFECTS = ("NoSchedule", "NoSchedule", "NoExecute", "None", "Unknown")
_ZONES = ("z1", "z2", "z3")

_FRACTIONS = {"default": "500m", "validRange": {"min": "500m", "step": "500m"}}
#: They have a value for every device.
_TOTAL = (
    f'device.driver == "{GPUS}"',
    f'device.attributes["{GPUS}"].?model.orValue("") == "a"',
    f'device.attributes["{GPUS}"].?model.orValue("b") != "a"',
    f'"index" in device.attributes["{GPUS}"] && device.attributes["{GPUS}"].index < 2',
    'has(device.attributes["example.com"].rack) && device.attributes["example.com"].rack == "r0"',
    f'device.attributes["{GPUS}"].?version.orValue(semver("0.0.0")).isGreaterThan(semver("1.5.0"))',
    f'device.capacity["{GPUS}"].?memory.orValue(quantity("0")).compareTo(quantity("10Gi")) >= 0',
    "!device.allowMultipleAllocations",
    f'device.attributes["{GPUS}"].?uuid.orValue("d0") != "d0"',
)
#: They fail for some devices, or for all.
_FAILING = (
    f'device.attributes["{GPUS}"].model == "a"',
    f'device.attributes["{GPUS}"].index > 0',
    f'device.capacity["{GPUS}"].memory.isGreaterThan(quantity("8Gi"))',
    "1 / (size(device.attributes) - 1) > 0",
    "device.unknown",
    '"text"',
)


@dataclass
class Pools:
    """The slices of one cluster, and which devices a node can reach."""

    objects: list[Object] = field(default_factory=list)
    #: Driver, pool and device, by node; the key "" has those that all nodes may reach.
    devices: dict[str, list[tuple[str, str, Object]]] = field(default_factory=dict)


def selectors(dice: Dice, traits: DeviceTraits) -> list[Object]:
    """Return selectors; few fail."""
    texts = dice.some(_TOTAL, 1, 2)
    if dice.chance(traits.failing):
        texts.append(dice.pick(_FAILING))
    return [{"cel": {"expression": text}} for text in dice.shuffled(texts)]


def classes(dice: Dice, traits: DeviceTraits) -> list[Object]:
    """Return device classes; some provide an extended resource."""
    found = []
    for name, driver in (("gpu", GPUS), ("net", NET), ("any", ""), ("big", GPUS)):
        spec: Object = {}
        if driver:
            expression = f'device.driver == "{driver}"'
            spec["selectors"] = [{"cel": {"expression": expression}}]
        if name == "big":
            spec["selectors"] += selectors(dice, traits)
        if dice.chance(traits.config):
            opaque = {"driver": driver or GPUS, "parameters": {"of": name}}
            spec["config"] = [{"opaque": opaque} for _ in range(dice.pick((1, 1, 2)))]
        resource = {"gpu": GPU, "net": FPGA}.get(name)
        if resource and dice.chance(traits.extended):
            spec["extendedResourceName"] = resource
        if not dice.chance(traits.missing / 2):
            found.append(_object("DeviceClass", name, spec))
    return found


def slices(dice: Dice, traits: DeviceTraits, nodes: list[str]) -> Pools:
    """Return slices: of each node, and of the network."""
    made = Pools()
    for node in nodes:
        for driver in (GPUS, NET):
            if dice.chance(0.85 if driver == GPUS else 0.4):
                _pool(dice, traits, made, (driver, node), nodes, {"nodeName": node})
    for driver in (GPUS, NET):
        for number in range(2):
            if dice.chance(traits.network):
                _pool(dice, traits, made, (driver, f"fabric-{number}"), nodes, {})
    return made


def taint_rules(dice: Dice, nodes: list[str]) -> list[Object]:
    """Return rules that taint devices."""
    found = []
    for number in range(dice.number(1, 2)):
        spec: Object = {"taint": _taint(dice)}
        if dice.chance(0.9):
            selector: Object = {}
            if dice.chance(0.5):
                selector["driver"] = dice.pick((GPUS, NET))
            if dice.chance(0.5):
                selector["pool"] = dice.pick(nodes)
            if dice.chance(0.5):
                selector["device"] = f"d{dice.number(0, 3)}"
            spec["deviceSelector"] = selector
        found.append(_object("DeviceTaintRule", f"rule-{number}", spec))
    return found


def _object(kind: str, name: str, spec: Object) -> Object:
    metadata = {"name": name, "uid": f"uid-{name}"}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def _pool(
    dice: Dice, traits: DeviceTraits, made: Pools, name: tuple[str, str], nodes: list[str],
    place: Object,
) -> None:  # fmt: skip
    """Add the slices of one pool."""
    driver, pool = name
    per_device = not place and dice.chance(0.3)
    devices, parts = _parts(dice, traits, driver)
    generation, count = dice.number(1, 2), len(parts)
    if dice.chance(traits.incomplete):
        count += dice.pick((1, 1, -1))
    where = place or ({"perDeviceNodeSelection": True} if per_device else _place(dice, nodes))
    if per_device:
        for device in devices:
            device.update(_place(dice, nodes, names=True))
    for number, part in enumerate(dice.shuffled(parts)):
        own = where
        if not place and not per_device and dice.chance(0.2):
            own = _place(dice, nodes)
        old = dice.chance(traits.incomplete / 2)
        identity = {
            "name": pool,
            "generation": generation - 1 if old else generation,
            "resourceSliceCount": max(1, count),
        }
        spec = {"driver": driver, "pool": identity, **own, **part}
        slice_name = f"{driver.partition('.')[0]}-{pool}-{number}"
        made.objects.append(_object("ResourceSlice", slice_name, spec))
    known = made.devices.setdefault(pool if place else "", [])
    known += [(driver, pool, device) for device in devices]


def _parts(dice: Dice, traits: DeviceTraits, driver: str) -> tuple[list[Object], list[Object]]:
    """Return the devices of a pool, and what each of its slices has."""
    if dice.chance(traits.large):
        devices = _many(dice, traits, driver)
    else:
        devices = [_device(dice, traits, driver, number) for number in range(dice.number(1, 4))]
    is_partitioned = driver == GPUS and dice.chance(traits.counters)
    sets = _counter_sets(dice, len(devices)) if is_partitioned else []
    if sets:
        _consume(dice, traits, devices, sets)
    if dice.chance(traits.invalid):
        _spoil(dice, devices)
    parts: list[Object] = [{"devices": devices}]
    if len(devices) > 1 and dice.chance(0.3):
        cut = dice.number(1, len(devices) - 1)
        parts = [{"devices": devices[:cut]}, {"devices": devices[cut:]}]
    if sets:
        parts.append({"sharedCounters": sets})
    return devices, parts


def _place(dice: Dice, nodes: list[str], *, names: bool = False) -> Object:
    form = dice.number(0, 3 if names else 2)
    if form == 0:
        return {"allNodes": True}
    if form == 3:
        return {"nodeName": dice.pick(nodes)}
    if form == 1:
        values = {"key": ZONE, "operator": "In", "values": dice.some(_ZONES, 1, 2)}
    else:
        values = {"key": HOSTNAME, "operator": "In", "values": dice.some(nodes, 1, 3)}
    requirements = [values]
    if dice.chance(0.2):
        requirements.append({"key": "disk", "operator": "Exists"})
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": requirements}]}}


def _device(dice: Dice, traits: DeviceTraits, driver: str, number: int) -> Object:
    device: Object = {"name": f"d{number}", "attributes": _attributes(dice, driver)}
    if dice.chance(max(0.4, traits.capacity)):
        device["capacity"] = _capacities(dice, traits)
    if dice.chance(traits.capacity):
        device["allowMultipleAllocations"] = True
    if dice.chance(traits.tainted):
        device["taints"] = [_taint(dice) for _ in range(dice.pick((1, 1, 2)))]
    if dice.chance(traits.conditions):
        device["bindingConditions"] = dice.some(("example.com/a", "example.com/b"), 1, 2)
        device["bindingFailureConditions"] = ["example.com/failed"]
    if dice.chance(traits.conditions / 2):
        device["bindsToNode"] = dice.chance(0.8)
    return device


def _many(dice: Dice, traits: DeviceTraits, driver: str) -> list[Object]:
    """Return the devices of a large pool: of one to three kinds, and perhaps some odd ones."""
    kinds = [_device(dice, traits, driver, 0) for _ in range(dice.pick((1, 1, 2, 3)))]
    numbered, odd = dice.chance(0.7), dice.pick((0.0, 0.0, 0.1))
    devices = []
    for number in range(dice.pick((5, 6, 8, 8, 12, 14, 16, 16, 24, 32))):
        like = _device(dice, traits, driver, 0) if dice.chance(odd) else dice.pick(kinds)
        device: Object = {**copy.deepcopy(like), "name": f"d{number}"}
        if numbered:
            device["attributes"]["uuid"] = {"string": f"d{number}"}
        devices.append(device)
    return devices


def _attributes(dice: Dice, driver: str) -> Object:
    attributes: Object = {}
    if dice.chance(0.85):
        attributes["model"] = {"string": dice.pick(("a", "a", "b"))}
    elif dice.chance(0.5):
        # The same attribute; upstream takes any of the two where a device has both.
        attributes[f"{driver}/model"] = {"string": dice.pick(("a", "b"))}
    if dice.chance(0.6):
        attributes["index"] = {"int": dice.number(0, 2)}
    if dice.chance(0.4):
        attributes["version"] = {"version": dice.pick(("1.0.0", "2.1.0"))}
    if dice.chance(0.7):
        value = {"string": dice.pick(("r0", "r1"))} if dice.chance(0.95) else {"bool": True}
        attributes["example.com/rack"] = value
    return attributes


def _capacities(dice: Dice, traits: DeviceTraits) -> Object:
    memory: Object = {"value": dice.pick(("8Gi", "10Gi", "16Gi"))}
    found: Object = {"memory": memory}
    if dice.chance(traits.capacity):
        memory["requestPolicy"] = _policy(dice)
    if dice.chance(traits.capacity / 2):
        found["cores"] = {"value": "4", "requestPolicy": _FRACTIONS}
    if dice.chance(traits.odd_amounts):
        memory["value"] = "-1Gi"
    if dice.chance(traits.capacity / 2):
        found["bandwidth"] = {"value": dice.pick(("10G", "1500M", "10"))}
    return found


def _policy(dice: Dice) -> Object:
    form = dice.number(0, 3)
    if form == 0:
        return {"default": dice.pick(("1Gi", "2Gi"))}
    if form == 1:
        values = ["1Gi", "2Gi", "4Gi", "8Gi"]
        return {"default": dice.pick(values[:2]), "validValues": values}
    limits: Object = {"min": "1Gi"}
    if dice.chance(0.6):
        limits["max"] = "6Gi"
    if dice.chance(0.6):
        limits["step"] = dice.pick(("1Gi", "512Mi", "1G"))
    return {"default": "1Gi", "validRange": limits}


def _counter_sets(dice: Dice, devices: int) -> list[Object]:
    counters = {"memory": {"value": dice.pick(("4Gi", "6Gi"))}, "slots": {"value": "3"}}
    sets: list[Object] = [{"name": "s0", "counters": counters}]
    if dice.chance(0.3):
        sets.append({"name": "s1", "counters": {"slots": {"value": dice.pick(("1", "2"))}}})
    more = [{**sets[0], "name": f"s{number}"} for number in range(2, 2 + devices // 6)]
    return sets + more


def _consume(dice: Dice, traits: DeviceTraits, devices: list[Object], sets: list[Object]) -> None:
    amounts = {"memory": ("1Gi", "2Gi", "3Gi", "2560Mi"), "slots": ("1", "1", "2")}
    for device in devices:
        if dice.chance(0.85):
            device["consumesCounters"] = [
                {
                    "counterSet": each["name"],
                    "counters": {
                        name: {"value": dice.pick(amounts[name])} for name in each["counters"]
                    },
                }
                for each in dice.some(sets, 1, 2)
            ]
            if dice.chance(traits.gated):
                device["consumesCounters"][0]["compatibilityGroups"] = ["a"]


def _spoil(dice: Dice, devices: list[Object]) -> None:
    """Make a pool invalid: a name twice, or a counter set that it lacks."""
    if dice.chance(0.5) and len(devices) > 1:
        devices[-1]["name"] = devices[0]["name"]
    else:
        missing = {"counterSet": "none", "counters": {"slots": {"value": "1"}}}
        devices[0]["consumesCounters"] = [missing]


def _taint(dice: Dice) -> Object:
    key, value = dice.pick(TAINTS)
    taint = {"key": key, "effect": dice.pick(_EFFECTS)}
    return taint | ({"value": value} if value else {})
