"""Static types, how they are written in declarations, and how they are shown."""

import re
from dataclasses import dataclass, field
from typing import Final

__all__ = [
    "ANY",
    "BOOL",
    "DYN",
    "ERROR",
    "INT",
    "STRING",
    "Type",
    "is_dyn",
    "list_of",
    "map_of",
    "optional_of",
    "parse_types",
    "shown",
]


@dataclass(frozen=True, slots=True)
class Type:
    """A type.

    Attributes:
        name: as `type_name` of its values: "int", "list", "optional_type", "kubernetes.Quantity".
            "dyn", "any", "error" and "type" are as in the language; the names of variables of the
            type checker begin with an upper-case letter or "_".
        parameters: of list, map, optional_type and type.
        ground: whether no variable is in it.
    """

    name: str
    parameters: tuple["Type", ...] = ()
    ground: bool = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Told once: types are nested deeply, and each level is asked for.
        ground = not self.variable and all(each.ground for each in self.parameters)
        object.__setattr__(self, "ground", ground)
        object.__setattr__(self, "_hash", hash((self.name, self.parameters)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def variable(self) -> bool:
        """Whether it is a variable of a declaration or of the checker."""
        return len(self.name) == 1 or self.name[0] == "_"

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


ANY: Final = Type("any")
BOOL: Final = Type("bool")
DYN: Final = Type("dyn")
ERROR: Final = Type("!error!")
INT: Final = Type("int")
STRING: Final = Type("string")

#: Short names in declarations, and in the messages of upstream's checker.
_SHORT: Final = {
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "null": "null_type",
    "optional": "optional_type",
    "quantity": "kubernetes.Quantity",
    "semver": "kubernetes.Semver",
    "url": "kubernetes.URL",
    "format": "kubernetes.NamedFormat",
    "ip": "net.IP",
    "cidr": "net.CIDR",
}
_SHOWN: Final = {
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "null_type": "null",
}
_WORD: Final = re.compile(r"\s*([A-Za-z_.]+|[(),])")


def list_of(element: Type) -> Type:
    """Return the type of lists of a type."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type of optionals of a type."""
    return Type("optional_type", (value,))


def is_dyn(of: Type) -> bool:
    """Return whether a type is known only at run time."""
    return of.name in ("dyn", "any")


def shown(of: Type) -> str:
    """Return a type as the messages of the checker show it.

    Source: cel-go v0.26.0 checker.FormatCELType.
    """
    if of.variable:
        return of.name
    name = _SHOWN.get(of.name, of.name)
    if not of.parameters:
        return name
    return f"{name}({', '.join(map(shown, of.parameters))})"


def parse_types(text: str) -> tuple[Type, ...]:
    """Return the types of a list such as "string, list(A)"; "" is none."""
    words = [match[1] for match in _WORD.finditer(text)]
    found, at = [], 0
    while at < len(words):
        one, at = _parse(words, at)
        found.append(one)
        at += 1
    return tuple(found)


def _parse(words: list[str], at: int) -> tuple[Type, int]:
    """Return one type and the index behind it."""
    name = words[at]
    name = _SHORT.get(name, name)
    at += 1
    if at >= len(words) or words[at] != "(":
        return Type(name), at
    parameters = []
    while words[at] != ")":
        one, at = _parse(words, at + 1)
        parameters.append(one)
    return Type(name, tuple(parameters)), at + 1
