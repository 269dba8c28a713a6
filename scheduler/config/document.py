"""Parses a configuration file into a tree of plain values with line numbers, and writes it.

This is the first stage of reading, before `codecs`. A text that begins with `{` is JSON, any other
text is YAML. The YAML dialect is that of Kubernetes: scalars resolve as in YAML 1.1 with Go's
numbers (`yes` is true, `0o17` and `010` are octal, `1_000` is a number, dates stay strings), tabs
may separate tokens, and only the first document counts. A duplicate key is an error, in plain
mappings as well as through `<<`.

Source: sigs.k8s.io/yaml v1.6.0 YAMLToJSONStrict; go.yaml.in/yaml/v2 v2.4.3 resolve.
Differs: dates with an explicit tag are strings.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import yaml

from scheduler.config import yaml_scalars
from scheduler.config.field_errors import ErrorReport, child

__all__ = ["Json", "Mapping", "Scalar", "Sequence", "Tree", "plain", "read", "write"]

#: A JSON value.
Json = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

#: The maximum number of values after aliases are expanded; a larger document is an attack.
_MAX_VALUES: Final = 100_000


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf; `None` is null."""

    value: yaml_scalars.ScalarValue
    line: int | None


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: "tuple[Tree, ...]"
    line: int | None


@dataclass(frozen=True, slots=True)
class Mapping:
    """An object, keys in file order; of a duplicate key only the first entry is kept."""

    entries: "dict[str, Tree]"
    line: int | None
    #: Line of each key.
    lines: dict[str, int | None]


Tree = Scalar | Sequence | Mapping


def read(text: str, report: ErrorReport) -> Tree:
    """Return the tree of a text; duplicate keys are reported.

    Raises:
        UnreadableConfigError: The text is neither YAML nor JSON.
    """
    try:
        return _json(text, report) if text.lstrip().startswith("{") else _yaml(text, report)
    except RecursionError:
        report.unreadable(None, "nested too deeply")


def plain(tree: Tree) -> Json:
    """Return the tree as plain JSON values."""
    match tree:
        case Scalar(value=value):
            return value
        case Sequence(items=items):
            return [plain(item) for item in items]
        case Mapping(entries=entries):
            return {key: plain(entry) for key, entry in entries.items()}


def write(value: Json) -> str:
    """Return YAML that `read` parses to the same value; ambiguous strings are quoted."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Quotes strings that the dialect of `read` would resolve otherwise; writes no aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 (none of them)
        return True

    def text(self, value: str) -> yaml.ScalarNode:
        """Return the node of a string."""
        style = None if yaml_scalars.is_text(value) else "'"
        return self.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _Dumper.text)


# --- JSON: strict, without lines --------------------------------------------------------------


def _json(text: str, report: ErrorReport) -> Tree:
    try:
        parsed = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        report.unreadable(error.lineno, f"not JSON: {error.msg} at column {error.colno}")
    except ValueError as error:
        report.unreadable(None, f"not JSON: {error}")
    return _from_json(parsed, "", report)


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, including duplicates."""


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is not a number"
    raise ValueError(msg)


def _from_json(value: Any, path: str, report: ErrorReport) -> Tree:
    if isinstance(value, _Pairs):
        entries: dict[str, Tree] = {}
        for key, member in value:
            below = child(path, key)
            tree = _from_json(member, below, report)
            if entries.setdefault(key, tree) is not tree:
                report.say(below, f'duplicate field "{key}"')
        return Mapping(entries, None, dict.fromkeys(entries))
    if isinstance(value, list):
        items = (_from_json(item, f"{path}[{i}]", report) for i, item in enumerate(value))
        return Sequence(tuple(items), None)
    return Scalar(value, None)


# --- YAML -------------------------------------------------------------------------------------

_PLAIN: Final = "plain"
_MERGE: Final = "<<"


class _Loader(yaml.BaseLoader):
    """Composes nodes; an untagged plain scalar gets the tag `plain` and is resolved later."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            return _PLAIN
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]

    def scan_to_next_token(self) -> None:
        """Skip blanks; unlike the base class it accepts tabs that cannot be indentation."""
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()


def _yaml(text: str, report: ErrorReport) -> Tree:
    try:
        loader = _Loader(text)
        root = loader.get_node() if loader.check_node() else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = (mark.line + 1, f" at column {mark.column + 1}") if mark else (None, "")
        report.unreadable(where[0], f"not YAML: {error.problem or error.context}{where[1]}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        report.unreadable(line, f"not YAML: {error.reason}")
    if root is None:
        return Scalar(None, 1)
    return _Unfolding(report).tree(root, "")


class _Unfolding:
    """Converts nodes to trees; expands aliases and merges."""

    def __init__(self, report: ErrorReport) -> None:
        self._report = report
        self._values = 0
        self._open: set[int] = set()

    def tree(self, node: yaml.Node, path: str) -> Tree:
        """Return the tree of the node at `path`."""
        line = _line(node)
        self._enter(node, line)
        try:
            if isinstance(node, yaml.ScalarNode):
                return self._scalar(node, line)
            if isinstance(node, yaml.SequenceNode):
                items = (self.tree(item, f"{path}[{i}]") for i, item in enumerate(node.value))
                return Sequence(tuple(items), line)
            return self._mapping(node, path, line)
        finally:
            self._open.discard(id(node))

    def _enter(self, node: yaml.Node, line: int) -> None:
        self._values += 1
        if self._values > _MAX_VALUES:
            self._report.unreadable(line, "document contains excessive aliasing")
        if id(node) in self._open:
            self._report.unreadable(line, "an anchor contains itself")
        self._open.add(id(node))

    def _scalar(self, node: yaml.ScalarNode, line: int) -> Scalar:
        try:
            if node.tag == _PLAIN:
                return Scalar(yaml_scalars.plain(node.value), line)
            return Scalar(yaml_scalars.tagged(node.tag, node.value), line)
        except yaml_scalars.ScalarError as error:
            self._report.unreadable(line, f"not YAML: {error}")

    def _mapping(self, node: yaml.Node, path: str, line: int) -> Mapping:
        entries: dict[str, Tree] = {}
        lines: dict[str, int | None] = {}
        for key_node, value_node in self._pairs(node):
            key = self._key(key_node)
            below = child(path, key)
            tree = self.tree(value_node, below)
            if entries.setdefault(key, tree) is tree:
                lines[key] = _line(key_node)
            else:
                first = lines[key]
                self._report.locate(below, _line(key_node))
                self._report.say(below, f'duplicate field "{key}", first set on line {first}')
        return Mapping(entries, line, lines)

    def _pairs(self, node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        for key, value in node.value:
            if key.tag == _PLAIN and key.value == _MERGE:
                yield from self._merged(value)
            else:
                yield key, value

    def _merged(self, node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            self._enter(source, _line(node))
            if not isinstance(source, yaml.MappingNode):
                wanted = "map merge requires map or sequence of maps as the value"
                self._report.unreadable(_line(node), f"not YAML: {wanted}")
            yield from self._pairs(source)
            self._open.discard(id(source))

    def _key(self, node: yaml.Node) -> str:
        value = self._scalar(node, _line(node)).value if isinstance(node, yaml.ScalarNode) else None
        if value is None:
            self._report.unreadable(_line(node), "not YAML: a key must be a plain value")
        return value if isinstance(value, str) else json.dumps(value)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
