"""Services and controllers, whose selectors are the default for topology spread constraints.

Source: kube-scheduler v1.36.3 plugins/helper/spread.go.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from scheduler.model.api.objects import (
    LabelSelector,
    LabelsSpec,
    ObjectMeta,
    Pod,
    ReplicaSet,
    ReplicationController,
    Requirement,
    SelectorSpec,
    Service,
    StatefulSet,
    Workload,
)
from scheduler.model.api.owners import controller
from scheduler.model.api.selectors import Selector, SelectorError

__all__ = ["Workloads"]

#: The API version under which a pod must name its controller for it to count.
_VERSIONS: Final = {
    ReplicationController.__name__: "v1",
    ReplicaSet.__name__: "apps/v1",
    StatefulSet.__name__: "apps/v1",
}


class Workloads:
    """The selectors of services and controllers, by namespace."""

    def __init__(self) -> None:
        self._services: defaultdict[str, dict[str, dict[str, str]]] = defaultdict(dict)
        self._controllers: dict[tuple[str, str, str], dict[str, str] | LabelSelector] = {}
        self._versions: defaultdict[str, int] = defaultdict(int)

    def __iter__(self) -> Iterator[Workload]:
        """Yield all services and controllers, with only their names and selectors."""
        for namespace, services in self._services.items():
            for name, labels in services.items():
                yield Service(_named(namespace, name), LabelsSpec(labels))
        for (kind, namespace, name), selector in self._controllers.items():
            metadata = _named(namespace, name)
            if isinstance(selector, dict):
                yield ReplicationController(metadata, LabelsSpec(selector))
            elif kind == ReplicaSet.__name__:
                yield ReplicaSet(metadata, SelectorSpec(selector))
            else:
                yield StatefulSet(metadata, SelectorSpec(selector))

    def version(self, namespace: str) -> int:
        """Return a number that grows whenever a selector of the namespace changes."""
        return self._versions.get(namespace, 0)

    def write(self, workload: Workload) -> None:
        """Store the state of a service or controller."""
        namespace, name = workload.metadata.namespace, workload.metadata.name
        self._store(type(workload).__name__, namespace, name, workload.spec.selector)

    def erase(self, kind: str, key: str) -> None:
        """Remove a service or controller.

        Args:
            kind: As in the API.
            key: Namespace and name, joined by a slash.
        """
        namespace, _, name = key.partition("/")
        self._store(kind, namespace, name, None)

    def default_selector(self, pod: Pod) -> Selector:
        """Return the selector of the services and the controller of a pod; empty without any.

        It selects the pods that all services of the pod and its controller select.

        Source: kube-scheduler v1.36.3 helper.DefaultSelector.
        """
        labels = pod.metadata.labels
        equal: dict[str, str] = {}
        for selector in self._services.get(pod.metadata.namespace, {}).values():
            if all(labels.get(key) == value for key, value in selector.items()):
                equal |= selector
        further: tuple[Requirement, ...] = ()
        controlling = self._controlling(pod)
        if isinstance(controlling, LabelSelector):
            further = _requirements(controlling)
        elif controlling is not None:
            equal |= controlling
        named = (Requirement(key, "In", [value]) for key, value in sorted(equal.items()))
        return Selector((*named, *further))

    def _store(
        self, kind: str, namespace: str, name: str, selector: dict[str, str] | LabelSelector | None
    ) -> None:
        if kind == Service.__name__:
            services = self._services[namespace]
            before: object = services.pop(name, None)
            if isinstance(selector, dict):
                services[name] = selector
            if not services:
                del self._services[namespace]
        else:
            before = self._controllers.pop((kind, namespace, name), None)
            if selector is not None:
                self._controllers[kind, namespace, name] = selector
        if before != selector:
            self._versions[namespace] += 1

    def _controlling(self, pod: Pod) -> dict[str, str] | LabelSelector | None:
        owner = controller(pod)
        if owner is None or _VERSIONS.get(owner.kind) != owner.api_version:
            return None
        return self._controllers.get((owner.kind, pod.metadata.namespace, owner.name))


def _named(namespace: str, name: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace)


def _requirements(selector: LabelSelector) -> tuple[Requirement, ...]:
    try:
        return Selector.of(selector).requirements
    except SelectorError:
        return ()
