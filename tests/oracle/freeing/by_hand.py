"""Clusters whose candidates and victims were worked out by hand, one or more for each rule.

The rules are in the docstring of `rules`.
"""

from typing import Any, Final

from tests.oracle.freeing.rules import Candidates
from tests.oracle.generating.dice import Object

__all__ = ["CASES", "candidates_of", "objects_of"]

API: Final = "resource.k8s.io/v1"
DRIVER: Final = "gpu.example.com"
RESOURCE: Final = "example.com/gpu"


def thing(kind: str, name: str, version: str = API, **fields: Any) -> Object:
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {"name": name}}
    if kind in ("Pod", "ResourceClaim", "PodDisruptionBudget"):
        metadata["namespace"] = "default"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def node(name: str, *taints: str, **allocatable: str) -> Object:
    status = {"allocatable": {"cpu": "4", "pods": "110", **allocatable}}
    spec = {"taints": [{"key": each, "effect": "NoSchedule"} for each in taints]}
    return thing("Node", name, "v1", spec=spec, status=status)


def pod(name: str, priority: int, on: str = "", claims: str = "", **requests: str) -> Object:
    """Return a pod; of two with one priority the one whose name is less is more important."""
    named = {RESOURCE if each == "gpu" else each: amount for each, amount in requests.items()}
    limits = {each: amount for each, amount in named.items() if each == RESOURCE}
    spec = {
        "schedulerName": "preemptive-scheduler",
        "priority": priority,
        "containers": [{"name": "c", "resources": {"requests": named, "limits": limits}}],
        "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims.split()],
    }
    status = {"startTime": f"2026-01-01T00:{ord(name[0]) - 70}:00Z"}
    return thing("Pod", name, "v1", spec=spec | ({"nodeName": on} if on else {}), status=status)


def p(claims: str = "wish", **requests: str) -> Object:
    """Return the preemptor."""
    return pod("p", 100, "", claims, **requests)


def pool(
    name: str, *devices: str | Object, nodes: str = "", slices: int = 1, **more: Any
) -> Object:
    """Return the slice of a pool of a node, or of some."""
    values = {"key": "name", "operator": "In", "values": nodes.split()}
    terms = [{"matchExpressions": [values]}]
    spec = {
        "driver": DRIVER,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": slices},
        "devices": [{"name": each} if isinstance(each, str) else each for each in devices],
        **({"nodeSelector": {"nodeSelectorTerms": terms}} if nodes else {"nodeName": name}),
        **more,
    }
    return thing("ResourceSlice", f"{name}-{len(more)}", spec=spec)


def wants(count: int = 1, **more: Any) -> Object:
    return {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **more}


