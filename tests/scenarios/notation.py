"""The short notation of the scenarios, spelled out as Kubernetes objects.

Objects are written as words: `cpu=4 zone:a !dedicated=db:NoSchedule`. What words cannot express is
given next to them, under `is` for the words. README.md of this folder lists all of it.
"""

from collections.abc import Iterable
from typing import Any, Final

from tests.scenarios.words import (
    DELETED,
    Api,
    NotationError,
    Words,
    node_term,
    present,
    spelled,
    stamp,
)

__all__ = ["OURS", "objects_of", "qualified"]

OURS: Final = "preemptive-scheduler"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def qualified(name: str) -> str:
    """Return namespace and name."""
    return name if "/" in name else f"default/{name}"


def _node(name: str, given: Any) -> Api:
    words = Words(f"node {name}", spelled(given).get("is", ""))
    images = [
        {"names": [image.rpartition("@")[0]], "sizeBytes": int(image.rpartition("@")[2])}
        for image in words.every("image")
    ]
    api = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": present(unschedulable=words.flag("cordoned"), taints=words.taints()),
        "status": {
            "allocatable": {"pods": "110", **words.amounts()},
            **present(images=images, declaredFeatures=words.every("declares")),
        },
    }
    api["metadata"]["labels"] = words.labels()
    words.end()
    return api


# Pods ---------------------------------------------------------------------------------------------


def _container(words: Words, name: str) -> Api:
    ports = []
    for port in words.every("port"):
        number, _, address = port.partition("@")
        number, _, protocol = number.partition("/")
        ports.append({"hostPort": int(number), "protocol": protocol or "TCP"})
        ports[-1] |= {"hostIP": address} if address else {}
    return {
        "name": name,
        "image": words.one("image", "example/pause:3.10"),
        "resources": present(limits=words.amounts("limit."), requests=words.amounts()),
        **present(ports=ports, restartPolicy="Always" if words.flag("always") else None),
    }


def _containers(texts: Iterable[str], prefix: str) -> list[Api]:
    found = []
    for number, text in enumerate(texts):
        words = Words(f"container {prefix}{number}", text)
        found.append(_container(words, f"{prefix}{number}"))
        words.end()
    return found


def _toleration(text: str) -> Api:
    pair, _, effect = text.partition(":")
    key, equals, value = pair.partition("=")
    found = {"key": key, "operator": "Equal", "value": value} if equals else {
        "key": key, "operator": "Exists",
    }  # fmt: skip
    return found | present(effect=effect)


def _selector(words: Words) -> Api | None:
    """Take a label selector; absent without any word for it."""
    every_pod = words.flag("every-pod")
    found = present(matchExpressions=words.expressions(), matchLabels=words.labels())
    return found if found or every_pod else None


def _pod_term(text: str) -> Api:
    words = Words("pod term", text)
    term: Api = {"topologyKey": words.first(), **present(namespaces=words.every("ns"))}
    namespaces = words.every("of")
    if namespaces:
        labels = dict(each.split(":", 1) for each in namespaces if each != "*")
        term["namespaceSelector"] = present(matchLabels=labels)
    selector = _selector(words)
    words.end()
    return term if selector is None else term | {"labelSelector": selector}


def _spread(text: str) -> Api:
    words = Words("spread constraint", text)
    minimum = words.one("min")
    found = {
        "topologyKey": words.first(),
        "maxSkew": int(words.one("max", "1") or 1),
        "whenUnsatisfiable": "ScheduleAnyway" if words.flag("anyway") else "DoNotSchedule",
        **present(
            minDomains=int(minimum) if minimum else None,
            nodeAffinityPolicy=words.one("affinity"),
            nodeTaintsPolicy=words.one("taints"),
            matchLabelKeys=words.every("key"),
        ),
    }
    selector = _selector(words)
    words.end()
    return found if selector is None else found | {"labelSelector": selector}


def _affinity(given: Api) -> Api:
    needs = given.pop("needs", None)
    terms = [needs] if isinstance(needs, str) else needs
    node = present(**{
        REQUIRED: {"nodeSelectorTerms": [node_term(each) for each in terms]} if terms else None,
        PREFERRED: [
            {"weight": weight, "preference": node_term(text)}
            for text, weight in given.pop("likes", {}).items()
        ],
    })  # fmt: skip
    found = {"nodeAffinity": node}
    for kind, required, preferred in (
        ("podAffinity", "near", "drawn"),
        ("podAntiAffinity", "apart", "repelled"),
    ):
        found[kind] = present(**{
            REQUIRED: [_pod_term(each) for each in given.pop(required, [])],
            PREFERRED: [
                {"weight": weight, "podAffinityTerm": _pod_term(text)}
                for text, weight in given.pop(preferred, {}).items()
            ],
        })  # fmt: skip
    return present(**found)


