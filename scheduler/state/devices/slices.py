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
from scheduler.state.devices.device_kinds import DeviceKind, DeviceKinds
from scheduler.state.devices.usage import DeviceId

__all__ = ["CapacityLimit", "DeviceEntry", "PoolId", "SliceEntry", "SliceTable"]

#: Driver and name.
PoolId = tuple[str, str]


class CapacityLimit(NamedTuple):
    """One capacity of a device, in billionths."""

    value: int
    text: str
    policy: RequestPolicy | None


class DeviceEntry:
    """One device of a slice, prepared for the search."""

    __slots__ = (
        "capacity",
        "counters",
        "device",
        "id",
        "kind",
        "shared",
        "slice",
        "taints",
        "twin",
    )

    def __init__(self, of: "SliceEntry", device: Device, kind: DeviceKind) -> None:
        spec = of.item.spec
        self.id: Final[DeviceId] = (spec.driver, spec.pool.name, device.name)
        self.device: Final = device
        self.slice: Final = of
        self.kind: Final = kind
        #: Whether several claims may have shares of it.
        self.shared: Final = bool(device.allow_multiple_allocations)
        self.capacity: Final[Mapping[str, CapacityLimit]] = {
            name: CapacityLimit(
                quantity.exact(capacity.value), str(capacity.value), capacity.request_policy
            )
            for name, capacity in device.capacity.items()
        }
        #: What it consumes: counter set, counter, amount in billionths.
        self.counters: Final[tuple[tuple[tuple[str, str], int], ...]] = tuple(
            ((consumption.counter_set, name), quantity.exact(counter.value))
            for consumption in device.consumes_counters
            for name, counter in consumption.counters.items()
        )
        #: Its own taints that matter, and those of rules.
        self.taints: tuple[DeviceTaint, ...] = ()
        #: Equal for devices that a search cannot distinguish while they are equally used.
        self.twin: Hashable = None


class SliceEntry:
    """One slice with its devices."""

    __slots__ = ("devices", "grouped", "item", "pool")

    def __init__(self, item: ResourceSlice) -> None:
        self.item: Final = item
        self.pool: Final[PoolId] = (item.spec.driver, item.spec.pool.name)
        self.devices: tuple[DeviceEntry, ...] = ()
        #: Whether some device has compatibility groups.
        self.grouped: Final = any(
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
        """The node whose devices these are; empty where the slice says it in another way."""
        return self.item.spec.node_name or ""


class SliceTable:
    """All slices."""

    def __init__(self, reference: Reference) -> None:
        self._reference: Final = reference
        self._slices: dict[str, SliceEntry] = {}
        self._taint_rules: dict[str, DeviceTaintRule] = {}
        self._kinds: Final = DeviceKinds(reference)
        #: By pool, then by name of the slice.
        self.pools: Final[dict[PoolId, dict[str, SliceEntry]]] = {}
        #: By node, then by name: slices with a node name.
        self.by_node: Final[dict[str, dict[str, SliceEntry]]] = {}
        #: By pool, then by name: slices without a node name.
        self.elsewhere: Final[dict[PoolId, dict[str, SliceEntry]]] = {}

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
        entry = SliceEntry(item)
        driver = item.spec.driver
        entry.devices = tuple(
            DeviceEntry(entry, device, self._kinds.of(driver, device))
            for device in item.spec.devices
        )
        for device in entry.devices:
            self._taint(device)
        before = self.erase(entry.name)
        self._slices[entry.name] = entry
        self.pools.setdefault(entry.pool, {})[entry.name] = entry
        index, key = self._place(entry)
        index.setdefault(key, {})[entry.name] = entry
        return before

    def erase(self, name: str) -> ResourceSlice | None:
        """Remove a slice; return its last state."""
        entry = self._slices.pop(name, None)
        if entry is None:
            return None
        _drop(self.pools, entry.pool, name)
        index, key = self._place(entry)
        _drop(index, key, name)
        return entry.item

    def write_rule(self, rule: DeviceTaintRule) -> tuple[DeviceTaintRule | None, set[PoolId]]:
        """Store the state of a rule; return the previous one, and pools whose taints changed."""
        before = self._taint_rules.get(rule.metadata.name)
        self._taint_rules[rule.metadata.name] = rule
        return before, self._taint_again(before, rule)

    def erase_rule(self, name: str) -> tuple[DeviceTaintRule | None, set[PoolId]]:
        """Remove a rule; return its last state, and the pools whose taints changed."""
        before = self._taint_rules.pop(name, None)
        return before, self._taint_again(before, None)

    def _place(self, entry: SliceEntry) -> tuple[dict[Any, dict[str, SliceEntry]], Any]:
        return (self.by_node, entry.node) if entry.node else (self.elsewhere, entry.pool)

    def _taint(self, entry: DeviceEntry) -> None:
        taints = list(entry.device.taints)
        if self._reference.applies_device_taint_rules:
            taints += [
                rule.spec.taint for rule in self._taint_rules.values() if self._selects(rule, entry)
            ]
        entry.taints = tuple(
            taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute")
        )
        entry.twin = (
            entry.kind,
            tuple((taint.key, taint.value, taint.effect) for taint in entry.taints),
            entry.counters,
        )

    def _selects(self, rule: DeviceTaintRule | None, entry: DeviceEntry) -> bool:
        if rule is None:
            return False
        wanted = rule.spec.device_selector
        if wanted is None:
            return self._reference.rules_without_selector_taint_all
        named = (wanted.driver, wanted.pool, wanted.device)
        return all(name is None or name == own for name, own in zip(named, entry.id, strict=True))

    def _taint_again(
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


def _drop(index: dict[Any, dict[str, SliceEntry]], key: object, name: str) -> None:
    del index[key][name]
    if not index[key]:
        del index[key]
