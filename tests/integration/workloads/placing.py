"""Workloads about what a pod requires of a node: resources, taints, labels, ports, images."""

from tests.integration.objects import Json, preferred_affinity, required_affinity
from tests.integration.outcomes import group
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


def taints(stage: Stage) -> None:
    """Taints decide: which pods tolerate which, and which nodes are avoided.

    The kinds of nodes differ in their taints alone, and exactly as many pods tolerate them as fit
    there.
    """
    stage.nodes("plain", 3)
    stage.nodes("kept", 3, taints=(taint("team", "blue"),))
    stage.nodes("leaving", 2, taints=(taint("drain", "", "NoExecute"),))
    stage.nodes("rather-not", 2, taints=(taint("old", "", "PreferNoSchedule"),))
    stage.nodes("closed", 1)
    for node in stage.of("closed"):
        stage.scene.patch_node(node, {"spec": {"unschedulable": True}})

    equal = {"key": "team", "operator": "Equal", "value": "blue", "effect": "NoSchedule"}
    other = {"key": "team", "operator": "Equal", "value": "red", "effect": "NoSchedule"}
    exists = {"key": "drain", "operator": "Exists"}
    cordon = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    stage.pods("blue", 3, "4", tolerations=[equal], nodeSelector={"kind": "kept"})
    stage.pods("red", 1, tolerations=[other], nodeSelector={"kind": "kept"})
    stage.pods("drained", 4, "2", tolerations=[exists], nodeSelector={"kind": "leaving"})
    stage.pods("daemon", 2, "2", tolerations=[cordon], nodeSelector={"kind": "closed"})
    stage.pods("plain", 12)
    stage.pods("overflows", 8)
    stage.pods("late", 2)


def taint(key: str, value: str, effect: str = "NoSchedule") -> Json:
    """Return a taint."""
    return {"key": key, "value": value, "effect": effect}


def node_affinity(stage: Stage) -> None:
    """Labels decide, required ones and preferred ones.

    A weight of 100 outweighs all other scores together, so each group has one kind of node to go
    to until that is full.
    """
    stage.nodes("ssd", 3, labels={"disk": "ssd", "generation": "3"})
    stage.nodes("hdd", 3, labels={"disk": "hdd", "generation": "5"})
    stage.nodes("bare", 2)

    stage.pods("in", 3, "3", affinity=required_affinity("disk", "ssd"))
    stage.pods("not-in", 2, "3", affinity=required("disk", "NotIn", "ssd", "hdd"))
    stage.pods("absent", 2, affinity=required("disk", "DoesNotExist"))
    stage.pods("newer", 3, "2", affinity=required("generation", "Gt", "4"))
    stage.pods("older", 3, affinity=required("generation", "Lt", "4"))
    stage.pods("selects", 1, nodeSelector={"disk": "tape"})
    stage.pods("nowhere", 1, affinity=required_affinity("disk", "tape"))
    stage.pods("full", 2, "2", affinity=required_affinity("disk", "ssd"))
    stage.pods("named", 1, affinity=named(stage, "hdd-1"))
    stage.pods("likes", 5, affinity=preferred_affinity("disk", "hdd"))


def required(key: str, operator: str, *values: str) -> Json:
    """Return the affinity of a pod that must run on nodes for which an expression holds."""
    expression: Json = {"key": key, "operator": operator, "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def named(stage: Stage, node: str) -> Json:
    """Return the affinity of a pod that must run on one node."""
    real = stage.of(group(node))[int(node[-1])]
    field: Json = {"key": "metadata.name", "operator": "In", "values": [real]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def ports(stage: Stage) -> None:
    """Host ports decide: each port once on a node, by protocol and address.

    There are more pods than nodes for each port that collides; which node is left out is open, as
    all of a kind are alike.
    """
    stage.nodes("wide", 4, "8")
    stage.nodes("narrow", 4, "4")

    stage.pods("web", 8, ports=(8080,))
    stage.pods("web-late", 2, ports=(8080,))
    stage.pods("both", 3, ports=(9090, 9091), nodeSelector={"kind": "wide"})
    stage.pods("one", 2, ports=(9091,), nodeSelector={"kind": "wide"})
    with_port(stage, "dns", 9, {"hostPort": 8080, "protocol": "UDP"})
    with_port(stage, "local", 4, {"hostPort": 7070, "hostIP": "127.0.0.1"}, kind="narrow")
    with_port(stage, "other", 4, {"hostPort": 7070, "hostIP": "127.0.0.2"}, kind="narrow")
    with_port(stage, "any", 2, {"hostPort": 7070}, kind="narrow")


def with_port(stage: Stage, name: str, count: int, port: Json, **selector: str) -> None:
    """Create pods with a host port of this kind."""
    drafts = stage.drafts(name, count, nodeSelector=selector)
    for draft in drafts:
        draft["spec"]["containers"][0]["ports"] = [{"containerPort": port["hostPort"], **port}]
    stage.scene.create(*drafts)


def images(stage: Stage) -> None:
    """Images decide: a pod is placed where its image is, if that scores more than resources.

    Pods whose image is nowhere fill up all nodes to the same level.
    """
    stage.nodes("holds", 2, "8")
    stage.nodes("holds-latest", 2, "8")
    stage.nodes("empty", 4, "8")
    for kind, image in (("holds", "example.com/large:1"), ("holds-latest", "tagless:latest")):
        names = [{"names": [image], "sizeBytes": 1_000_000_000}]
        for node in stage.of(kind):
            stage.api.patch(f"/api/v1/nodes/{node}/status", {"status": {"images": names}})

    stage.pods("large", 4, "1", image="example.com/large:1")
    stage.pods("tagless", 4, "1", image="tagless")
    stage.pods("other", 16, "1", image="example.com/large:2")


PACKING = {
    "pluginConfig": [
        {
            "name": "NodeResourcesFit",
            "args": {
                "scoringStrategy": {
                    "type": "MostAllocated",
                    "resources": [{"name": "cpu", "weight": 3}, {"name": "memory", "weight": 1}],
                }
            },
        },
        {
            "name": "NodeAffinity",
            "args": {"addedAffinity": required("kind", "NotIn", "foreign")["nodeAffinity"]},
        },
    ],
    "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
}


def packing(stage: Stage) -> None:
    """A profile decides: nodes are filled one after the other, and some are not for it at all."""
    stage.nodes("small", 3, "4")
    stage.nodes("large", 3, "8")
    stage.nodes("foreign", 2, "64")

    stage.pods("first", 6, "2")
    stage.pods("second", 10, "1")
    stage.pods("third", 8, "1500m")
    stage.pods("late", 4, "4")


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
