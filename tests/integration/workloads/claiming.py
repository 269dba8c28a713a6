"""Workloads with devices. The test publishes them; the controller makes and frees claims."""

from collections.abc import Mapping
from typing import Any

from tests.integration.devices import GROUP, devices_of
from tests.integration.objects import Json
from tests.integration.stage import Stage

SLICES, CLASSES = f"{GROUP}/resourceslices", f"{GROUP}/deviceclasses"
TEMPLATES = f"{GROUP}/{{ns}}/resourceclaimtemplates"
CLAIMS = f"{GROUP}/{{ns}}/resourceclaims"
DRIVER = "gpu.example.com"
#: What pods have that share a claim.
SHARING = [{"name": "x", "resourceClaimName": "shared"}]


def devices(stage: Stage) -> None:
    """Devices decide: how large they are, of which model, how many of one model, and their taints.

    There are too few, so in most groups the last pods wait. Which devices each claim has got is
    compared.
    """
    for kind, count in (("small", 3), ("large", 2), ("mixed", 2), ("broken", 1), ("bare", 2)):
        stage.nodes(kind, count)
    publish(stage, "small", {"d0": gpu("s"), "d1": gpu("s")})
    publish(stage, "large", {"d0": gpu("l", "80Gi")})
    publish(stage, "mixed", {"d0": gpu("s"), "d1": gpu("m"), "d2": gpu("s"), "d3": gpu("m")})
    taint = {"key": f"{DRIVER}/broken", "effect": "NoSchedule"}
    publish(stage, "broken", {"d0": {**gpu("b"), "taints": [taint]}})
    name = device_class(stage, "gpu", f'device.driver == "{DRIVER}"')

    of_size = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
    claiming(stage, "huge", 3, exactly(name, of_size))
    same = [{"matchAttribute": f"{DRIVER}/model"}]
    claiming(stage, "pair", 3, exactly(name, of_model("m"), count=2), constraints=same)
    tolerating = {"key": taint["key"], "operator": "Exists"}
    claiming(stage, "tolerant", 1, exactly(name, of_model("b"), tolerations=[tolerating]))
    claiming(stage, "any", 12, exactly(name))
    claiming(stage, "all", 1, exactly(name, allocationMode="All"))
    stage.pods("none", 2, nodeSelector={"kind": "bare"})
    await_claims(stage, 20)
    compare_claims(stage)


def choices_of_devices(stage: Stage) -> None:
    """The first choice of a claim is better than the second, and a shared claim ties its pods.

    Two pods may use the claim that they share, the next ones find no room on its node. They come
    when the first one is bound: what is written about pods whose claim is being allocated depends
    on how long that takes.
    """
    stage.nodes("new", 2)
    stage.nodes("old", 3)
    stage.nodes("shared", 1, "2")
    for kind in ("new", "old", "shared"):
        publish(stage, kind, {"d0": gpu(kind)})
    name = device_class(stage, "gpu", f'device.driver == "{DRIVER}"')

    choices = [{"name": model, **one(name, of_model(model))} for model in ("new", "old")]
    claiming(stage, "choosy", 6, {"name": "r", "firstAvailable": choices})
    stage.make(CLAIMS, claim("shared", exactly(name, of_model("shared"))))
    stage.pods("first", 1, resourceClaims=SHARING)
    await_claims(stage, 7)
    compare_claims(stage)


def share_claim(stage: Stage) -> None:
    """Add pods that use the claim of another one."""
    stage.pods("sharing", 3, resourceClaims=SHARING)


def freed_devices(stage: Stage) -> None:
    """Devices are free again when the controller has deallocated their claims.

    First all devices are taken; then a pod that has one ends, and later there are more.
    """
    stage.nodes("node", 2)
    publish(stage, "node", {"d0": gpu("s"), "d1": gpu("s")})
    name = device_class(stage, "gpu")
    claiming(stage, "holder", 4, exactly(name))
    claiming(stage, "waiting", 1, exactly(name))
    claiming(stage, "last", 2, exactly(name))
    await_claims(stage, 7)


def end_holder(stage: Stage) -> None:
    """End one of the pods that have a device."""
    stage.api.patch(f"{stage.scene.path('holder-0')}/status", {"status": {"phase": "Succeeded"}})


def add_devices(stage: Stage) -> None:
    """Add a node with devices."""
    stage.nodes("added", 1)
    publish(stage, "added", {"d0": gpu("s"), "d1": gpu("s")})