def _pod(name: str, given: Any, node: str | None = None) -> Api:
    extra = spelled(given)
    words = Words(f"pod {name}", extra.pop("is", ""))
    preempted = words.flag("preempted")
    meta, spec = _about(words, name), _wanted(words, extra)
    status = _state(words, node, preempted=preempted)
    if words.flag("terminating") or preempted:
        meta["deletionTimestamp"] = stamp(DELETED)
    if "containers" not in spec:
        spec["containers"] = [_container(words, "main")]
    meta["labels"] = words.labels()
    words.end()
    api = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}
    _merge(api["spec"], extra.pop("spec", {}))
    _merge(api["status"], extra.pop("status", {}))
    if node:
        api["spec"]["nodeName"] = node
    if extra:
        raise NotationError(f"pod {name}: what is {sorted(extra)}?")
    return api


def _about(words: Words, name: str) -> Api:
    namespace, _, own = qualified(name).partition("/")
    owners = [
        {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
        for kind, _, owner in (each.partition("/") for each in words.every("owner"))
    ]
    return {
        "name": own,
        "namespace": namespace,
        "uid": f"uid:{namespace}/{own}",
        "creationTimestamp": stamp(float(words.one("created", "0") or 0)),
        **present(ownerReferences=owners),
    }


def _wanted(words: Words, extra: Api) -> Api:
    priority = words.one("prio")
    given = extra.pop("containers", None)
    return {
        "schedulerName": words.one("scheduler", OURS),
        **({"priority": int(priority)} if priority is not None else {}),
        **present(
            containers=_containers(given, "c") if given else None,
            initContainers=_containers(extra.pop("init", []), "init"),
            preemptionPolicy="Never" if words.flag("never-preempts") else None,
            nodeSelector=dict(each.split(":", 1) for each in words.every("select")),
            tolerations=[_toleration(each) for each in words.every("tolerates")],
            schedulingGates=[{"name": gate} for gate in words.every("gate")],
            overhead=words.amounts("overhead."),
            affinity=_affinity(extra),
            topologySpreadConstraints=[_spread(each) for each in extra.pop("spread", [])],
            volumes=[
                {"name": f"v{number}", **volume}
                for number, volume in enumerate(
                    [{"persistentVolumeClaim": {"claimName": c}} for c in words.every("claim")]
                    + extra.pop("volumes", [])
                )
            ],
        ),
    }


def _state(words: Words, node: str | None, *, preempted: bool) -> Api:
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    conditions = [target] if preempted else []
    started = stamp(float(words.one("start", "0") or 0)) if node else None
    return {
        "phase": words.one("phase", "Running" if node else "Pending"),
        **present(
            nominatedNodeName=words.one("nominated"), startTime=started, conditions=conditions
        ),
    }


def _merge(target: Api, more: Api) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value


# Budgets, claims, volumes -------------------------------------------------------------------------


def _budget(name: str, text: str) -> Api:
    words = Words(f"budget {name}", text)
    disrupted = {pod: stamp(DELETED) for pod in words.every("disrupted")}
    status = {"disruptionsAllowed": int(words.one("allows", "0") or 0)}
    metadata = {"name": name, "namespace": words.one("ns", "default")}
    selector = _selector(words)
    words.end()
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {} if selector is None else {"selector": selector},
        "status": status | present(disruptedPods=disrupted),
    }


def _claim(name: str, given: Any) -> Api:
    extra = spelled(given)
    words = Words(f"claim {name}", extra.pop("is", ""))
    volume = words.one("volume")
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume else {}
    api = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", **present(annotations=bound)},
        "spec": {
            "accessModes": [words.one("mode", "ReadWriteOnce")],
            "resources": {"requests": {"storage": words.one("size", "1Gi")}},
            "storageClassName": words.one("class", ""),
            **present(volumeName=volume),
        },
        "status": {"phase": words.one("phase", "Bound" if volume else "Pending")},
    }
    words.end()
    _merge(api, extra)
    return api


