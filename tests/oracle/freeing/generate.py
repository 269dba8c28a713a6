"""Random clusters with one pending pod, whose devices others have.

At most five nodes, twelve pods and ten devices: all that may be evicted from a node can be tried.
"""

import zlib
from dataclasses import replace
from typing import Final

from tests.oracle.generate import Cluster
from tests.oracle.generating import nodes, pods, slices, workloads
from tests.oracle.generating.claims import Claims, request
from tests.oracle.generating.configs import API_VERSION
from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.resources import FPGA, GPU
from tests.oracle.generating.slices import Pools
from tests.oracle.generating.traits import DeviceTraits, Traits

__all__ = ["FAMILIES", "cluster", "frees"]

#: What lets preemption free devices.
_OPTION: Final = "preemptForDevices"
_CONFIG: Final[Object] = {
    "apiVersion": API_VERSION,
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": pods.SCHEDULER,
            "pluginConfig": [{"name": "PreemptiveScheduler", "args": {_OPTION: True}}],
        }
    ],
}
_MAX_DEVICES: Final = 10
_MAX_PLACED: Final = 11
#: Nothing fails at one device only: an eviction that frees it would help less than none.
_PLAIN: Final = DeviceTraits(
    claims=0.85, shared=0.15, allocated=0.05, missing=0.0, admin=0.02, selectors=0.15, failing=0.0,
    every=0.03, incomplete=0.01, invalid=0.0, network=0.1,
)  # fmt: skip
_PODS: Final = Traits(priorities=0.9, tight=0.15, budgets=0.5, few_places=0.05)

#: What each family is about.
FAMILIES: Final = {
    f"frees-{name}": replace(traits, devices=replace(_PLAIN, **devices))
    for name, traits, devices in (
        ("plain", _PODS, {}),
        ("pressure", replace(_PODS, tight=0.8, few_places=0.3, budgets=0.7, taints=0.1), {}),
        ("shared", _PODS, {"shared": 0.7, "allocated": 0.1}),
        ("network", _PODS, {"network": 0.8, "shared": 0.4}),
        ("partitions", _PODS, {"counters": 0.9, "network": 0.2}),
        ("capacity", _PODS, {"capacity": 0.8, "network": 0.2, "every": 0.0}),
        ("constraints", _PODS, {"constraints": 0.9}),
        ("choices", _PODS, {"choices": 0.7, "every": 0.1}),
        ("admin", _PODS, {"admin": 0.35, "shared": 0.3}),
        ("extended", _PODS, {"extended": 0.6, "claims": 0.5}),
        ("taints", _PODS, {"tainted": 0.4, "tolerations": 0.4, "rules": 0.3}),
        ("pools", _PODS, {"incomplete": 0.3, "invalid": 0.15, "every": 0.1, "network": 0.4}),
        ("failing", _PODS, {"selectors": 0.6, "failing": 0.3}),
        (
            "mixed", replace(_PODS, tight=0.4, taints=0.05),
            {
                "shared": 0.3, "network": 0.3, "counters": 0.3, "capacity": 0.25, "admin": 0.08,
                "constraints": 0.25, "choices": 0.2, "extended": 0.2, "tainted": 0.05,
                "allocated": 0.1,
            },
        ),
    )
}  # fmt: skip


def cluster(family: str, seed: int) -> Cluster:
    """Return a cluster of a family.

    Raises:
        KeyError: There is no such family.
    """
    traits = FAMILIES[family]
    dice = Dice(zlib.crc32(f"freeing {family}".encode()), seed)
    names = [f"n{number}" for number in range(dice.pick((1, 2, 2, 3, 4, 5)))]
    made = pods.Pods(dice, traits, names)
    crowd = dice.number(1, min(_MAX_PLACED, 4 * len(names)))
    everyone = [*(made.placed(f"e{number}") for number in range(crowd)), made.waiting("p0")]
    if dice.chance(0.5):
        everyone[-1]["spec"]["priority"] = 1000
    objects = [nodes.node(dice, traits, name) for name in names]
    if dice.chance(traits.budgets):
        # The order in which several budgets count is not compared.
        objects += workloads.budgets(dice, everyone[:-1])[:1]
    if traits.devices is not None:
        objects += _devices(dice, traits.devices, objects[: len(names)], everyone)
    return Cluster(f"{family}:{seed}", [*objects, *everyone], _CONFIG)