def preemption_and_devices(stage: Stage) -> None:
    """Evicting a pod makes room for requests but frees no device.

    The first important pods need CPU where devices are left. The last ones need a device: all are
    taken, so no pod is evicted for them.
    """
    stage.nodes("full", 2, "2")
    stage.nodes("taken", 2, "2")
    for kind in ("full", "taken"):
        publish(stage, kind, {"d0": gpu(kind)})
    name = device_class(stage, "gpu")
    stage.running("low", stage.of("full"), 1, "2")
    claiming(stage, "holder", 2, exactly(name, of_model("taken")))
    claiming(stage, "important", 2, exactly(name, of_model("full")), "2")
    claiming(stage, "late", 2, exactly(name, of_model("taken")))
    await_claims(stage, 6)
    compare_claims(stage)


def extended_resources(stage: Stage) -> None:
    """A class provides an extended resource, and the device plugin of another node does so, too."""
    resource = "side.example.com/gpu"
    stage.nodes("backed", 2)
    stage.nodes("plugged", 1, resources={resource: "1"})
    publish(stage, "backed", {"d0": gpu("s"), "d1": gpu("s")})
    device_class(stage, "gpu", resource=resource)
    stage.pods("user", 6, requests={resource: "1"})


# What the workloads are made of


def gpu(model: str, memory: str = "16Gi") -> Json:
    """Return a device without its name."""
    return {"attributes": {"model": {"string": model}}, "capacity": {"memory": {"value": memory}}}


def publish(stage: Stage, kind: str, devices: Mapping[str, Json]) -> None:
    """Publish the same devices on all nodes of a kind."""
    for node in stage.of(kind):
        spec = {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": name, **device} for name, device in devices.items()],
        }
        stage.make(SLICES, {"metadata": {"name": f"{node}-{DRIVER}"}, "spec": spec})


def device_class(stage: Stage, name: str, *selectors: str, resource: str = "") -> str:
    """Create a class; return the name that it really has."""
    real = f"{stage.scene.namespace}-{name}"
    spec: Json = {"selectors": [{"cel": {"expression": each}} for each in selectors]}
    if resource:
        spec["extendedResourceName"] = resource
    stage.make(CLASSES, {"metadata": {"name": real}, "spec": spec})
    return real


def one(class_name: str, *selectors: str, **fields: Any) -> Json:
    """Return a request for devices of a class, without its name."""
    chosen = [{"cel": {"expression": each}} for each in selectors]
    return {"deviceClassName": class_name, "selectors": chosen, **fields}


def exactly(class_name: str, *selectors: str, **fields: Any) -> Json:
    """Return a request for devices of a class."""
    return {"name": "r", "exactly": one(class_name, *selectors, **fields)}


def of_model(model: str) -> str:
    """Return the selector of devices of a model."""
    return f'device.attributes["{DRIVER}"].model == "{model}"'


def claim(name: str, *requests: Json, **fields: Any) -> Json:
    """Return a claim."""
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": requests, **fields}}}


def claiming(
    stage: Stage,
    kind: str,
    count: int,
    request: Json,
    cpu: str = "1",
    **fields: Any,
) -> None:
    """Create pods that each have a claim of their own, which the controller makes."""
    spec = claim("", request, **fields)["spec"]
    stage.make(TEMPLATES, {"metadata": {"name": kind}, "spec": {"spec": spec}})
    uses = [{"name": "x", "resourceClaimTemplateName": kind}]
    stage.pods(kind, count, cpu, resourceClaims=uses)


def await_claims(stage: Stage, count: int) -> None:
    """Wait until the controller has made all claims, so that no pod is tried before another one."""
    stage.api.wait_for_list(_claims(stage), lambda found: len(found) == count)
    pods = f"/api/v1/namespaces/{stage.scene.namespace}/pods"
    stage.api.wait_for_list(pods, lambda found: all(map(_is_told, found)))


def compare_claims(stage: Stage) -> None:
    """Compare which devices each claim has got."""
    stage.facts.append(lambda: dict(_facts(stage)))


def _facts(stage: Stage) -> Mapping[str, str]:
    facts = {}
    for each in stage.api.items(_claims(stage)):
        owner = each["metadata"].get("ownerReferences", [{"name": each["metadata"]["name"]}])[0]
        got = [f"{stage.names[pool].rpartition('-')[0]}/{name}" for pool, name in devices_of(each)]
        facts[owner["name"]] = " ".join(got) or "nothing"
    return facts


def _claims(stage: Stage) -> str:
    return CLAIMS.replace("{ns}", f"namespaces/{stage.scene.namespace}")


def _is_told(pod: Json) -> bool:
    """Tell whether a pod knows the claims that were made for it."""
    made = [
        each
        for each in pod["spec"].get("resourceClaims", ())
        if "resourceClaimTemplateName" in each
    ]
    return len(pod["status"].get("resourceClaimStatuses", ())) == len(made)
