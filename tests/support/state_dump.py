"""Everything that a cluster's state consists of, as one nested value that can be compared.

The walker follows every attribute of every object from the `Cluster` down, so that nothing can be
forgotten: what is left out is listed here, with the reason.
"""

from array import array
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np

from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import IntColumn
from scheduler.state.columns.change_log import ChangeCount, ChangeLog
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.pod_footprints import PodFootprints
from scheduler.state.columns.refcounted_interner import RefcountedInterner
from scheduler.state.devices.pools import PoolGatherer
from scheduler.state.devices.signatures import Signatures
from scheduler.state.pods.pod_index import CARRIED, LABELS, PodIndex
from scheduler.state.pods.pod_table import PodTable
from scheduler.state.storage.mounts import VolumeUse

__all__ = ["dumped"]

#: By class and attribute.
LEFT_OUT: Final = {
    # They only grow: a reader that was up to date in a trial is not after it.
    "Cluster.overdue_version": "a version",
    "PodIndex.position": "the position of a log",
    "PodIndex._start": "the beginning of a log",
    "PodIndex._journal": "a log",
    "PodIndex._floor": "the first position of a log that can be read",
    "Volumes.version": "a version",
    "Devices.version": "a version",
    # Made on demand from the rest.
    "PodIndex._shared": "counters, brought up to date from the log",
    "PodTable._ranked": "computed from priorities, starts and the order on the row: `ranked`",
    "PodTable._wide": "as _ranked",
    "PodTable._stale": "which rows of _ranked are out of date",
    "Nominations._table": "computed from the nominations: `layers`",
    "Nominations._indices": "as _table",
    "Nominations._length": "as _table",
    "Nominations._membership": "whether _table is up to date",
    "ByNode._rows": "computed from _numbers",
    "ByNode._changed": "which of _rows are out of date",
    "ByNode._membership": "whether _rows is up to date",
    "LabelColumns._columns": "columns of keys that a rule has read",
    "LabelColumns._empty": "as _columns",
    "Selector._folded": "computed from the requirements",
    "PdbIndex._indices": "selectors by label, for the next look",
    "Volumes._csi_volumes": "what claims stand for, until the next change",
    "Devices._pools": "pools of nodes, until the next change of a slice",
    "ClaimTracker._specs": "encoded claims",
    # Values that no pod has any more are kept for the next pod that has them.
    "PdbIndex.sets": "interned: the sets of pods are compared by `protections`",
    "PdbIndex._codes_with": "an index of `sets`",
    # Functions.
    "ClaimTracker._allocation_changed": "a method",
    "Volumes._writers": "methods",
    "Volumes._erasers": "methods",
    "VolumeCounts._resolve": "a method",
}
#: Lookups: nothing depends on the order of their keys.
UNORDERED: Final = {
    "PodTable._slots",
    "PodTable._on_row",  # `rows` sorts it
    "PodTable._with_priority",  # only the lowest one is read
    "NodeColumns._rows",
    "PortUse._by_row",
    "PortUse._by_port",
    "Nominations._by_node",  # but the nominations of one node are in order
    "VolumeUse._mounts",
    "VolumeUse._by_name",
    "VolumeUse._by_claim",
    "VolumeUse._by_disk",
    "VolumeCounts._on_node",
    "VolumeCounts._holders",
    "VolumeCounts._counts",
    "VolumeCounts._resolved",
    "VolumeCounts._users",
    "ByNode._numbers",
    "AssumeCache._assumed",
    "Volumes._free",  # `candidates` sorts names
    "Volumes._claimed",
    "Volumes._indexed",
    "ClaimTracker._in_flight",
    "ClaimTracker._counting",
    "AllocatedState._devices",
    "AllocatedState._shares",
    "AllocatedState._consumed",
}
_NESTED_UNORDERED: Final = UNORDERED - {"Nominations._by_node"}

_encode: Final = msgspec.msgpack.Encoder(order="sorted", enc_hook=repr).encode


def dumped(cluster: Cluster, *, decoded: bool = False) -> dict[str, Any]:
    """Return the whole state of a cluster by path.

    Args:
        cluster: The cluster.
        decoded: Whether interned codes are replaced by what they stand for. A code is freed for
            other values some time after the last pod that has its value is gone.
    """
    dump = _Dump(cluster, decoded=decoded)
    dump.walk("cluster", cluster, owner="", unordered=False)
    rows = np.arange(cluster.columns.size)
    dump.found["ranked"] = _ranked(cluster, rows)
    dump.found["layers"] = [_plain(cluster.nominations.layers(p, "")) for p in (-10, 0, 5, 10**9)]
    slots = np.arange(cluster.pods.size)
    sets = cluster.pdbs.sets.values
    dump.found["protections"] = [sets[code] for code in cluster.pods.protection(slots).tolist()]
    return dump.found


def _ranked(cluster: Cluster, rows: Any) -> dict[int, list[int]]:
    ranked = {}
    for positions, slots in cluster.pods.ranked(rows):
        for index, position in enumerate(positions.tolist()):
            ranked[position] = [slot for slot in slots[:, index].tolist() if slot >= 0]
    return ranked


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


