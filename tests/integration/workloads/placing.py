"""Workloads about what a pod requires of a node: resources, taints, labels, ports, images."""

from tests.integration.objects import Json
from tests.integration.stage import Stage


def resources(stage: Stage) -> None:
    """Resources decide: cpu, memory, storage, devices and the number of pods.

    Each group is tried when the one before is placed. Devices and size restrict most of them to one
    kind of node; the last ones are spread by the scores until all is full.
    """
    stage.nodes("big", 2, "16", memory="64Gi")
    stage.nodes("small", 6, "4", memory="8Gi", pods=4)
    stage.nodes("device", 2, "8", memory="16Gi", resources={"example.com/gpu": "4"})

    device = {"example.com/gpu": "2"}
    stage.pods("trains", 4, requests=device)
    stage.pods("trains-late", 1, requests=device)
    stage.pods("large", 4, "7")
    stage.pods("too-large", 1, "20")
    stage.pods("remembers", 2, requests={"memory": "26Gi"})
    stage.pods("remembers-more", 1, requests={"memory": "65Gi"})
    stage.pods("stores", 1, requests={"ephemeral-storage": "101Gi"})
    stage.pods("many", 18, "500m", requests={"memory": "1Gi"})
    stage.pods("fills", 8, "2")
    stage.pods("last", 3, "2")


def containers(stage: Stage) -> None:
    """All that a pod asks for decides: init containers, sidecars, overhead, the pod's sum.

    Each group has nodes of its own, which the first ones fill so that the others do not fit by a
    tenth of a core or less.
    """
    for kind, cpu in (("overhead", "6"), ("init", "4"), ("sum", "10"), ("two", "1")):
        stage.nodes(kind, 3, cpu)
    name = f"{stage.scene.namespace}-heavy"
    overhead = {"podFixed": {"cpu": "1500m", "memory": "1Gi"}}
    stage.make(
        "/apis/node.k8s.io/v1/runtimeclasses",
        {"metadata": {"name": name}, "handler": "heavy", "overhead": overhead},
    )

    heavy = {"runtimeClassName": name, "nodeSelector": {"kind": "overhead"}}
    stage.pods("heavy", 3, "4", **heavy)
    stage.pods("heavy-late", 1, "4510m", **heavy)
    stage.pods("light", 3, "500m", nodeSelector={"kind": "overhead"})
    here = {"nodeSelector": {"kind": "init"}}
    stage.pods("init", 3, "1", initContainers=[container("init", "3500m")], **here)
    sidecar = container("sidecar", "250m", restartPolicy="Always")
    both = [sidecar, container("init", "100m")]
    stage.pods("sidecar", 3, "250m", initContainers=both, **here)
    stage.pods("sidecar-late", 1, "10m", initContainers=[sidecar], **here)
    total = {"resources": {"requests": {"cpu": "5"}}, "nodeSelector": {"kind": "sum"}}
    stage.pods("sum", 6, "100m", **total)
    stage.pods("sum-late", 1, "100m", **total)
    two = [container("a", "900m"), container("b", "700m")]
    stage.pods("two", 3, "10m", initContainers=two, nodeSelector={"kind": "two"})
    stage.pods("two-late", 1, "110m", initContainers=two, nodeSelector={"kind": "two"})


def container(name: str, cpu: str, **fields: str) -> Json:
    """Return a container."""
    return {"name": name, "image": "none", "resources": {"requests": {"cpu": cpu}}, **fields}
