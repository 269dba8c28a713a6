"""A copy of a machine as lines of JSON, and back into a fresh machine.

Lines of the cluster come first, then records and values, each with a number by which later lines
refer to it, then the attributes of the machine. Inside of records and attributes, numbers, texts,
`true`, `false` and `null` stand for themselves, and anything else is a list that begins with a tag:

    ["d", key, value, ...] a dictionary      ["l", ...] a list       ["t", ...] a tuple
    ["c", key, value, ...] a counter         ["s", ...] a set        ["z", ...] a frozen set
    ["q", ...] a deque                       ["b", base64] bytes     ["e", kind, value] an enum
    ["f", text] a number that JSON lacks     ["@", number] a record or value

Only the classes that `parts` lists are made, and attributes have the types that they have in a
machine, so a recording of unknown origin can do no harm.
"""

import base64
import functools
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import force_setattr

from scheduler.core.eviction.plan import Placement
from scheduler.core.machine import Machine
from scheduler.core.snapshot.copying import ClusterCopy, MachineCopy
from scheduler.core.snapshot.parts import ENUMS, PARTS, RECORDS, VALUES, fields_of, part
from scheduler.model.api.devices import DeviceClass, DeviceObject
from scheduler.model.api.objects import (
    LocalObject,
    Node,
    NodeMeta,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    Workload,
)
from scheduler.model.api.shared_parts import SharedParts
from scheduler.model.api.storage import Storage
from scheduler.model.base import Record
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.policies import PreemptionPolicy
from scheduler.queue.queued_pod import QueuedPod
from scheduler.state.preemption.event_times import EventTimes

__all__ = ["END", "SnapshotError", "encoded", "restore"]

#: The last line of a snapshot.
END: Final = "end of snapshot"

_PLAIN: Final = frozenset({bool, int, str, type(None)})
_SEQUENCES: Final[Mapping[type, str]] = {
    list: "l",
    tuple: "t",
    set: "s",
    frozenset: "z",
    deque: "q",
}
_MAKERS: Final[Mapping[str, Callable[[Iterable[Any]], Any]]] = {
    tag: kind for kind, tag in _SEQUENCES.items()
}
_OBJECTS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        Node, LocalObject, PodDisruptionBudget, PreemptionPolicy, DeviceClass,
        *get_args(Workload), *get_args(Storage), *get_args(DeviceObject),
    )
}  # fmt: skip
_SCALARS: Final[Mapping[str, Callable[..., Any]]] = {
    "b": functools.partial(base64.b64decode, validate=True),
    "e": lambda name, value: ENUMS[name](value),
    "f": float,
}
_FIELDS: Final = {name: fields_of(kind) for name, kind in RECORDS.items()}
#: Of records whose class does not declare the types of its attributes.
_SAMPLES: Final[dict[type[Any], Any]] = {
    QueuedPod: QueuedPod(ClassifiedPod(Pod(ObjectMeta())), 0.0, 0),
    EventTimes: EventTimes(),
}
_encode = msgspec.json.Encoder().encode


def _declared(hint: Any) -> tuple[type[Any], ...]:
    """Return the types of a declaration, without what they contain."""
    if isinstance(hint, UnionType):
        return tuple(kind for each in get_args(hint) for kind in _declared(each))
    kind = get_origin(hint) or hint
    return (float, int) if kind is float else (kind,)


def _found(value: Any) -> tuple[type[Any], ...]:
    """Return the types that may take the place of a value; none for `None`, as any may."""
    return () if value is None else _declared(type(value))


def _types(kind: type[Any]) -> dict[str, tuple[type[Any], ...]]:
    """Return the types of the attributes of a record."""
    if kind in _SAMPLES:
        return {name: _found(getattr(_SAMPLES[kind], name)) for name in fields_of(kind)}
    return {name: _declared(hint) for name, hint in get_type_hints(kind).items()}


_TYPES: Final = {name: _types(kind) for name, kind in RECORDS.items()}


class SnapshotError(ValueError):
    """Lines that are no snapshot of a machine of this version."""


def encoded(copy: MachineCopy) -> Iterator[bytes]:
    """Yield a copy as lines, each without its newline."""
    yield from _encoded_cluster(copy.cluster)
    yield from _Encoder(copy).lines()
    yield _encode([END])


def _encoded_cluster(copy: ClusterCopy) -> Iterator[bytes]:
    yield _encode(["rows", copy.names, copy.free])
    groups = (
        copy.namespaces, copy.pdbs, copy.policies, copy.device_classes, copy.devices,
        copy.storage, filter(None, copy.nodes), copy.workloads,
    )  # fmt: skip
    for group in groups:
        for item in group:
            yield _encode(["object", type(item).__name__, item])
    for row, slots in copy.on_row:
        yield _encode(["pods", copy.names[row], [copy.pods[slot] for slot in slots]])
    for pod, node in copy.nominations:
        yield _encode(["nominated", node, pod])


class _Encoder:
    """Encodes records and values once each, before the line that refers to them."""

    def __init__(self, copy: MachineCopy) -> None:
        self._copy = copy
        self._numbers: dict[int, int] = {}
        #: What has a number stays alive, so that no other value gets its identity.
        self._numbered: list[Any] = []
        self._lines: list[bytes] = []

    def lines(self) -> Iterator[bytes]:
        for record, _ in self._copy.records.values():
            self._reference(record)
            yield from self._take()
        for path, name, value in self._copy.parts:
            tree = self._tree(value)
            yield from self._take()
            yield _encode(["part", path, name, tree])

    def _take(self) -> list[bytes]:
        lines, self._lines = self._lines, []
        return lines

    def _tree(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN or (kind is float and math.isfinite(value)):
            return value
        if kind in _SEQUENCES:
            items = map(self._tree, value)
            # Equal states have equal snapshots, whatever the order of their sets.
            ordered = sorted(items, key=repr) if kind in (set, frozenset) else items
            return [_SEQUENCES[kind], *ordered]
        if kind in (dict, Counter):
            flat = (self._tree(part) for item in value.items() for part in item)
            return ["c" if kind is Counter else "d", *flat]
        if kind in (bytes, float):
            text = base64.b64encode(value).decode() if kind is bytes else str(value)
            return ["b" if kind is bytes else "f", text]
        if kind.__name__ in ENUMS:
            return ["e", kind.__name__, value.value]
        return self._reference(value)

    def _reference(self, value: Any) -> list[Any]:
        number = self._numbers.get(id(value))
        if number is None:
            name = type(value).__name__
            line: list[Any]
            if isinstance(value, ClassifiedPod):
                line = ["classified", self._reference(value.pod)]
            elif name in RECORDS:
                _, fields = self._copy.records[id(value)]
                changed = self._copy.changed_since.get(id(value))
                line = ["record", name, [*map(self._tree, fields)], changed]
            else:
                line = ["value", name, value]
            number = self._numbers[id(value)] = len(self._numbered)
            self._numbered.append(value)
            self._lines.append(_encode(line))
        return ["@", number]


def restore(machine: Machine, lines: Iterable[bytes]) -> None:
    """Bring a fresh machine into the state of a snapshot.

    Args:
        machine: Knows no object yet; its profiles may differ from those of the recorded one.
        lines: From the first to the last line of the snapshot.

    Raises:
        SnapshotError: A line cannot be read, or the last one is missing.
    """
    restorer = _Restorer(machine)
    for line in lines:
        try:
            restorer.line(line)
        except SnapshotError:
            raise
        except Exception as error:
            # Any line of a damaged or forged file: what it breaks cannot be told beforehand.
            raise SnapshotError(f"not a snapshot of this version: {error!r}") from error
        if restorer.complete:
            return
    raise SnapshotError("the snapshot is incomplete")


class _Restorer:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._cluster = machine.cluster
        self._parts = SharedParts()
        self._values: list[Any] = []
        self._free: tuple[int, ...] = ()
        #: The placements whose positions in the change logs are set at the end.
        self._placements: list[tuple[Placement, tuple[bool, ...]]] = []
        self._missing = {(path, name) for path, names in PARTS for name in names}
        self.complete = False
        self._takers: dict[str, Callable[..., None]] = {
            "rows": self._rows,
            "object": self._object,
            "pods": self._pods,
            "nominated": self._nominated,
            "classified": self._classified,
            "value": self._new_value,
            "record": self._record,
            "part": self._part,
            END: self._finish,
        }

    def line(self, line: bytes) -> None:
        """Take one line."""
        kind, *raw = msgspec.json.decode(line, type=list[msgspec.Raw])
        self._takers[msgspec.json.decode(kind, type=str)](*raw)

    def _pods(self, node: bytes, pods: bytes) -> None:
        name = msgspec.json.decode(node, type=str)
        for pod in msgspec.json.decode(pods, type=list[Pod]):
            self._cluster.place(self._parts.pod(pod), name)

    def _nominated(self, node: bytes, pod: bytes) -> None:
        name = msgspec.json.decode(node, type=str)
        self._cluster.nominate(msgspec.json.decode(pod, type=Pod), name)

    def _classified(self, pod: bytes) -> None:
        self._values.append(ClassifiedPod(self._value(msgspec.json.decode(pod))))

    def _new_value(self, name: bytes, raw: bytes) -> None:
        kind = VALUES[msgspec.json.decode(name, type=str)]
        self._values.append(msgspec.json.decode(raw, type=kind))

    def _rows(self, names: bytes, free: bytes) -> None:
        columns = self._cluster.columns
        for row, name in enumerate(msgspec.json.decode(names, type=list[str])):
            columns.ensure(name or _placeholder(row))
        self._free = msgspec.json.decode(free, type=tuple[int, ...])

    def _object(self, name: bytes, raw: bytes) -> None:
        item = msgspec.json.decode(raw, type=_OBJECTS[msgspec.json.decode(name, type=str)])
        cluster = self._cluster
        match item:
            case Node():
                cluster.write_node(item)
            case LocalObject():
                cluster.write_namespace(item)
            case PodDisruptionBudget():
                cluster.write_pdb(item)
            case PreemptionPolicy():
                cluster.policies.write(item)
            case DeviceClass():
                cluster.write_device_class(item)
            case _ if isinstance(item, get_args(Storage)):
                cluster.volumes.write(item)
            case _ if isinstance(item, get_args(DeviceObject)):
                cluster.devices.write(item)
            case _:
                cluster.workloads.write(item)

    def _value(self, tree: Any) -> Any:
        if not isinstance(tree, list):
            return tree
        tag, *items = tree
        if tag in _MAKERS:
            return _MAKERS[tag](map(self._value, items))
        match tag:
            case "d" | "c":
                values = iter(map(self._value, items))
                pairs = dict(zip(values, values, strict=True))
                return pairs if tag == "d" else Counter(pairs)
            case "@" if items[0] >= 0:
                return self._values[items[0]]
            case _:
                return _SCALARS[tag](*items)

    def _record(self, *raw: bytes) -> None:
        name, fields, changed = map(msgspec.json.decode, raw)
        kind = RECORDS[name]
        values = {
            field: _checked(self._value(tree), _TYPES[name][field], name, field)
            for field, tree in zip(_FIELDS[name], fields, strict=True)
        }
        if issubclass(kind, Record):
            record: Any = kind(**values)
        else:
            record = object.__new__(kind)
            for field, value in values.items():
                object.__setattr__(record, field, value)
        if kind is QueuedPod:
            record.history = deque(maxlen=16)
        if isinstance(record, Placement):
            self._placements.append((record, tuple(changed or ())))
        self._values.append(record)

    def _part(self, *raw: bytes) -> None:
        path, name, tree = map(msgspec.json.decode, raw)
        self._missing.remove((path, name))
        owner = part(self._machine, path)
        types = _found(getattr(owner, name))
        setattr(owner, name, _checked(self._value(tree), types, path, name))

    def _finish(self) -> None:
        if self._missing:
            raise SnapshotError(f"the snapshot lacks {min(self._missing)}")
        for row in self._free:
            name = _placeholder(row)
            self._cluster.write_node(Node(NodeMeta(name=name)))
            self._cluster.erase_node(name)
        logs = self._machine.preemptions.facts.change_logs()
        for placement, changed in self._placements:
            positions = (
                -1 if has_changed else log.position
                for log, has_changed in (zip(logs, changed, strict=True) if changed else ())
            )
            force_setattr(placement, "log_positions", tuple(positions))
        self.complete = True


def _checked(value: Any, types: tuple[type[Any], ...], owner: str, name: str) -> Any:
    """Return the value of an attribute that may have some types; with none, any.

    Raises:
        SnapshotError: It has another one.
    """
    if types and type(value) not in types:
        raise SnapshotError(f"{owner}.{name} is a {type(value).__name__}")
    if isinstance(value, float) and math.isnan(value):
        raise SnapshotError(f"{owner}.{name} is not a number")
    return value


def _placeholder(row: int) -> str:
    """Return a name for a free row, which no node has."""
    return f"\0free {row}"
