"""Applies to objects of a file what an API server applies when they are created.

Only what a rule reads: defaults of the types, and the admission plugins Priority and
DefaultTolerationSeconds, which are on by default. What depends on other objects of the namespace
(LimitRange, ResourceQuota, webhooks) is not applied.

Source: kubernetes v1.36.3 pkg/apis/core/v1/defaults.go, pkg/apis/resource/v1/defaults.go,
pkg/registry/core/pod/strategy.go, plugin/pkg/admission/priority and defaulttolerationseconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from scheduler.model.api.devices import EXACT_COUNT
from scheduler.model.api.objects import Pod

__all__ = ["Json", "Priorities", "claim", "mapping", "pod", "sequence"]

Json: TypeAlias = dict[str, Any]

#: The priority classes that every cluster has.
_BUILT_IN: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTS: Final = "PreemptLowerPriority"
#: The taints of a node in trouble, which every pod tolerates for a while.
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_SECONDS: Final = 300
_POD_LEVEL: Final = ("cpu", "memory", "hugepages-")


@dataclass(slots=True)
class Priorities:
    """What the names of priority classes stand for, as far as that is known."""

    #: The value and the preemption policy of each class.
    classes: dict[str, tuple[int, str]] = field(
        default_factory=lambda: {name: (value, _PREEMPTS) for name, value in _BUILT_IN.items()}
    )
    #: The class of pods that name none; empty if there is none among the objects.
    default: str = ""
    #: Names that are not known, which count as 0.
    unknown: set[str] = field(default_factory=set)

    def learn(self, pods: Iterable[Pod]) -> None:
        """Take the classes of existing pods: the API server has written their values."""
        for each in pods:
            spec = each.spec
            if spec.priority_class_name and spec.priority is not None:
                known = (spec.priority, spec.preemption_policy or _PREEMPTS)
                self.classes.setdefault(spec.priority_class_name, known)

    def add(self, document: Json) -> None:
        """Take a PriorityClass; it counts more than what pods say."""
        value, name = document.get("value", 0), mapping(document.get("metadata")).get("name")
        if isinstance(value, int) and isinstance(name, str):
            policy = document.get("preemptionPolicy")
            self.classes[name] = (value, policy if isinstance(policy, str) else _PREEMPTS)
            if document.get("globalDefault") is True:
                self.default = name

    def apply(self, spec: Json) -> None:
        """Set the priority in the spec of a new pod."""
        name = spec.get("priorityClassName") or self.default
        if spec.get("priority") is not None:
            return
        if name and name not in self.classes:
            self.unknown.add(str(name))
        value, policy = self.classes.get(name, (0, _PREEMPTS))
        spec["priority"] = value
        spec.setdefault("preemptionPolicy", policy)
        if name:
            spec["priorityClassName"] = name


def pod(document: Json, priorities: Priorities) -> Json:
    """Return a new pod as an API server would admit it; the given one is not changed.

    Args:
        document: The pod. Its fields have the types of the API.
        priorities: The priority classes.
    """
    spec: Json = dict(document.get("spec") or {})
    labels = mapping(mapping(document.get("metadata")).get("labels"))
    spec.setdefault("schedulerName", "default-scheduler")
    priorities.apply(spec)
    host_network = spec.get("hostNetwork") is True
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [_container(each, host_network=host_network) for each in spec[kind]]
    if "resources" in spec:
        spec["resources"] = _pod_level(spec)
    spec["tolerations"] = [*spec.get("tolerations", ()), *_added_tolerations(spec)]
    if "affinity" in spec:
        spec["affinity"] = _affinity(spec["affinity"], labels)
    return {**document, "spec": spec}


def claim(spec: Json) -> Json:
    """Return the spec of a new resource claim, or of a template, with its defaults."""
    asked = mapping(spec.get("devices"))
    requests = [
        _request(each) for each in sequence(asked.get("requests")) if isinstance(each, dict)
    ]
    return {**spec, "devices": {**asked, **({"requests": requests} if requests else {})}}


def _request(request: Json) -> Json:
    made = dict(request)
    if isinstance(made.get("exactly"), dict):
        made["exactly"] = _exact(made["exactly"])
    if isinstance(made.get("firstAvailable"), list):
        made["firstAvailable"] = [
            _exact(each) if isinstance(each, dict) else each for each in made["firstAvailable"]
        ]
    return made


def _exact(request: Json) -> Json:
    mode = request.get("allocationMode") or EXACT_COUNT
    count = {"count": request.get("count") or 1} if mode == EXACT_COUNT else {}
    return {**request, "allocationMode": mode, **count}


def _container(container: Json, *, host_network: bool) -> Json:
    made = dict(container)
    resources = mapping(made.get("resources"))
    limits = mapping(resources.get("limits"))
    if limits:
        requests = {**limits, **mapping(resources.get("requests"))}
        made["resources"] = {**resources, "requests": requests}
    if host_network and "ports" in made:
        made["ports"] = [_host_port(port) for port in made["ports"]]
    return made


def _host_port(port: Json) -> Json:
    """Return the port of a container in the network of the host, where it is a port of the host."""
    number = port.get("hostPort") or port.get("containerPort")
    return {**port, "hostPort": number} if isinstance(number, int) else port


def _pod_level(spec: Json) -> Json:
    """Return the resources of a pod as a whole.

    What containers request counts where the pod as a whole requests nothing, so only those limits
    become requests that no container requests.
    """
    resources = mapping(spec["resources"])
    containers = (*spec.get("containers", ()), *spec.get("initContainers", ()))
    requested = {
        name
        for each in containers
        for name in mapping(mapping(each.get("resources")).get("requests"))
    }
    added = {
        name: amount
        for name, amount in mapping(resources.get("limits")).items()
        if name.startswith(_POD_LEVEL) and name not in requested
    }
    if not added:
        return resources
    return {**resources, "requests": {**added, **mapping(resources.get("requests"))}}


def _added_tolerations(spec: Json) -> list[Json]:
    """Return the tolerations that a new pod gets.

    Source: kubernetes v1.36.3 plugin/pkg/admission/defaulttolerationseconds.
    """
    given = spec.get("tolerations", ())
    return [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": _TOLERATED_SECONDS,
        }
        for key in _TOLERATED
        if not any(
            each.get("key", "") in ("", key) and each.get("effect", "") in ("", "NoExecute")
            for each in given
        )
    ]


def _affinity(affinity: Json, labels: Mapping[str, Any]) -> Json:
    """Return an affinity whose terms select by the values of the pod's labels that they name.

    Source: kubernetes v1.36.3 pkg/registry/core/pod/strategy.go, applyMatchLabelKeysAndMismatch.
    """
    made = dict(affinity)
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = mapping(made.get(kind))
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        if required in terms:
            terms = {**terms, required: [_term(each, labels) for each in terms[required]]}
        if preferred in terms:
            weighted = [
                {**each, "podAffinityTerm": _term(mapping(each.get("podAffinityTerm")), labels)}
                for each in terms[preferred]
            ]
            terms = {**terms, preferred: weighted}
        if terms:
            made[kind] = terms
    return made


def _term(term: Json, labels: Mapping[str, Any]) -> Json:
    selector = term.get("labelSelector")
    if not isinstance(selector, dict):
        return term
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field_, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in sequence(term.get(field_))
        if key in labels
    ]
    if not added:
        return term
    expressions = [*sequence(selector.get("matchExpressions")), *added]
    return {**term, "labelSelector": {**selector, "matchExpressions": expressions}}


def mapping(value: object) -> Json:
    """Return a value if it is an object of JSON, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    """Return a value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []
