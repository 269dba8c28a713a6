"""The shape of a pod: what it takes from a node. Pods of one shape share it.

Axes: S shapes.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import numpy as np

from scheduler.model import resources
from scheduler.model.objects import Container, Pod
from scheduler.model.recent import Recent
from scheduler.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, Requests
from scheduler.state.arrays import Bool, Int, IntColumn
from scheduler.state.interning import Interner

__all__ = ["HostPort", "ResourceAxis", "Shape", "Shapes", "WantedPorts", "host_ports"]

#: Bytes of texts whose shapes are remembered; the shapes themselves stay.
_MEMORY_BYTES: Final = 4 * 1024 * 1024

ANY_ADDRESS: Final = "0.0.0.0"


class HostPort(NamedTuple):
    """A port of the node's own address that a pod takes."""

    address: str
    protocol: str
    port: int


class WantedPorts:
    """The ports that a pod wants, found among those in use without comparing each with each."""

    __slots__ = ("_at_any_address", "_in_the_way", "numbers")

    def __init__(self, ports: Iterable[HostPort]) -> None:
        wanted = frozenset(ports)
        self._in_the_way = wanted | {each._replace(address=ANY_ADDRESS) for each in wanted}
        self._at_any_address = {
            (each.protocol, each.port) for each in wanted if each.address == ANY_ADDRESS
        }
        #: The numbers of the ports.
        self.numbers = frozenset(each.port for each in wanted)

    def conflict(self, used: Set[HostPort]) -> bool:
        """Tell whether one of them cannot be had on a node where some are in use.

        Source: kube-scheduler v0.36.3 framework.HostPortInfo.CheckConflict.
        """
        if not self._in_the_way.isdisjoint(used):
            return True
        wide = self._at_any_address
        return bool(wide) and any((each.protocol, each.port) in wide for each in used)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod takes from a node."""

    #: Resource index and amount, in index order, zero amounts left out.
    requests: tuple[tuple[int, int], ...]
    #: Milli-cpu and bytes with defaults for containers that name none; for scores.
    non_zero: tuple[int, int]
    #: Host ports, in spec order.
    ports: tuple[HostPort, ...]


class ResourceAxis(Interner[str]):
    """The order of resources in all columns: cpu, memory, ephemeral storage, then as met."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(CPU, MEMORY, EPHEMERAL_STORAGE)


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports of containers and sidecars.

    Source: kube-scheduler v1.36.3 util.GetHostPorts.
    """
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    return tuple(
        HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in (*pod.spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    )


class Shapes:
    """All shapes met, by code."""

    __slots__ = ("_amounts", "_axis", "_has_ports", "_interner", "_seen")

    def __init__(self, axis: ResourceAxis) -> None:
        self._axis = axis
        self._interner: Interner[Shape] = Interner()
        self._seen: Recent[int] = Recent(_MEMORY_BYTES)
        self._amounts: dict[int, IntColumn] = {}
        self._has_ports = IntColumn()

    def __getitem__(self, code: int) -> Shape:
        return self._interner.values[code]

    def code(self, pod: Pod) -> int:
        """Return the code of a pod's shape.

        Raises:
            QuantityError: A request of the pod is no quantity.
        """
        key = _fingerprint(pod)
        code = self._seen.get(key)
        if code is None:
            code = self._add(self._measure(pod))
            self._seen.put(key, code)
        return code

    def amounts(self, resource: int) -> Int:
        """Return, (S + 1,), how much of a resource each shape requests; 0 at -1, for no pod."""
        column = self._amounts.get(resource)
        return (column or IntColumn()).all(len(self._interner) + 1)

    def have_ports(self) -> Bool:
        """Return, (S + 1,), which shapes take host ports; False at -1, for no pod."""
        return self._has_ports.all(len(self._interner) + 1).astype(np.bool_)

    def requests(self, requests: Requests) -> tuple[tuple[int, int], ...]:
        """Return requests by resource index, in index order, zero amounts left out."""
        code = self._axis.code
        return tuple(sorted((code(name), each) for name, each in requests.items() if each))

    def _measure(self, pod: Pod) -> Shape:
        non_zero = resources.non_zero_requests(pod)
        return Shape(
            requests=self.requests(resources.pod_requests(pod, status_aware=True)),
            non_zero=(non_zero[CPU], non_zero[MEMORY]),
            ports=host_ports(pod),
        )

    def _add(self, shape: Shape) -> int:
        code = self._interner.code(shape)
        for resource, amount in shape.requests:
            self._amounts.setdefault(resource, IntColumn())[code] = amount
        self._has_ports[code] = int(bool(shape.ports))
        return code


def _fingerprint(pod: Pod) -> bytes:
    """Return bytes that differ for pods whose shapes differ."""
    spec, status = pod.spec, pod.status
    parts: list[object] = [
        [_container_key(each) for each in spec.containers],
        [_container_key(each) for each in spec.init_containers],
        spec.overhead,
        spec.resources,
    ]
    if _resizing(pod):
        parts += [status.container_statuses, status.init_container_statuses]
        parts += [status.resources, status.allocated_resources, status.conditions]
    return msgspec.msgpack.encode(parts)


def _container_key(container: Container) -> tuple[object, ...]:
    return (container.name, container.resources, container.ports, container.restart_policy)


def _resizing(pod: Pod) -> bool:
    """Tell whether the status says something about resources at all."""
    status = pod.status
    return (
        status.resources is not None
        or any(each.resources is not None for each in status.container_statuses)
        or any(each.resources is not None for each in status.init_container_statuses)
    )