def frees(cluster: Cluster) -> bool:
    """Return whether preemption frees devices in a cluster."""
    return cluster.config == _CONFIG


def _devices(
    dice: Dice, traits: DeviceTraits, made: list[Object], everyone: list[Object]
) -> list[Object]:
    """Return classes, slices and claims; some of the pods use the claims, the last one always."""
    names = [node["metadata"]["name"] for node in made]
    pools = _few(dice, slices.slices(dice, traits, names))
    classes = slices.classes(dice, traits)
    rules = slices.taint_rules(dice, names) if dice.chance(traits.rules) else []
    claims = Claims(dice, traits, pools, names)
    extended = any("extendedResourceName" in each["spec"] for each in classes)
    for pod in everyone:
        before = len(claims.objects)
        wants = extended and dice.chance(traits.extended)
        if wants:
            request(dice, pod)
        if wants and "nodeName" in pod["spec"] and dice.chance(0.8):
            claims.hold(pod)
        if dice.chance(traits.claims) or (pod is everyone[-1] and not wants):
            claims.use(pod)
    for claim in claims.objects[before:]:
        _modest(dice, claim)
    for node in made if extended else ():
        # The resource comes from the class alone, or, rarely, from a device plugin.
        node["status"]["allocatable"] |= {GPU: "0"} if dice.chance(0.8) else {GPU: "1"}
        node["status"]["allocatable"].pop(FPGA, None)
    for claim in claims.objects:
        if "status" in claim:
            _consume(dice, claim["status"]["allocation"]["devices"]["results"])
            if dice.chance(0.25):
                _twist(dice, claim["status"], everyone[:-1])
    return [*classes, *pools.objects, *rules, *claims.objects]


def _few(dice: Dice, pools: Pools) -> Pools:
    """Return so many of the pools that they have few devices."""
    kept = Pools()
    left = _MAX_DEVICES
    by_pool: dict[tuple[str, str], list[Object]] = {}
    for item in pools.objects:
        spec = item["spec"]
        by_pool.setdefault((spec["driver"], spec["pool"]["name"]), []).append(item)
    for pool in dice.shuffled(list(by_pool)):
        count = sum(len(item["spec"].get("devices", ())) for item in by_pool[pool])
        if count <= left:
            left -= count
            kept.objects += by_pool[pool]
            for node, devices in pools.devices.items():
                mine = [each for each in devices if each[:2] == pool]
                kept.devices.setdefault(node, []).extend(mine)
    return kept


def _modest(dice: Dice, claim: Object) -> None:
    """Let the preemptor want what most pools have: else few nodes would be candidates."""
    for each in claim["spec"]["devices"]["requests"]:
        for wanted in (each.get("exactly"), *each.get("firstAvailable", ())):
            if wanted is None or not dice.chance(0.7):
                continue
            wanted["deviceClassName"] = dice.pick(("gpu", "any"))
            if "count" in wanted:
                wanted["count"] = dice.pick((1, 1, 1, 2))
            if dice.chance(0.7):
                wanted.pop("selectors", None)


def _consume(dice: Dice, results: list[Object]) -> None:
    """Let shares of devices be so large that not many fit."""
    for each in results:
        if "memory" in each.get("consumedCapacity", {}) and dice.chance(0.6):
            each["consumedCapacity"]["memory"] = dice.pick(("4Gi", "6Gi", "8Gi"))


def _twist(dice: Dice, status: Object, placed: list[Object]) -> None:
    """Let a claim have other consumers than the pods that use it."""
    form = dice.number(0, 4)
    consumers = status.setdefault("reservedFor", [])
    if form == 0:
        # Left over.
        consumers.clear()
    elif form == 1:
        job = {"apiGroup": "batch", "resource": "jobs", "name": "j", "uid": "uid-j"}
        if consumers and dice.chance(0.5):
            job["uid"] = consumers.pop()["uid"]
        consumers.append(job)
    elif form == 2:
        consumers.append({"resource": "pods", "name": "gone", "uid": "uid-gone"})
    elif form == 3 and consumers:
        # A pod of the same name that was there before.
        consumers[0]["uid"] += "-before"
    else:
        pod = dice.pick(placed)["metadata"]
        if all(each["uid"] != pod["uid"] for each in consumers):
            consumers.append({"resource": "pods", "name": pod["name"], "uid": pod["uid"]})
