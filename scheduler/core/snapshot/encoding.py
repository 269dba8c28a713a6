"""A copy of a machine as lines of JSON, and back into a fresh machine.

Lines of the cluster come first, then the fields of the state, and before those the records and
values in them, each with a number by which later lines refer to it. Inside of records and fields,
numbers, texts, `true`, `false` and `null` stand for themselves, and anything else is a list that
begins with a tag:

    ["d", key, value, ...] a dictionary      ["l", ...] a list       ["t", ...] a tuple
    ["c", key, value, ...] a counter         ["s", ...] a set        ["z", ...] a frozen set
    ["q", ...] a deque                       ["b", base64] bytes     ["e", kind, value] an enum
    ["f", text] a number that JSON lacks     ["@", number] a record or value

Only classes of the state are made (`walk.CLASSES`), and fields have their declared types, so a
recording of unknown origin can do no harm.
"""

import base64
import functools
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Any, Final, get_args

import msgspec
from msgspec.structs import replace

from scheduler.core.eviction.plan import PreemptionPlan
from scheduler.core.machine import Machine
from scheduler.core.snapshot.copying import UNCHANGED, ClusterCopy, MachineCopy
from scheduler.core.snapshot.walk import CLASSES, RECORDS, declared, hints, owned_fields
from scheduler.model.api.devices import DeviceClass, DeviceObject
from scheduler.model.api.objects import Node, NodeMeta, Pod, PodDisruptionBudget, Workload
from scheduler.model.api.shared_parts import SharedParts
from scheduler.model.api.storage import Storage
from scheduler.model.classified_pod import ClassifiedPod

__all__ = ["END", "SnapshotError", "encoded", "restore"]

#: How many items of a container one line has at most.
_AT_ONCE: Final = 256
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
        Node, PodDisruptionBudget, DeviceClass,
        *get_args(Workload), *get_args(Storage), *get_args(DeviceObject),
    )
}  # fmt: skip
_ENUMS: Final = {name: kind for name, kind in CLASSES.items() if issubclass(kind, Enum)}
_SCALARS: Final[Mapping[str, Callable[..., Any]]] = {
    "b": functools.partial(base64.b64decode, validate=True),
    "e": lambda name, value: _ENUMS[name](value),
    "f": float,
}
_encode = msgspec.json.Encoder().encode


class SnapshotError(ValueError):
    """Lines that are no snapshot of a machine of this version."""


def encoded(copy: MachineCopy) -> Iterator[bytes]:
    """Yield a copy as lines, each without its newline."""
    yield from _encoded_cluster(copy.cluster)
    yield from _Encoder(copy).lines()
    yield _encode([END])


def _encoded_cluster(copy: ClusterCopy) -> Iterator[bytes]:
    yield _encode(["rows", copy.names])
    for item in copy.objects:
        yield _encode(["object", type(item).__name__, item])
    for row, slots in copy.on_row:
        yield _encode(["pods", copy.names[row], [copy.pods[slot] for slot in slots]])
    for pod, node in copy.nominations:
        yield _encode(["nominated", node, pod])
    yield _encode(["free", copy.free])