def claim(
    name: str, has: str = "", by: str = "", *, asks: Object | None = None, **more: Any
) -> Object:
    """Return a claim that has devices, `POOL/DEVICE`, for pods."""
    asks = {"exactly": asks or wants(max(1, len(has.split())))} if not more else asks
    request = {"name": "r", **(asks or {}), **more}
    found = thing("ResourceClaim", name, spec={"devices": {"requests": [request]}})
    results = []
    for each in has.split():
        pool_name, _, device = each.partition("/")
        admin = bool(request.get("exactly", {}).get("adminAccess"))
        result = {"request": "r", "driver": DRIVER, "pool": pool_name, "device": device}
        results.append(result | ({"adminAccess": True} if admin else {}))
    if has:
        users = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in by.split()]
        found["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
    return found


def edited(item: Object, **more: Any) -> Object:
    """Return a claim whose allocation, or that of its only result, has more fields."""
    allocation = item["status"]["allocation"]
    target = allocation if "nodeSelector" in more else allocation["devices"]["results"][0]
    target |= more
    return item


def only(name: str) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def job(item: Object) -> Object:
    """Return a claim that a consumer uses that is no pod."""
    consumer = {"apiGroup": "batch", "resource": "jobs", "name": "low", "uid": "uid-low"}
    item["status"]["reservedFor"].append(consumer)
    return item


def of_extended_resource(item: Object, owner: str) -> Object:
    item["metadata"] |= {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [
            {
                "apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}",
                "controller": True,
            },
        ],
    }  # fmt: skip
    return item


def device(name: str, model: str = "", **more: Any) -> Object:
    return {"name": name, **({"attributes": {"model": {"string": model}}} if model else {}), **more}


def part(name: str, model: str, memory: str) -> Object:
    """Return a device that consumes a counter of its pool."""
    use = {"counterSet": "s", "counters": {"memory": {"value": memory}}}
    return device(name, model, consumesCounters=[use])


def selector(expression: str) -> list[Object]:
    return [{"cel": {"expression": expression}}]


def budget(name: str) -> Object:
    spec = {"selector": {"matchLabels": {"name": name}}}
    status = {"disruptionsAllowed": 0}
    return thing("PodDisruptionBudget", name, "policy/v1", spec=spec, status=status)


CLASS: Final = thing("DeviceClass", "gpu", spec={"extendedResourceName": RESOURCE})
WISH: Final = claim("wish")
N1, N2 = node("n1"), node("n2")
LOW: Final = pod("low", 10, "n1", "c")
BIG: Final = device(
    "a", allowMultipleAllocations=True, capacity={"memory": {"value": "10Gi"}}
)  # fmt: skip
EVERY: Final = {"name": "all", "deviceClassName": "gpu", "allocationMode": "All"}
COUNTERS: Final = [{"name": "s", "counters": {"memory": {"value": "4Gi"}}}]
MODEL: Final = f"device.attributes['{DRIVER}'].?model.orValue('')"


def paired(item: Object) -> Object:
    item["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/model"}]
    return item


