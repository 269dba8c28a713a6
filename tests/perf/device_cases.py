"""Decisions about devices on bad days: very large pools, and all nodes to be looked at again."""

import itertools
from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from scheduler.config import load
from scheduler.config.settings import Settings
from scheduler.core.machine import Machine
from scheduler.model.api.device_claims import DeviceRequest
from scheduler.model.api.devices import ResourceClaim, ResourceSlice
from scheduler.model.events import DeviceClassObserved, DevicesObserved, EffectDone, PodObserved
from tests.perf.core_cases import Case, machine, pod
from tests.support.devices import DRIVER, allocated, claim, device, device_class, gpus, wants

__all__ = ["CASES"]

NODES: Final = 5000
#: Devices of a node.
EACH: Final = 10
#: Slices of the large pool, with as many devices as the API server takes: 100,096 in all.
SLICES: Final = 782
DEVICES: Final = 128
#: Devices of a node that have serial numbers, or that pods have.
GPUS: Final = 8
#: Pods of a node that have devices or none.
PODS: Final = 6
PREEMPTING: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: preemptive-scheduler
  pluginConfig:
  - {name: PreemptiveScheduler, args: {preemptForDevices: true}}
"""


def _with_classes(nodes: int, settings: Settings | None = None) -> Machine:
    made = machine(nodes, settings)
    made.observe(DeviceClassObserved(device_class()), 0.0)
    return made


def _preparing() -> Callable[[int], None]:
    """Return what prepares parts of a decision; all nodes are looked at again each time."""
    made = _with_classes(NODES)
    for index in range(NODES):
        devices = (device(f"d{each}", index=each) for each in range(EACH))
        made.observe(DevicesObserved(gpus(f"node-{index}", *devices)), 0.0)
    serial = itertools.count()

    def prepare(count: int) -> None:
        network = gpus("", f"d{next(serial)}", name="network", all_nodes=True)
        made.observe(DevicesObserved(network), 0.0)
        for _ in range(count):
            assert made.prepare()

    return prepare


def _large_pool(
    request: Callable[[int], DeviceRequest], missing: int = 0, different: int = 1
) -> Callable[[int], None]:
    """Return what decides for pods with a claim, beside one pool for all nodes.

    Args:
        request: What each claim asks for, by its number.
        missing: How many slices are not published yet.
        different: How many kinds of devices there are.
    """
    made = _with_classes(NODES)
    for each in _slices(missing, different):
        made.observe(DevicesObserved(each), 0.0)
    return _claiming(made, request)


def _different_devices(request: Callable[[int], DeviceRequest]) -> Callable[[int], None]:
    """Return what decides for pods with a claim, where no two devices are equal.

    Args:
        request: What each claim asks for, by its number.
    """
    made = _with_classes(NODES)
    for index in range(NODES):
        devices = (
            device(
                f"d{each}",
                capacity={"memory": "80Gi"},
                uuid=f"GPU-{index:08x}-{each:04x}",
                productName=f"model {index % 3}",
                type="gpu",
                index=each,
            )
            for each in range(GPUS)
        )
        made.observe(DevicesObserved(gpus(f"node-{index}", *devices)), 0.0)
    return _claiming(made, request)


def _preempting(*, claims: bool = True, differ: bool = False) -> Callable[[int], None]:
    """Return what preempts on nodes whose pods have a device each, or none.

    Args:
        claims: Whether preemptors need devices of pods, or else their CPU.
        differ: Whether no two devices are equal, as where they have serial numbers.
    """
    made = _with_classes(NODES, load.parse(PREEMPTING, source="perf"))
    for index in range(NODES):
        where = f"node-{index}"
        serials = ({"uuid": f"{where}-{each}"} if differ else {} for each in range(GPUS))
        devices = (device(f"d{each}", **serial) for each, serial in enumerate(serials))
        made.observe(DevicesObserved(gpus(where, *devices)), 0.0)
        for each in range(PODS):
            name = f"low-{index}-{each}"
            has_device = (index + each) % 4
            uses = [{"name": "x", "resourceClaimName": name}] if has_device else []
            low = pod(name, "5", priority=each % 3, on=where, resourceClaims=uses)
            made.observe(PodObserved(low), 0.0)
            if has_device:
                # Other devices on each node, so that nodes are in many states.
                taken = f"d{(each * (1 + 2 * (index % 4)) + index // 7) % GPUS}"
                known = allocated(name, f"{where}/{taken}", on=where, by=(name,))
                made.observe(DevicesObserved(_held_by(known, name)), 0.0)
    if claims:
        return _claiming(made, lambda _: wants("r", count=GPUS - 2), "10m", priority=10)
    return _claiming(made, None, "20", priority=10)


def _held_by(known: ResourceClaim, name: str) -> ResourceClaim:
    """Return a claim that is reserved for a pod with this name and uid."""
    (consumer,) = known.status.reserved_for
    status = replace(known.status, reserved_for=[replace(consumer, uid=name)])
    return replace(known, metadata=replace(known.metadata, uid=name), status=status)


def _claiming(
    made: Machine,
    request: Callable[[int], DeviceRequest] | None,
    cpu: str = "10m",
    **spec: object,
) -> Callable[[int], None]:
    """Return what decides for pods with a claim each, by its number; or without claims."""
    while made.prepare():
        pass
    serial = itertools.count()

    def decide(count: int) -> None:
        for _ in range(count):
            number = next(serial)
            name = f"c{number}"
            uses = []
            if request is not None:
                asked = claim(name, request(number))
                metadata = replace(asked.metadata, uid=name)
                made.observe(DevicesObserved(replace(asked, metadata=metadata)), 0.0)
                uses = [{"name": "x", "resourceClaimName": name}]
            created = pod(f"pod-{name}", cpu, resourceClaims=uses, **spec)
            made.observe(PodObserved(created), 0.0)
            attempt = made.step(0.0)
            assert attempt is not None
            for effect in attempt.effects:
                made.observe(EffectDone(effect), 0.0)

    return decide


def _slices(missing: int, different: int) -> list[ResourceSlice]:
    return [
        gpus(
            "",
            *(
                device(f"d{number}", model="a", index=number % different)
                for number in range(at * DEVICES, (at + 1) * DEVICES)
            ),
            name=f"s{at:04}",
            pool="large",
            count=SLICES + missing,
            all_nodes=True,
        )
        for at in range(SLICES)
    ]


def _common(number: int) -> DeviceRequest:
    """Return a request for a model and an amount of memory, with a selector that is new."""
    own = f'["{DRIVER}"]'
    model = f'device.attributes{own}.productName != "model {number}"'
    memory = f'device.capacity{own}.memory.compareTo(quantity("40Gi")) >= 0'
    return wants("r", "gpu", f"{model} && {memory}")


def _most_expensive(number: int) -> DeviceRequest:
    """Return a request whose selectors take as long as they may, for each device again."""
    uuid = f'device.attributes["{DRIVER}"].uuid'
    # Together they take what an attempt may do, and then what an evaluation may.
    small, large = (
        f"lists.range({times}).all(x, !{uuid}.matches('(a?){{30}}b{number}'))"
        for times in (150, 235)
    )
    return wants("r", "gpu", small, large)


def _of_model(model: str, attribute: str = "model") -> DeviceRequest:
    return wants("r", "gpu", f'device.attributes["{DRIVER}"].{attribute} == "{model}"')


CASES: Final[Mapping[str, Case]] = {
    "a part of the preparation, 5000 nodes with devices": Case(_preparing, 20),
    "100000 devices in a pool": Case(lambda: _large_pool(lambda _: _of_model("a")), 4),
    "100000 devices in an incomplete pool (a slice is missing)": Case(
        lambda: _large_pool(lambda _: _of_model("a"), missing=1), 20
    ),
    "100000 devices in a pool, no matching device": Case(
        lambda: _large_pool(lambda number: _of_model(str(number))), 1
    ),
    "100000 devices in a pool, no matching device and all different": Case(
        lambda: _large_pool(lambda number: _of_model(str(number)), different=SLICES * DEVICES), 1
    ),
    "a new selector, 5000 nodes with 8 devices, all different": Case(
        lambda: _different_devices(_common), 1
    ),
    "a new selector without a matching device, 5000 nodes with 8 devices, all different": Case(
        lambda: _different_devices(lambda number: _of_model(str(number), "productName")), 1
    ),
    "selectors of maximum cost, 5000 nodes with 8 devices, all different": Case(
        lambda: _different_devices(_most_expensive), 1
    ),
    "preemption for devices, 5000 nodes with 8 devices and 6 pods": Case(_preempting, 8),
    "preemption for devices, 5000 nodes with 8 devices and 6 pods, all different": Case(
        lambda: _preempting(differ=True), 8
    ),
    "preemption for CPU, 5000 nodes with 8 devices and 6 pods": Case(
        lambda: _preempting(claims=False), 8
    ),
    "all of 100000 devices in a pool": Case(
        lambda: _large_pool(lambda _: wants("r", mode="All")), 1
    ),
}
