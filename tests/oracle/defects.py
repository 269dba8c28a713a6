"""What a release of kube-scheduler does wrong is not compared with it; docs/differences.md has it.

v1.36.3 has errors in the allocation of devices; here they are allocated as by v1.37.2 in both
cases. v1.37.2 panics when it scores a CSIStorageCapacity that has a `maximumVolumeSize` only. Both
skip disruption budgets with an empty selector, and pods without labels.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace

from tests.oracle.generate import Cluster
from tests.oracle.generating.dice import Object

__all__ = ["comparable", "with_honoured_budgets"]

_DEFECTIVE = "v1.36"
_PANICS = "v1.37"
_ODD = ("1e19", "9223372036854775807", "-1Gi")
#: A label that no selector of a cluster names.
_EVERY = "oracle.example.com/every-pod"


def comparable(cluster: Cluster, reference: str) -> Cluster:
    """Return a cluster without what a release of kube-scheduler is known to do wrong."""
    if reference == _PANICS:
        return _with_capacities(cluster)
    if reference != _DEFECTIVE or all(each["kind"] != "ResourceSlice" for each in cluster.objects):
        return cluster
    objects = copy.deepcopy(cluster.objects)
    shared = [device for device in _devices(objects) if device.get("allowMultipleAllocations")]
    for device in shared:
        if not device.get("capacity"):
            # Each share consumes the counters again.
            device.pop("consumesCounters", None)
    for device in _devices(objects):
        for capacity in device.get("capacity", {}).values():
            # It is added and subtracted in 64 bits.
            capacity["value"] = capacity["value"].removeprefix("-")
    for item in objects:
        if item["kind"] == "ResourceClaim" and "devices" in item["spec"]:
            _mend(item["spec"]["devices"], shares=bool(shared))
    return replace(cluster, objects=objects)


def with_honoured_budgets(objects: list[Object]) -> list[Object]:
    """Return objects whose budgets protect, in kube-scheduler, what they protect in the API server.

    Every pod has a label, and each empty selector of a budget requires that label.
    """
    if all(each["kind"] != "PodDisruptionBudget" for each in objects):
        return objects
    objects = copy.deepcopy(objects)
    for item in objects:
        if item["kind"] == "Pod":
            item["metadata"]["labels"] = {**item["metadata"].get("labels", {}), _EVERY: ""}
        elif item["kind"] == "PodDisruptionBudget":
            selector = item["spec"].get("selector")
            if selector is not None and not any(selector.values()):
                item["spec"]["selector"] = {"matchLabels": {_EVERY: ""}}
    return objects


def _with_capacities(cluster: Cluster) -> Cluster:
    """Return a cluster in which each CSIStorageCapacity has a capacity.

    It does not count in the filter, which compares with `maximumVolumeSize` where there is one.
    """
    objects = [
        {**item, "capacity": item["maximumVolumeSize"]}
        if item["kind"] == "CSIStorageCapacity"
        and "maximumVolumeSize" in item
        and "capacity" not in item
        else item
        for item in cluster.objects
    ]
    return replace(cluster, objects=objects)


def _devices(objects: list[Object]) -> Iterator[Object]:
    for item in objects:
        if item["kind"] == "ResourceSlice":
            yield from item["spec"].get("devices", ())


def _mend(devices: Object, *, shares: bool) -> None:
    """Change what a claim asks for.

    `All` leaves out shared devices that have too little left. `distinctAttribute` keeps one value
    of each request. A configuration is added once for each request that it is for.
    """
    several = False
    for request in devices.get("requests", ()):
        for wanted in (request.get("exactly"), *request.get("firstAvailable", ())):
            if wanted is None:
                continue
            if shares and wanted["allocationMode"] == "All":
                wanted |= {"allocationMode": "ExactCount", "count": 1}
            amounts = wanted.get("capacity", {}).get("requests", {})
            if amounts.get("memory") in _ODD:
                amounts["memory"] = "1Gi"
            several = several or wanted.get("count", 2) > 1
    if several:
        constraints = devices.get("constraints", ())
        kept = [each for each in constraints if "distinctAttribute" not in each]
        devices["constraints"] = kept