#: What the cluster shows; its objects, but for the class; the victims on each node.
CASES: Final[dict[str, tuple[list[Object], dict[str, str | None]]]] = {
    "R2: the only device is freed": (
        [N1, pool("n1", "a"), LOW, claim("c", "n1/a", "low"), WISH, p()],
        {"n1": "low"},
    ),
    "R2: a pod of the same priority keeps its device": (
        [N1, pool("n1", "a"), pod("same", 100, "n1", "c"), claim("c", "n1/a", "same"), WISH, p()],
        {"n1": None},
    ),
    "R2: a taint rejects the pod as well": (
        [node("n1", "x"), pool("n1", "a"), LOW, claim("c", "n1/a", "low"), WISH, p()],
        {"n1": None},
    ),
    "R2: a pod of higher priority leaves too little cpu": (
        [
            N1, pool("n1", "a"), LOW, pod("high", 1000, "n1", cpu="3"),
            claim("c", "n1/a", "low"), WISH, p(cpu="2"),
        ],
        {"n1": None},
    ),
    "R2: cpu and the device are freed, each by another pod": (
        [
            N1, pool("n1", "a"), LOW, pod("full", 10, "n1", cpu="4"),
            claim("c", "n1/a", "low"), WISH, p(cpu="2"),
        ],
        {"n1": "low full"},
    ),
    "R3: a claim falls when all of its pods go": (
        [
            N1, pool("n1", "a"), LOW, pod("mid", 50, "n1", "c"),
            claim("c", "n1/a", "low mid"), WISH, p(),
        ],
        {"n1": "low mid"},
    ),
    "R3: a pod on another node keeps a claim": (
        [
            N1, N2, pool("net", "a", nodes="n1 n2"), LOW, pod("far", 10, "n2", "c"),
            claim("c", "net/a", "low far"), WISH, p(),
        ],
        {"n1": None, "n2": None},
    ),
    "R3: a pod of higher priority keeps a claim": (
        [
            N1, pool("n1", "a"), LOW, pod("high", 1000, "n1", "c"),
            claim("c", "n1/a", "low high"), WISH, p(),
        ],
        {"n1": None},
    ),
    "R3: a consumer that is no pod keeps a claim": (
        [N1, pool("n1", "a"), LOW, job(claim("c", "n1/a", "low")), WISH, p()],
        {"n1": None},
    ),
    "R3: a claim that nobody reserves stays": (
        [N1, pool("n1", "a"), LOW, claim("c", "n1/a", ""), WISH, p()],
        {"n1": None},
    ),
    "R3: admin access takes no device": (
        [
            N1, pool("n1", "a"), LOW, pod("admin", 10, "n1", "d"), claim("c", "n1/a", "low"),
            claim("d", "n1/a", "admin", asks=wants(adminAccess=True)), WISH, p(),
        ],
        {"n1": "low"},
    ),
    "R3: a device that two nodes see is freed on the node of its pod": (
        [
            N1, N2, pool("net", "a", nodes="n1 n2"), LOW, pod("idle", 10, "n2"),
            claim("c", "net/a", "low"), WISH, p(),
        ],
        {"n1": "low", "n2": None},
    ),
    "R4: a claim that the preemptor shares with a victim is not freed": (
        [
            N1, pool("n1", "a"), pool("net", "x", nodes="n1 n2"), pod("low", 10, "n1", "c own"),
            edited(claim("own", "net/x", "low"), nodeSelector=only("n2")),
            claim("c", "n1/a", "low"), WISH, p("own wish"),
        ],
        {"n1": None},
    ),
    "R4: an own claim that is allocated binds the pod to its node": (
        [
            N1, N2, pool("n1", "a"), pool("n2", "a", "b"), LOW, pod("far", 10, "n2", "d"),
            claim("c", "n1/a", "low"), claim("d", "n2/a", "far"),
            edited(claim("own", "n2/b"), nodeSelector=only("n2")), WISH, p("own wish"),
        ],
        {"n1": None, "n2": "far"},
    ),
    "R5: the more important pod is reprieved": (
        [
            N1, pool("n1", "a", "b"), LOW, pod("mid", 50, "n1", "d"),
            claim("c", "n1/a", "low"), claim("d", "n1/b", "mid"), WISH, p(),
        ],
        {"n1": "low"},
    ),
    "R5: a pod that a budget protects is reprieved first": (
        [
            N1, pool("n1", "a", "b"), LOW, pod("mid", 50, "n1", "d"), budget("low"),
            claim("c", "n1/a", "low"), claim("d", "n1/b", "mid"), WISH, p(),
        ],
        {"n1": "mid"},
    ),
    "R5: a shared claim is freed as a whole, or not at all": (
        [
            N1, pool("n1", "a", "b", "c"), pod("x", 50, "n1", "s"), pod("y", 10, "n1", "s"),
            pod("z", 20, "n1", "t"), claim("s", "n1/a n1/b", "x y"), claim("t", "n1/c", "z"),
            WISH, p(),
        ],
        {"n1": "z"},
    ),
    "R5: all pods of a shared claim go where its devices are needed": (
        [
            N1, pool("n1", "a", "b", "c"), pod("x", 50, "n1", "s"), pod("y", 10, "n1", "s"),
            pod("z", 20, "n1", "t"), claim("s", "n1/a n1/b", "x y"), claim("t", "n1/c", "z"),
            claim("wish", asks=wants(2)), p(),
        ],
        {"n1": "x y"},
    ),
    "R6: a resource of a class is freed": (
        [
            N1, pool("n1", "a"), pod("low", 10, "n1", gpu="1"),
            of_extended_resource(claim("c", "n1/a", "low"), "low"), p("", gpu="1"),
        ],
        {"n1": "low"},
    ),
    "R7: no device matches, freed or not": (
        [
            N1, pool("n1", "a"), LOW, claim("c", "n1/a", "low"),
            claim("wish", asks=wants(selectors=selector("device.driver == 'other'"))), p(),
        ],
        {"n1": None},
    ),
    "R7: a pool that lacks a slice": (
        [N1, pool("n1", "a", slices=2), LOW, claim("c", "n1/a", "low"), WISH, p()],
        {"n1": None},
    ),
    "R8: nobody is evicted where the pod fits on some node": (
        [N1, N2, pool("n1", "a"), pool("n2", "a"), LOW, claim("c", "n1/a", "low"), WISH, p()],
        {"n1": None, "n2": None},
    ),
    "R8: only cpu is missing": (
        [
            N1, pool("n1", "a", "b"), LOW, pod("full", 5, "n1", cpu="4"),
            claim("c", "n1/a", "low"), WISH, p(cpu="1"),
        ],
        {"n1": "full"},
    ),
    "R9: an unavailable claim": (
        [
            N1, pool("n1", "a"), LOW, edited(claim("c", "n1/a", "low"), nodeSelector=only("n2")),
            p("c"),
        ],
        {"n1": None},
    ),
    "R9: an invalid pool": (
        [
            N1, pool("n1", "a", device("b"), device("b")), LOW, claim("c", "n1/a", "low"), WISH,
            p(),
        ],
        {"n1": None},
    ),
    "R9: a class is missing": (
        [
            N1, pool("n1", "a"), LOW, claim("c", "n1/a", "low"),
            claim("wish", asks=wants() | {"deviceClassName": "none"}), p(),
        ],
        {"n1": None},
    ),
    "R5: where the search fails without all pods, it is not tried without some": (
        [
            N1, pool("n1", device("a", "x"), device("b", "y")), LOW, pod("mid", 50, "n1", "d"),
            claim("c", "n1/a", "low"), claim("d", "n1/b", "mid"),
            paired(claim("wish", firstAvailable=[EVERY, {"name": "one", **wants()}])), p(),
        ],
        {"n1": None},
    ),
    "counters: a whole device needs both of its halves": (
        [
            N1, pool("n1", part("all", "x", "4Gi"), part("a", "y", "2Gi"), part("b", "y", "2Gi"),
                     slices=2),
            pool("n1", slices=2, sharedCounters=COUNTERS), LOW, pod("mid", 50, "n1", "d"),
            claim("c", "n1/a", "low"), claim("d", "n1/b", "mid"),
            claim("wish", asks=wants(selectors=selector(f"{MODEL} == 'x'"))), p(),
        ],
        {"n1": "low mid"},
    ),
    "capacity: a share is freed": (
        [
            N1, pool("n1", BIG), pod("big", 50, "n1", "c"), pod("tiny", 10, "n1", "d"),
            edited(claim("c", "n1/a", "big"), shareID=f"{1:08}-0000-4000-8000-{0:012}",
                   consumedCapacity={"memory": "6Gi"}),
            edited(claim("d", "n1/a", "tiny"), shareID=f"{2:08}-0000-4000-8000-{0:012}",
                   consumedCapacity={"memory": "2Gi"}),
            claim("wish", asks=wants(capacity={"requests": {"memory": "8Gi"}})), p(),
        ],
        {"n1": "big"},
    ),
    "constraint: the device of the model that is free": (
        [
            N1, pool("n1", device("a", "x"), device("b", "x"), device("c", "y")), LOW,
            pod("mid", 50, "n1", "d"), claim("c", "n1/a", "low"), claim("d", "n1/c", "mid"),
            paired(claim("wish", asks=wants(2))), p(),
        ],
        {"n1": "low"},
    ),
    "choices: the second one is freed": (
        [
            N1, pool("n1", "a"), LOW, claim("c", "n1/a", "low"),
            claim("wish", firstAvailable=[
                {"name": "x", **wants(2)}, {"name": "y", **wants(1)},
            ]),
            p(),
        ],
        {"n1": "low"},
    ),
}  # fmt: skip


def objects_of(name: str) -> list[Object]:
    """Return the objects of a case."""
    return [CLASS, *CASES[name][0]]


def candidates_of(name: str) -> Candidates:
    """Return the victims of a case on each node."""
    return {
        node: None if pods is None else frozenset(f"default/{pod}" for pod in pods.split())
        for node, pods in CASES[name][1].items()
    }