class _Dump:
    def __init__(self, cluster: Cluster, *, decoded: bool) -> None:
        self.found: dict[str, Any] = {}
        self._decoded = decoded
        self._cluster = cluster
        self._seen: set[int] = set()

    def walk(self, path: str, value: Any, *, owner: str, unordered: bool) -> None:
        """Add a value, and everything that it consists of."""
        match value:
            case ChangeLog() | ChangeCount() | Signatures() | PoolGatherer():
                pass  # logs only grow, the others are caches that follow them
            case dict():
                self._walk_mapping(path, value, owner=owner, unordered=unordered)
            case list() | tuple():
                self.found[f"{path}#"] = len(value)
                for index, item in enumerate(value):
                    self.walk(f"{path}[{index}]", item, owner=owner, unordered=unordered)
            case _:
                self._walk_other(path, value)

    def _walk_other(self, path: str, value: Any) -> None:
        """Add a value that is one entry, or an object with its attributes."""
        match value:
            case None | bool() | int() | float() | str() | bytes():
                self.found[path] = value
            case msgspec.Struct():
                self.found[path] = _encode(value)
            case np.ndarray():
                self.found[path] = (value.shape, value.tobytes())
            case IntColumn():
                self.found[path] = _numbers(value)
            case RefcountedInterner():
                self.found[path] = self._interned(value)
            case set() | frozenset():
                self.found[path] = sorted(map(repr, value))
            case array():
                raise TypeError(f"{path} is a log that is not listed")
            case _:
                self._walk_object(path, value)

    def _walk_mapping(
        self, path: str, value: Mapping[Any, Any], *, owner: str, unordered: bool
    ) -> None:
        keys = list(map(repr, value))
        unordered = unordered or owner in UNORDERED
        self.found[f"{path}#"] = sorted(keys) if unordered else keys
        items = sorted(value.items(), key=repr) if unordered else value.items()
        for key, item in items:
            inner = unordered and owner in _NESTED_UNORDERED
            # The order below a lookup matters only where it is said so.
            self.walk(f"{path}[{key!r}]", item, owner="" if not inner else owner, unordered=inner)

    def _walk_object(self, path: str, value: Any) -> None:
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        kind = type(value)
        if kind is PodFootprints:
            self._walk_footprints(path, value)
            return
        for name in _attributes(value):
            key = next((f"{each.__name__}.{name}" for each in kind.__mro__
                        if f"{each.__name__}.{name}" in LEFT_OUT), "")  # fmt: skip
            if not key:
                owner = f"{kind.__name__}.{name}"
                attribute = self._in_use(kind, name, getattr(value, name))
                if self._decoded:
                    attribute = self._without_codes(owner, attribute)
                self.walk(f"{path}.{name}", attribute, owner=owner, unordered=False)

    def _in_use(self, kind: type, name: str, attribute: Any) -> Any:
        """Return an array by slots without its spare capacity, and columns without empty ones."""
        if kind is NodeColumns and name in ("_allocatable", "_requested"):
            return {code: column for code, column in enumerate(attribute) if _numbers(column)}
        if isinstance(attribute, np.ndarray) and kind in (PodTable, PodIndex):
            return attribute[: self._cluster.pods.size]
        if isinstance(attribute, np.ndarray) and kind is VolumeUse:
            return np.flatnonzero(attribute)
        if isinstance(attribute, dict) and kind is PodIndex:
            return {key: self._in_use(kind, name, of) for key, of in attribute.items()}
        return attribute

    def _without_codes(self, owner: str, attribute: Any) -> Any:
        """Return an attribute with what interned codes stand for, if it has such codes."""
        cluster = self._cluster
        index = cluster.pods.pod_index
        match owner:
            case "PodTable._footprint":
                return _keys(cluster.footprints._pool, attribute)
            case "PodIndex._codes":
                labels, carried = attribute[LABELS], attribute[CARRIED]
                return [_keys(index.label_sets, labels), _keys(index.carried, carried)]
            case "PodTable._protection":
                return []  # see `protections`
            case _:
                return attribute

    def _walk_footprints(self, path: str, value: PodFootprints) -> None:
        """Add what is known of footprints that pods have."""
        pool = value._pool
        self.found[path] = self._interned(pool)
        live = [code for code, count in enumerate(pool._references) if count]
        amounts = {
            resource: {self._name(pool, code): column[code] for code in live if column[code]}
            for resource, column in value._amounts.items()
        }
        self.found[f"{path}.amounts"] = {key: of for key, of in amounts.items() if of}
        ports = {self._name(pool, code) for code in live if value._has_ports[code]}
        self.found[f"{path}.ports"] = ports

    def _interned(self, pool: RefcountedInterner[Any]) -> dict[Any, Any]:
        """Return the values with references.

        Those without are kept for the next pod that has one. The epoch and the serial number only
        grow, and further attributes of a subclass are about all values.
        """
        return {
            self._name(pool, code): (pool.key(code), repr(pool.values[code]), count)
            for code, count in enumerate(pool._references)
            if count
        }

    def _name(self, pool: RefcountedInterner[Any], code: int) -> Any:
        return pool.key(code) if self._decoded else code


def _attributes(value: Any) -> list[str]:
    names = set(getattr(value, "__dict__", ()))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names |= {slots} if isinstance(slots, str) else set(slots)
    return sorted(name for name in names - {"__weakref__", "__dict__"} if hasattr(value, name))


def _keys(pool: RefcountedInterner[Any], codes: Any) -> list[bytes]:
    return [pool.key(code) if code > 0 else b"" for code in codes.tolist()]


def _numbers(column: IntColumn) -> dict[int, int]:
    """Return the numbers that are not 0: a column is kept in either of two forms."""
    size = 0 if column._dense is None else column._dense.shape[0]
    rows = {*column._sparse, *range(size)}
    return {row: column[row] for row in sorted(rows) if column[row]}