def _parts(value: Any) -> Iterator[Any]:
    """Yield a large container in parts, so that no line takes long; another value as it is."""
    kind = type(value)
    if kind not in (dict, list) or len(value) <= _AT_ONCE:
        yield value
        return
    items = iter(value.items() if kind is dict else value)
    while some := tuple(islice(items, _AT_ONCE)):
        yield kind(some)


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
        for path, value in self._copy.fields.items():
            for part in _parts(value):
                tree = self._tree(part)
                yield from self._take()
                yield _encode(["field", path, tree])

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
        if issubclass(kind, Enum):
            return ["e", kind.__name__, value.value]
        return self._reference(value)

    def _reference(self, value: Any) -> list[Any]:
        number = self._numbers.get(id(value))
        if number is None:
            kind = type(value)
            if kind in RECORDS:
                _, fields = self._copy.records[id(value)]
                line: list[Any] = ["record", kind.__name__, [*map(self._tree, fields)]]
            else:
                line = ["value", kind.__name__, value.pod if kind is ClassifiedPod else value]
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
        self._cluster = machine.cluster
        self._preemptions = machine.preemptions
        self._logs = machine.preemptions.facts.change_logs()
        self._parts = SharedParts()
        self._values: list[Any] = []
        self._ledger = machine.ledger
        #: The fields of the state, by path: the object that has it, and its name.
        self._fields = {path: (owner, name) for path, owner, name in owned_fields(machine.state)}
        self._missing = set(self._fields)
        self.complete = False
        cluster = machine.cluster
        self._writers: dict[type[Any], Callable[[Any], object]] = {
            Node: cluster.write_node,
            PodDisruptionBudget: cluster.write_pdb,
            DeviceClass: cluster.write_device_class,
            **dict.fromkeys(get_args(Workload), cluster.workloads.write),
            **dict.fromkeys(get_args(Storage), cluster.volumes.write),
            **dict.fromkeys(get_args(DeviceObject), cluster.devices.write),
        }
        self._takers: dict[str, Callable[..., None]] = {
            "rows": self._rows,
            "object": self._object,
            "pods": self._pods,
            "nominated": self._nominated,
            "free": self._free,
            "value": self._new_value,
            "record": self._record,
            "field": self._field,
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

    def _new_value(self, name: bytes, raw: bytes) -> None:
        kind = CLASSES[msgspec.json.decode(name, type=str)]
        if kind is ClassifiedPod:
            pod = self._parts.pod(msgspec.json.decode(raw, type=Pod))
            self._values.append(ClassifiedPod(pod))
            return
        self._values.append(msgspec.json.decode(raw, type=kind))

    def _at_logs(self, plan: PreemptionPlan) -> PreemptionPlan:
        """Return a plan with positions in the change logs of this machine."""
        placements = []
        for each in plan.placements:
            noted = each.log_positions
            logs = zip(self._logs, noted, strict=bool(noted))
            positions = (log.position if note == UNCHANGED else -1 for log, note in logs)
            placements.append(replace(each, log_positions=tuple(positions)))
        return replace(plan, placements=tuple(placements))

    def _rows(self, names: bytes) -> None:
        for row, name in enumerate(msgspec.json.decode(names, type=list[str])):
            self._cluster.columns.ensure(name or _placeholder(row))

    def _free(self, rows: bytes) -> None:
        for row in msgspec.json.decode(rows, type=tuple[int, ...]):
            name = _placeholder(row)
            self._cluster.write_node(Node(NodeMeta(name=name)))
            self._cluster.erase_node(name)

    def _object(self, name: bytes, raw: bytes) -> None:
        item = msgspec.json.decode(raw, type=_OBJECTS[msgspec.json.decode(name, type=str)])
        self._writers[type(item)](item)

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
        name, trees = map(msgspec.json.decode, raw)
        kind = CLASSES[name]
        values = {
            field: _checked(self._value(tree), declared(hints(kind)[field]), f"{name}.{field}")
            for field, tree in zip(RECORDS[kind], trees, strict=True)
        }
        self._values.append(kind(**values))

    def _field(self, *raw: bytes) -> None:
        path, tree = map(msgspec.json.decode, raw)
        owner, name = self._fields[path]
        value = _checked(self._value(tree), declared(hints(type(owner))[name]), path)
        # Others may refer to the container of the fresh machine, so that one gets the content.
        match getattr(owner, name):
            case dict() | set() as known:
                known.update(value)
            case list() | deque() as known:
                known.extend(value)
            case _:
                setattr(owner, name, value)
        self._missing.discard(path)

    def _finish(self) -> None:
        if self._missing:
            raise SnapshotError(f"the snapshot lacks {min(self._missing)}")
        self._ledger.build_indices()
        self._preemptions.devices.keep_all(self._preemptions.state)
        # Only now, as devices that are kept are changes of their rows.
        plans = self._preemptions.state.plans
        plans.update({number: self._at_logs(plan) for number, plan in plans.items()})
        self.complete = True


def _checked(value: Any, types: tuple[type[Any], ...], where: str) -> Any:
    """Return the value of a field that may have some types.

    Raises:
        SnapshotError: It has another one.
    """
    if type(value) not in types:
        raise SnapshotError(f"{where} is a {type(value).__name__}")
    if isinstance(value, float) and math.isnan(value):
        raise SnapshotError(f"{where} is not a number")
    return value


def _placeholder(row: int) -> str:
    """Return a name for a free row, which no node has."""
    return f"\0free {row}"
