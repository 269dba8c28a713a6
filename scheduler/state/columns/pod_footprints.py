"""The footprint of a pod: its requests and host ports. Equal pods share a footprint.

Axes: S footprints.
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
from scheduler.model.releases import OLDEST, Reference
from scheduler.state.columns.arrays import Bool, Int, IntColumn
from scheduler.state.columns.caches import BoundedCache
from scheduler.state.columns.refcounted_interner import RefcountedInterner
from scheduler.state.columns.resource_axis import ResourceAxis

__all__ = ["HostPort", "PodFootprint", "PodFootprints", "WantedPorts", "host_ports"]

_encode = msgspec.msgpack.Encoder().encode

#: Bytes of specs whose requests are cached.
_MEMORY_BYTES: Final = 4 * 1024 * 1024

ANY_ADDRESS: Final = "0.0.0.0"


class HostPort(NamedTuple):
    """A port of the node's own address that a pod takes."""

    address: str
    protocol: str
    port: int


class WantedPorts:
    """The host ports that a pod wants; finds conflicts without comparing all pairs of ports."""

    __slots__ = ("_at_any_address", "_conflicting", "numbers")

    def __init__(self, ports: Iterable[HostPort]) -> None:
        wanted = frozenset(ports)
        self._conflicting = wanted | {port._replace(address=ANY_ADDRESS) for port in wanted}
        self._at_any_address = {
            (port.protocol, port.port) for port in wanted if port.address == ANY_ADDRESS
        }
        #: The numbers of the ports.
        self.numbers = frozenset(port.port for port in wanted)

    def conflict(self, used: Set[HostPort]) -> bool:
        """Return whether one of them conflicts with the ports in use on a node.

        Source: kube-scheduler v0.36.3 framework.HostPortInfo.CheckConflict.
        """
        if not self._conflicting.isdisjoint(used):
            return True
        wildcard = self._at_any_address
        return bool(wildcard) and any((port.protocol, port.port) in wildcard for port in used)


_Measure: TypeAlias = tuple[dict[str, int], tuple[int, int], tuple[HostPort, ...]]
_decode = msgspec.msgpack.Decoder(_Measure).decode


