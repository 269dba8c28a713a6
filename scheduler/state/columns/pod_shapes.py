"""The shape of a pod: what it takes from a node. Pods of one shape share it.

Axes: S shapes.
"""

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from scheduler.model.api import resources
from scheduler.model.api.objects import Container, ContainerStatus, Pod
from scheduler.model.api.pod_size import is_too_large
from scheduler.model.api.resources import CPU, MEMORY
from scheduler.state.columns.arrays import Bool, Int, IntColumn
from scheduler.state.columns.caches import BoundedCache
from scheduler.state.columns.refcounted_interner import RefcountedInterner
from scheduler.state.columns.resource_axis import ResourceAxis

__all__ = ["HostPort", "Shape", "Shapes", "WantedPorts", "host_ports"]

_encode = msgspec.msgpack.Encoder().encode

#: Bytes of specs whose measures are remembered.
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


_Measure: TypeAlias = tuple[dict[str, int], tuple[int, int], tuple[HostPort, ...]]
_decode = msgspec.msgpack.Decoder(_Measure).decode


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod takes from a node."""

    #: Resource code and amount of what nodes offer, in order of codes, zero amounts left out.
    requests: tuple[tuple[int, int], ...]
    #: Milli-cpu and bytes with defaults for containers that name none; for scores.
    non_zero: tuple[int, int]
    #: Host ports, in spec order.
    ports: tuple[HostPort, ...]
    #: Whether it requests something beside that, of which no node has anything.
    beyond: bool = False


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
    """The shapes of all pods that have a slot, by code; a code is used again when none has it.

    A shape is known by what is requested by name. The codes of resources in it are those of the
    moment: they follow what nodes offer.
    """

    __slots__ = ("_amounts", "_axis", "_has_ports", "_pool", "_seen")

    def __init__(self, axis: ResourceAxis) -> None:
        self._axis = axis
        self._amounts: dict[int, IntColumn] = {}
        self._has_ports = IntColumn()
        self._pool = _ShapePool(self._note)
        #: What was measured of a spec, by what was read of it.
        self._seen: BoundedCache[bytes] = BoundedCache(_MEMORY_BYTES)

    def __getitem__(self, code: int) -> Shape:
        return self._pool.values[code]

    def __len__(self) -> int:
        return self._pool.live

    def take(self, pod: Pod) -> int:
        """Return the code of a pod's shape and count one more reference to it.

        Raises:
            QuantityError: A request of the pod is no quantity.
        """
        key = self._key(pod)
        return self._pool.take(key, lambda: self._shape(key))

    def give_back(self, code: int) -> None:
        """Count one reference less."""
        self._pool.give_back(code)

    def of(self, pod: Pod) -> Shape:
        """Return a pod's shape without keeping it.

        Raises:
            QuantityError: A request of the pod is no quantity.
        """
        return self._shape(self._key(pod))

    def validate(self, pod: Pod) -> None:
        """Make sure that a pod which waits can be measured.

        One that is too large, or names too many resources, is not: it is put on no node.

        Raises:
            QuantityError: A request of the pod is no quantity.
        """
        if is_too_large(pod):
            return
        fingerprint = _fingerprint(pod)
        if self._seen.get(fingerprint) is None and not resources.too_many(pod):
            self._measure(pod, fingerprint)

    def amounts(self, resource: int) -> Int:
        """Return, (S + 1,), how much of a resource each shape requests; 0 at -1, for no pod."""
        column = self._amounts.get(resource)
        return (column or IntColumn()).all(len(self._pool) + 1)

    def have_ports(self) -> Bool:
        """Return, (S + 1,), which shapes take host ports; False at -1, for no pod."""
        return self._has_ports.all(len(self._pool) + 1).astype(np.bool_)

    def offer(self, resource: int) -> None:
        """Take up a resource that has got a code: find the shapes that request it."""
        named = self._axis.values[resource].encode(errors="surrogatepass")
        for code in self._pool.codes():
            if named in self._pool.key(code):
                self._replace(code, self._shape(self._pool.key(code)))

    def withdraw(self, resource: int) -> None:
        """Forget a resource that has lost its code."""
        requested = self._amounts.pop(resource, None)
        if requested is None:
            return
        for code in np.flatnonzero(requested.all(len(self._pool))).tolist():
            self._replace(code, self._shape(self._pool.key(code)))

    def _replace(self, code: int, shape: Shape) -> None:
        self._note(code, self._pool.values[code], 0)
        self._pool.values[code] = shape
        self._note(code, shape, 1)

    def _note(self, code: int, shape: Shape, sign: int) -> None:
        """Note what a code stands for (1), or that it does no longer (0)."""
        for resource, amount in shape.requests:
            if sign:
                self._amounts.setdefault(resource, IntColumn())[code] = amount
            elif resource in self._amounts:
                self._amounts[resource][code] = 0
        if shape.ports:
            self._has_ports[code] = sign

    def _key(self, pod: Pod) -> bytes:
        """Return what a pod takes, by name, as bytes that are equal for equal shapes."""
        fingerprint = _fingerprint(pod)
        key = self._seen.get(fingerprint)
        return self._measure(pod, fingerprint) if key is None else key

    def _measure(self, pod: Pod, fingerprint: bytes) -> bytes:
        """Return what a pod takes that was not seen lately."""
        non_zero = resources.non_zero_requests(pod)
        requests = resources.pod_requests(pod, status_aware=True)
        wanted = {name: requests[name] for name in sorted(requests) if requests[name]}
        key = _encode((wanted, (non_zero[CPU], non_zero[MEMORY]), host_ports(pod)))
        self._seen.put(fingerprint, key)
        return key

    def _shape(self, key: bytes) -> Shape:
        wanted, non_zero, ports = _decode(key)
        axis = self._axis
        coded = sorted((axis.code(name), wanted[name]) for name in axis.offered() & wanted.keys())
        return Shape(tuple(coded), non_zero, ports, beyond=len(coded) < len(wanted))


class _ShapePool(RefcountedInterner[Shape]):
    """Tells which shape a code stands for, and when it does no longer."""

    __slots__ = ("_tell",)

    def __init__(self, tell: Callable[[int, Shape, int], None]) -> None:
        super().__init__(Shape((), (0, 0), ()))
        self._tell = tell

    def met(self, code: int, value: Shape) -> None:
        """Note what a code stands for now."""
        self._tell(code, value, 1)

    def left(self, code: int, value: Shape) -> None:
        """Note what a code stands for no longer."""
        self._tell(code, value, 0)


def _fingerprint(pod: Pod) -> bytes:
    """Return bytes that differ for pods whose shapes differ."""
    spec, status = pod.spec, pod.status
    parts: list[object] = [
        [_container_key(each) for each in spec.containers],
        [_container_key(each) for each in spec.init_containers],
        spec.overhead,
        None if spec.resources is None else spec.resources.requests,
    ]
    if _resizing(pod):
        parts += [[_granted_key(each) for each in status.container_statuses]]
        parts += [[_granted_key(each) for each in status.init_container_statuses]]
        parts += [None if status.resources is None else status.resources.requests]
        parts += [status.allocated_resources, resources.resize_infeasible(pod)]
    return _encode(parts)


def _container_key(container: Container) -> tuple[object, ...]:
    requests = container.resources.requests
    return (container.name, requests, container.ports, container.restart_policy)


def _granted_key(status: ContainerStatus) -> tuple[object, ...]:
    granted = None if status.resources is None else status.resources.requests
    return (status.name, granted, status.allocated_resources)


def _resizing(pod: Pod) -> bool:
    """Tell whether the status says something about resources at all."""
    status = pod.status
    return (
        status.resources is not None
        or any(each.resources is not None for each in status.container_statuses)
        or any(each.resources is not None for each in status.init_container_statuses)
    )
