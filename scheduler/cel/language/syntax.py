"""The syntax tree, macros expanded.

Each node knows where it stands in the text, and how deep the tree below it is. The checker
(`scheduler.cel.language.checker`) writes the static type of each node.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from scheduler.cel.language.types import DYN, Type
from scheduler.cel.library.overloads import Overload
from scheduler.cel.values import Value

__all__ = [
    "BoundVariable",
    "Call",
    "Expr",
    "Fold",
    "Ident",
    "ListLiteral",
    "Literal",
    "MapEntry",
    "MapLiteral",
    "Select",
    "children",
]


@dataclass(eq=False, kw_only=True)
class Expr:
    """A node of the tree.

    Attributes:
        position: offset in the text, for messages.
        height: levels that count for the recursion limit of upstream's parser.
        depth: levels of nodes.
        type: static type, set by the checker.
    """

    position: int
    height: int = 0
    depth: int = 1
    type: Type = DYN


@dataclass(eq=False)
class Literal(Expr):
    """A constant."""

    value: Value


@dataclass(eq=False)
class Ident(Expr):
    """A name; with a leading dot where it was written so."""

    name: str


@dataclass(eq=False)
class Select(Expr):
    """`operand.field`; as the argument of `has` only whether it is there; `.?` is optional.

    `named` is the qualified name that it is, as far as it is one, set by the checker.
    """

    operand: Expr
    field: str
    test: bool = False
    optional: bool = False
    named: str = ""


@dataclass(eq=False)
class Call(Expr):
    """A function or operator; the target of a method is None for a function.

    `overloads` are those that the values may fit, set by the checker: the only one that fits the
    static types, or else all that there are, as upstream tries all of them then.
    """

    function: str
    target: Expr | None
    arguments: tuple[Expr, ...]
    overloads: tuple[Overload, ...] = ()


@dataclass(eq=False)
class ListLiteral(Expr):
    """`[a, ?b]`; `optional` has the indices of elements with a question mark."""

    elements: tuple[Expr, ...]
    optional: frozenset[int] = frozenset()


@dataclass(eq=False)
class MapEntry:
    """An entry of a map; with a question mark the value is optional."""

    key: Expr
    value: Expr
    optional: bool


@dataclass(eq=False)
class MapLiteral(Expr):
    """`{a: b}`."""

    entries: tuple[MapEntry, ...]


@dataclass(eq=False)
class Fold(Expr):
    """A comprehension over a list or map.

    Attributes:
        kind: "all", "exists", "exists_one", "map" (also for `filter` and `transformList`),
            "transformMap", "transformMapEntry".
        target: what is iterated.
        names: one or two variables.
        condition: only elements for which it is true are transformed; None for all.
        body: the predicate or the transformation.
    """

    kind: str
    target: Expr
    names: tuple[str, ...]
    condition: Expr | None
    body: Expr


@dataclass(eq=False)
class BoundVariable(Expr):
    """A variable in a body.

    Attributes:
        kind: "bind", evaluated when the body needs it; "optMap" and "optFlatMap", where the body is
            evaluated with what the optional holds; "sortBy", where the body gives the keys.
        name: the variable.
        value: its value.
        body: where it is visible.
        any_key: of "sortBy": whether the type of the keys is dyn, set by the checker.
    """

    kind: str
    name: str
    value: Expr
    body: Expr
    any_key: bool = False


def children(node: Expr) -> Iterator[Expr]:  # noqa: C901 - one case for each kind of node
    """Yield the nodes directly below a node."""
    match node:
        case Select():
            yield node.operand
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.arguments
        case ListLiteral():
            yield from node.elements
        case MapLiteral():
            for entry in node.entries:
                yield entry.key
                yield entry.value
        case Fold():
            yield node.target
            if node.condition is not None:
                yield node.condition
            yield node.body
        case BoundVariable():
            yield node.value
            yield node.body
        case _:
            pass