@dataclass(frozen=True, slots=True)
class PodFootprint:
    """The requests and host ports of a pod."""

    #: Code and amount of the requested resources that nodes offer, by code, without zero amounts.
    requests: tuple[tuple[int, int], ...]
    #: Milli-cpu and bytes, with defaults for containers without requests; for scores.
    non_zero: tuple[int, int]
    #: Host ports, in spec order.
    ports: tuple[HostPort, ...]
    #: Whether it also requests a resource that no node offers.
    beyond: bool = False


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports of containers and sidecars.

    Source: kube-scheduler v1.36.3 util.GetHostPorts.
    """
    sidecars = [c for c in pod.spec.init_containers if c.restart_policy == "Always"]
    return tuple(
        HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in (*pod.spec.containers, *sidecars)
        for port in container.ports
        if port.host_port > 0
    )


class PodFootprints:
    """The footprints of all pods that have a slot, by code; codes without pods are reused.

    A footprint is identified by its requests by name. The codes of resources in it are the present
    ones: they follow the resources that nodes offer.
    """

    __slots__ = ("_amounts", "_axis", "_has_ports", "_pool", "_reference", "_seen")

    def __init__(self, axis: ResourceAxis, reference: Reference = OLDEST) -> None:
        self._axis = axis
        self._reference = reference
        self._amounts: dict[int, IntColumn] = {}
        self._has_ports = IntColumn()
        self._pool = _FootprintInterner(self._index)
        #: The key of a footprint, by the fingerprint of the pod.
        self._seen: BoundedCache[bytes] = BoundedCache(_MEMORY_BYTES)

    def __getitem__(self, code: int) -> PodFootprint:
        return self._pool.values[code]

    def __len__(self) -> int:
        return self._pool.live

    def acquire(self, pod: Pod) -> int:
        """Return the code of a pod's footprint and add a reference to it.

        Raises:
            QuantityError: A request of the pod is not a quantity.
        """
        key = self._key(pod)
        return self._pool.acquire(key, lambda: self._footprint(key))

    def release(self, code: int) -> None:
        """Remove a reference."""
        self._pool.release(code)

    def of(self, pod: Pod) -> PodFootprint:
        """Return a pod's footprint without a reference to it.

        Raises:
            QuantityError: A request of the pod is not a quantity.
        """
        return self._footprint(self._key(pod))

    def validate(self, pod: Pod) -> None:
        """Check that the requests of a waiting pod can be parsed.

        A pod that is too large, or names too many resources, is not checked: it fits no node.

        Raises:
            QuantityError: A request of the pod is not a quantity.
        """
        if is_too_large(pod):
            return
        fingerprint = _fingerprint(pod)
        if self._seen.get(fingerprint) is None and not resources.too_many(pod):
            self._measure(pod, fingerprint)

    def amounts(self, resource: int) -> Int:
        """Return, (S + 1,), how much of a resource each footprint requests; 0 at -1, for no pod."""
        column = self._amounts.get(resource)
        return (column or IntColumn()).all(len(self._pool) + 1)

    def have_ports(self) -> Bool:
        """Return, (S + 1,), which footprints take host ports; False at -1, for no pod."""
        return self._has_ports.all(len(self._pool) + 1).astype(np.bool_)

    def offer(self, resource: int) -> None:
        """Add a resource that got a code to the footprints that request it."""
        named = self._axis.values[resource].encode(errors="surrogatepass")
        for code in self._pool.codes():
            if named in self._pool.key(code):
                self._replace(code, self._footprint(self._pool.key(code)))

    def withdraw(self, resource: int) -> None:
        """Remove a resource that lost its code from all footprints."""
        requested = self._amounts.pop(resource, None)
        if requested is None:
            return
        for code in np.flatnonzero(requested.all(len(self._pool))).tolist():
            self._replace(code, self._footprint(self._pool.key(code)))

    def _replace(self, code: int, footprint: PodFootprint) -> None:
        self._index(code, self._pool.values[code], 0)
        self._pool.values[code] = footprint
        self._index(code, footprint, 1)

    def _index(self, code: int, footprint: PodFootprint, sign: int) -> None:
        """Index the footprint of a code (1), or remove it from the indices (0)."""
        for resource, amount in footprint.requests:
            if sign:
                self._amounts.setdefault(resource, IntColumn())[code] = amount
            elif resource in self._amounts:
                self._amounts[resource][code] = 0
        if footprint.ports:
            self._has_ports[code] = sign

    def _key(self, pod: Pod) -> bytes:
        """Return the key of a pod's footprint: bytes that are equal for equal footprints."""
        fingerprint = _fingerprint(pod)
        key = self._seen.get(fingerprint)
        return self._measure(pod, fingerprint) if key is None else key

    def _measure(self, pod: Pod, fingerprint: bytes) -> bytes:
        """Compute the key of a pod's footprint and cache it."""
        non_zero = resources.non_zero_requests(pod, self._reference)
        requests = resources.pod_requests(pod, status_aware=True, reference=self._reference)
        wanted = {name: requests[name] for name in sorted(requests) if requests[name]}
        key = _encode((wanted, (non_zero[CPU], non_zero[MEMORY]), host_ports(pod)))
        self._seen.put(fingerprint, key)
        return key

    def _footprint(self, key: bytes) -> PodFootprint:
        wanted, non_zero, ports = _decode(key)
        axis = self._axis
        coded = sorted((axis.code(name), wanted[name]) for name in axis.offered() & wanted.keys())
        return PodFootprint(tuple(coded), non_zero, ports, beyond=len(coded) < len(wanted))


class _FootprintInterner(RefcountedInterner[PodFootprint]):
    """Calls back when a code is assigned to a footprint, and when it is freed."""

    __slots__ = ("_report",)

    def __init__(self, report: Callable[[int, PodFootprint, int], None]) -> None:
        super().__init__(PodFootprint((), (0, 0), ()))
        self._report = report

    def on_assigned(self, code: int, value: PodFootprint) -> None:
        """Report the footprint of a code."""
        self._report(code, value, 1)

    def on_freed(self, code: int, value: PodFootprint) -> None:
        """Report that a code is freed."""
        self._report(code, value, 0)


def _fingerprint(pod: Pod) -> bytes:
    """Return bytes that differ for pods whose footprints differ."""
    spec, status = pod.spec, pod.status
    parts: list[object] = [
        [_container_key(container) for container in spec.containers],
        [_container_key(container) for container in spec.init_containers],
        spec.overhead,
        None if spec.resources is None else spec.resources.requests,
    ]
    if _resizing(pod):
        parts += [[_granted_key(granted) for granted in status.container_statuses]]
        parts += [[_granted_key(granted) for granted in status.init_container_statuses]]
        parts += [None if status.resources is None else status.resources.requests]
        parts += [status.allocated_resources, resources.resize_infeasible(pod)]
    return _encode(parts)


def _container_key(container: Container) -> tuple[object, ...]:
    requests = container.resources.requests
    return (container.name, requests, container.ports, container.restart_policy)


def _granted_key(status: ContainerStatus) -> tuple[object, ...]:
    granted = None if status.resources is None else status.resources.requests
    return (status.name, granted, status.allocated_resources)


def _has_resources(status: ContainerStatus) -> bool:
    return status.resources is not None or bool(status.allocated_resources)


def _resizing(pod: Pod) -> bool:
    """Return whether the status contains resources at all."""
    status = pod.status
    return (
        status.resources is not None
        or any(_has_resources(item) for item in status.container_statuses)
        or any(_has_resources(item) for item in status.init_container_statuses)
        or resources.resize_infeasible(pod)
    )