def _volume(name: str, given: Any, claims: list[Api]) -> Api:
    extra = spelled(given)
    words = Words(f"volume {name}", extra.pop("is", ""))
    users = [each["metadata"] for each in claims if each["spec"].get("volumeName") == name]
    reference = {key: users[0][key] for key in ("name", "namespace")} if users else None
    driver, _, handle = (words.one("csi") or "").partition("/")
    needs = extra.pop("needs", None)
    api = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": words.one("size", "1Gi")},
            "accessModes": [words.one("mode", "ReadWriteOnce")],
            "storageClassName": words.one("class", ""),
            **present(
                claimRef=reference,
                csi={"driver": driver, "volumeHandle": handle} if driver else None,
                hostPath=None if driver else {"path": "/data"},
                nodeAffinity={"required": {"nodeSelectorTerms": [node_term(needs)]}}
                if needs
                else None,
            ),
        },
        "status": {"phase": words.one("phase", "Bound" if users else "Available")},
    }
    api["metadata"]["labels"] = words.labels()
    words.end()
    _merge(api, extra)
    return api


def _class(name: str, text: str) -> Api:
    words = Words(f"class {name}", text)
    api = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": words.one("by", "kubernetes.io/no-provisioner"),
        "volumeBindingMode": "WaitForFirstConsumer" if words.flag("waits") else "Immediate",
    }
    words.end()
    return api


def _csi_node(name: str, text: str) -> Api:
    words = Words(f"CSI node {name}", text)
    drivers = []
    for driver in words.every("driver"):
        known, _, limit = driver.partition(":")
        allocatable = {"allocatable": {"count": int(limit)}} if limit else {}
        drivers.append({"name": known, "nodeID": name, **allocatable})
    migrated = ",".join(words.every("migrated"))
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else None
    words.end()
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, **present(annotations=annotations)},
        "spec": {"drivers": drivers},
    }


def _csi_driver(name: str, text: str) -> Api:
    words = Words(f"CSI driver {name}", text)
    spec = {"storageCapacity": words.flag("capacity")}
    words.end()
    metadata = {"name": name}
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": metadata, "spec": spec
    }  # fmt: skip


def _capacity(name: str, text: str) -> Api:
    words = Words(f"capacity {name}", text)
    everywhere, labels = words.flag("everywhere"), words.labels()
    api = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": words.one("class"),
        **present(capacity=words.one("size"), maximumVolumeSize=words.one("most")),
        **({"nodeTopology": present(matchLabels=labels)} if everywhere or labels else {}),
    }
    words.end()
    return api


# The cluster of a scenario ------------------------------------------------------------------------


def objects_of(scenario: Api) -> list[Api]:
    """Return the Kubernetes objects of a scenario."""
    pods = [
        _pod(name, given, node)
        for node, running in (scenario.get("existing") or {}).items()
        for name, given in running.items()
    ]
    pods += [_pod(name, given) for name, given in (scenario.get("incoming") or {}).items()]
    claims = [_claim(*each) for each in (scenario.get("claims") or {}).items()]
    volumes = (scenario.get("volumes") or {}).items()
    return [
        *_namespaces(scenario.get("namespaces") or {}, pods),
        *(_node(*each) for each in (scenario.get("nodes") or {}).items()),
        *(_volume(name, given, claims) for name, given in volumes),
        *claims,
        *(_class(*each) for each in scenario.get("classes", {}).items()),
        *(_csi_node(*each) for each in scenario.get("csi_nodes", {}).items()),
        *(_csi_driver(*each) for each in scenario.get("csi_drivers", {}).items()),
        *(_capacity(*each) for each in scenario.get("capacities", {}).items()),
        *(scenario.get("objects") or []),
        *(_budget(*each) for each in (scenario.get("budgets") or {}).items()),
        *pods,
    ]


def _namespaces(labelled: Api, pods: list[Api]) -> list[Api]:
    """Return the namespaces of the pods, and those with labels."""
    names = dict.fromkeys([*(pod["metadata"]["namespace"] for pod in pods), *labelled])
    found = []
    for name in names:
        words = Words(f"namespace {name}", labelled.get(name, ""))
        labels = {"kubernetes.io/metadata.name": name, **words.labels()}
        words.end()
        metadata = {"name": name, "labels": labels}
        found.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return found
