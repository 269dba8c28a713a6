"""The devices of all slices, by pool and by node, with the taints that rules add to them.

Source: dynamic-resource-allocation v0.36.3 resourceslice/tracker.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from scheduler.model.api import quantity
from scheduler.model.api.devices import (
    Device,
    DeviceTaint,
    DeviceTaintRule,
    RequestPolicy,
    ResourceSlice,
)
from scheduler.model.releases import Reference
from scheduler.state.devices.allocated_state import DeviceId
from scheduler.state.devices.device_kinds import DeviceKind, DeviceKinds

__all__ = ["DeviceCapacity", "DeviceWithId", "PoolId", "ResourceSliceTracker", "TrackedSlice"]

#: Driver and name.
PoolId = tuple[str, str]


class DeviceCapacity(NamedTuple):
    """One capacity of a device."""

    #: In billionths.
    value: int
    text: str
    request_policy: RequestPolicy | None


class DeviceWithId:
    """One device of a slice, prepared for the allocator."""

    __slots__ = (
        "allow_multiple_allocations",
        "capacity",
        "consumes_counters",
        "device",
        "equivalence_key",
        "id",
        "kind",
        "slice",
        "taints",
    )

    def __init__(self, of: "TrackedSlice", device: Device, kind: DeviceKind) -> None:
        spec = of.item.spec
        self.id: Final[DeviceId] = (spec.driver, spec.pool.name, device.name)
        self.device: Final = device
        self.slice: Final = of
        self.kind: Final = kind
        #: Whether several claims may have shares of it.
        self.allow_multiple_allocations: Final = bool(device.allow_multiple_allocations)
        self.capacity: Final[Mapping[str, DeviceCapacity]] = {
            name: DeviceCapacity(
                quantity.exact(capacity.value), str(capacity.value), capacity.request_policy
            )
            for name, capacity in device.capacity.items()
        }
        #: Counter set and counter, and the amount in billionths.
        self.consumes_counters: Final[tuple[tuple[tuple[str, str], int], ...]] = tuple(
            ((consumption.counter_set, name), quantity.exact(counter.value))
            for consumption in device.consumes_counters
            for name, counter in consumption.counters.items()
        )
        #: Its own taints that matter, and those of rules.
        self.taints: tuple[DeviceTaint, ...] = ()
        #: Equal for devices that the allocator cannot distinguish while they are equally allocated.
        self.equivalence_key: Hashable = None


class TrackedSlice:
    """One slice with its devices."""

    __slots__ = ("devices", "item", "pool", "uses_compatibility_groups")

    def __init__(self, item: ResourceSlice) -> None:
        self.item: Final = item
        self.pool: Final[PoolId] = (item.spec.driver, item.spec.pool.name)
        self.devices: tuple[DeviceWithId, ...] = ()
        #: Whether some device has compatibility groups.
        self.uses_compatibility_groups: Final = any(
            consumption.compatibility_groups
            for device in item.spec.devices
            for consumption in device.consumes_counters
        )

    @property
    def name(self) -> str:
        """The name of the slice."""
        return self.item.metadata.name

    @property
    def node(self) -> str:
        """The name of the node that the slice targets; empty if it targets nodes otherwise."""
        return self.item.spec.node_name or ""


class ResourceSliceTracker:
    """All slices."""

    def __init__(self, reference: Reference) -> None:
        self._reference: Final = reference
        self._slices: dict[str, TrackedSlice] = {}
        self._taint_rules: dict[str, DeviceTaintRule] = {}
        self._kinds: Final = DeviceKinds(reference)
        #: By pool, then by name of the slice.
        self.pools: Final[dict[PoolId, dict[str, TrackedSlice]]] = {}
        #: By node, then by name: slices with a node name.
        self.by_node: Final[dict[str, dict[str, TrackedSlice]]] = {}
        #: By pool, then by name: slices without a node name.
        self.shared: Final[dict[PoolId, dict[str, TrackedSlice]]] = {}

    def __iter__(self) -> Iterator[ResourceSlice]:
        return (entry.item for entry in self._slices.values())

    def __len__(self) -> int:
        return len(self._slices)

    @property
    def taint_rules(self) -> Iterable[DeviceTaintRule]:
        """The rules that taint devices, whether the release applies them or not."""
        return self._taint_rules.values()

    def write(self, item: ResourceSlice) -> ResourceSlice | None:
        """Store the state of a slice; return its previous state.

        Raises:
            QuantityError: An amount is not a quantity; nothing is changed then.
        """
        entry = TrackedSlice(item)
        driver = item.spec.driver
        entry.devices = tuple(
            DeviceWithId(entry, device, self._kinds.of(driver, device))
            for device in item.spec.devices
        )
        for device in entry.devices:
            self._taint(device)
        before = self.erase(entry.name)
        self._slices[entry.name] = entry
        self.pools.setdefault(entry.pool, {})[entry.name] = entry
        index, key = self._index_of(entry)
        index.setdefault(key, {})[entry.name] = entry
        return before

    def erase(self, name: str) -> ResourceSlice | None:
        """Remove a slice; return its last state."""
        entry = self._slices.pop(name, None)
        if entry is None:
            return None
        _drop(self.pools, entry.pool, name)
        index, key = self._index_of(entry)
        _drop(index, key, name)
        return entry.item

    def write_rule(self, rule: DeviceTaintRule) -> tuple[DeviceTaintRule | None, set[PoolId]]:
        """Store the state of a rule; return the previous one, and pools whose taints changed."""
        before = self._taint_rules.get(rule.metadata.name)
        self._taint_rules[rule.metadata.name] = rule
        return before, self._apply_rule(before, rule)

    def erase_rule(self, name: str) -> tuple[DeviceTaintRule | None, set[PoolId]]:
        """Remove a rule; return its last state, and the pools whose taints changed."""
        before = self._taint_rules.pop(name, None)
        return before, self._apply_rule(before, None)

    def _index_of(self, entry: TrackedSlice) -> tuple[dict[Any, dict[str, TrackedSlice]], Any]:
        return (self.by_node, entry.node) if entry.node else (self.shared, entry.pool)

    def _taint(self, entry: DeviceWithId) -> None:
        taints = list(entry.device.taints)
        if self._reference.applies_device_taint_rules:
            taints += [
                rule.spec.taint for rule in self._taint_rules.values() if self._selects(rule, entry)
            ]
        entry.taints = tuple(
            taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute")
        )
        entry.equivalence_key = (
            entry.kind,
            tuple((taint.key, taint.value, taint.effect) for taint in entry.taints),
            entry.consumes_counters,
        )

    def _selects(self, rule: DeviceTaintRule | None, entry: DeviceWithId) -> bool:
        if rule is None:
            return False
        wanted = rule.spec.device_selector
        if wanted is None:
            return self._reference.rules_without_selector_taint_all
        named = (wanted.driver, wanted.pool, wanted.device)
        return all(name is None or name == own for name, own in zip(named, entry.id, strict=True))

    def _apply_rule(
        self, before: DeviceTaintRule | None, now: DeviceTaintRule | None
    ) -> set[PoolId]:
        changed: set[PoolId] = set()
        if not self._reference.applies_device_taint_rules:
            return changed
        for entry in self._slices.values():
            for device in entry.devices:
                if self._selects(before, device) or self._selects(now, device):
                    had = device.taints
                    self._taint(device)
                    if had != device.taints:
                        changed.add(entry.pool)
        return changed


def _drop(index: dict[Any, dict[str, TrackedSlice]], key: object, name: str) -> None:
    del index[key][name]
    if not index[key]:
        del index[key]
