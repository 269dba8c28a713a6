"""Random selectors and devices: from the signatures of all functions, mostly of the right types."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from scheduler.cel import CelDevice, Version
from scheduler.cel.device import Attribute
from scheduler.cel.language.types import Type, parse_types
from scheduler.cel.library import formats
from scheduler.cel.library.catalog import TYPES, functions
from scheduler.cel.library.overloads import Overload
from scheduler.model.releases import Reference

_T = TypeVar("_T")

#: How many functions the expressions of one seed have in turn, about.
_TURNS: Final = 80
#: The probability of a loop that may be too expensive.
_COSTLY: Final = 0.001
DRIVER: Final = "dra.example.com"
OTHER: Final = "vendor.example.org"

(BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DYN) = parse_types(
    "bool, int, uint, double, string, bytes, null, dyn"
)
#: Types that literals and functions can make.
GROUND: Final = parse_types(
    "bool, int, uint, double, string, bytes, duration, timestamp, quantity, semver, ip, cidr, url,"
    "list(int), list(string), list(bool), list(double), map(string, int), map(int, string),"
    "optional(string), optional(int), list(quantity), type, map(string, list(int)),"
    "optional(map(string, int)), list(list(int)), optional(list(string))"
)
_OPERATORS: Final = {
    "_+_": "+", "_-_": "-", "_*_": "*", "_/_": "/", "_%_": "%", "_==_": "==", "_!=_": "!=",
    "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=", "@in": "in", "_&&_": "&&", "_||_": "||",
}  # fmt: skip
_TEXTS: Final = (
    "", "a", "A100", "a100", "memory", "dra.example.com", "x y", "äß€", "1.2.3", "1.10.0-rc.1+b",
    "v1.2", "10Gi", "1500m", "0.5", "-3", "50K", "1e3", "12", "true", "10.1.2.3", "10.0.0.0/8",
    "fe80::1", "::ffff:1.2.3.4", "https://a.b:80/c?d=e&d=f#g", "/x/y", "1h30m", "-1.5s",
    "2024-02-29T12:30:45.5Z", "2024-01-01T00:00:00+02:00", "UTC", "%s", "%d-%s", "%.2f", "\\n",
    "\t\"'", "a.b.c", "123e4567-e89b-12d3-a456-426614174000", "YQ==", "2024-02-30",
    "1_000", "1us", "http://a[::1]:80/", "http://[::1]:80/", "http://a:1:2/",
)  # fmt: skip
_PATTERNS: Final = (
    "a", "^a[0-9]+$", "[0-9]+", "(a|b)*", "a*?", "(?i)A", "\\d{1,3}", "x?", "[^a]", "(", "a{2}{3}",
    "\\bA", ".", "(?:1|10|100)", "[[:alpha:]]+", "\\pL", "a|", "^", "$", "(?s).+",
)  # fmt: skip
_PER_TYPE: Final = {
    "google.protobuf.Duration": (
        'duration("1h")', 'duration("1us")', 'duration("-1.5s")', 'duration("90m")',
    ),
    "google.protobuf.Timestamp": (
        'timestamp("2024-02-29T12:30:45.5Z")', "timestamp(0)",
        'timestamp("1969-12-31T23:59:59+02:00")',
    ),
    "kubernetes.Quantity": (
        'quantity("10Gi")', 'quantity("1500m")', 'quantity("0")', 'quantity("-2k")',
        'quantity("12345678901234567890")', 'quantity("1e30")', 'quantity("0.5Ki")',
        f'device.capacity["{DRIVER}"].memory', f'device.capacity["{OTHER}"].slots',
    ),
    "kubernetes.Semver": (
        'semver("1.2.3")', 'semver("1.10.0-rc.1")', 'semver("v2", true)', 'semver("0.0.1+b")',
    ),
    "net.IP": ('ip("10.1.2.3")', 'ip("fe80::1")', 'ip("::")', 'ip("224.0.0.1")'),
    "net.CIDR": ('cidr("10.0.0.0/8")', 'cidr("fe80::/10")', 'cidr("10.1.2.3/24")'),
    "kubernetes.URL": ('url("https://a.b:80/c?d=e#g")', 'url("/x%20y")'),
    "kubernetes.NamedFormat": tuple(
        f"{each.function}()" for each in formats.OVERLOADS if str(each.result).endswith("Format")
    ),
    "null_type": ("null",),
    "type": tuple(sorted(TYPES)),
}  # fmt: skip
#: Names of variables: most are new, some hide what is global.
_NAMES: Final = ("v0", "v1", "v2", "v3", "v4")
_HIDING: Final = ("device", "int", "cel", "google", "net", "lists", "optional_type")
#: Attributes of every device, by the type of their value.
ATTRIBUTES: Final = {
    "string": ("model", "text"), "int": ("numa", "big"), "bool": ("sriov",),
    "kubernetes.Semver": ("driverVersion",),
}  # fmt: skip
#: Attributes with a list of values, which some devices have.
LISTS: Final[dict[str, tuple[str, list[Any]]]] = {
    "int": ("lanes", [1, 2, 16]), "string": ("modes", ["a", "A100"]), "bool": ("flags", [True]),
    "kubernetes.Semver": ("versions", [Version("1.2.3"), Version("2.0.0-a.1")]),
}  # fmt: skip


class Expressions:
    """Makes expressions from a generator of random numbers."""

    def __init__(self, seed: int, reference: Reference) -> None:
        self._random = np.random.default_rng(seed)
        # What only some result types and operators have would be picked too rarely otherwise.
        self._all = [each for found in functions(reference).values() for each in found]
        self._fitting: dict[Type, list[tuple[Overload, dict[Type, Type]]]] = {}
        self._turn = seed * _TURNS
        self._knows_lists = reference.selectors_know_list_attributes
        self._lists: tuple[str, ...] = ()
        self._variables: list[tuple[str, Type]] = []
        self._names = 0

    def chance(self, probability: float) -> bool:
        return bool(self._random.random() < probability)

    def pick(self, options: Sequence[_T]) -> _T:
        return options[int(self._random.integers(len(options)))]

    def cases(self, count: int) -> list[tuple[CelDevice, str]]:
        """Return devices and selectors; devices have lists mostly where these can be read."""
        lists = 0.4 if self._knows_lists else 0.02
        return [(self.device(lists=lists), self.selector()) for _ in range(count)]

    def selector(self) -> str:
        """Return an expression whose type is mostly bool."""
        self._variables = []
        if self.chance(_COSTLY):
            return self._costly()
        if self.chance(0.2):
            return self._in_turn()
        depth = int(self._random.integers(1, 5))
        return self.make(BOOL if self.chance(0.97) else self.pick(GROUND), depth)

    def _in_turn(self) -> str:
        """Return a call of the next function: what makes a rare type would be picked too rarely."""
        self._turn += 1
        call = self._written(self._all[self._turn % len(self._all)], {}, 1)
        return f"dyn({call}) == dyn({self.leaf(INT, 0)})"

    def _costly(self) -> str:
        """Return a loop whose cost is below or above the limit."""
        name = self._variable()
        count = int(10 ** self._random.uniform(3, 5))
        body = self._within([(name, INT)], BOOL, 2)
        macro = self.pick(("all", "exists", "exists_one", "filter", "map"))
        made = f"lists.range({count}).{macro}({name}, {body})"
        return f"{made}.size() > 0" if macro in ("filter", "map") else made

    def make(self, wanted: Type, depth: int) -> str:
        """Return an expression of a type, now and then of another one."""
        if self.chance(0.015):
            wanted = self.pick(GROUND)
        if depth <= 0 or self.chance(0.15):
            return self.leaf(wanted, depth)
        makers: list[tuple[float, Callable[[Type, int], str]]] = [
            (0.58, self._call), (0.12, self._conditional), (0.1, self._fold), (0.07, self._bind),
            (0.08, self._optional), (0.05, self._wrapped),
        ]  # fmt: skip
        at = self._random.random()
        for share, maker in makers:
            at -= share
            if at < 0:
                return maker(wanted, depth - 1)
        return self._call(wanted, depth - 1)

    def leaf(self, wanted: Type, depth: int) -> str:
        known = [name for name, of in self._variables if of in (wanted, DYN)]
        if known and self.chance(0.5):
            return self.pick(known)
        if self.chance(0.25):
            return self._attribute(wanted)
        return self._literal(wanted, depth)

    def _attribute(self, wanted: Type) -> str:
        names = ATTRIBUTES.get(wanted.name, ("model", "numa", "missing"))
        if self._lists and (wanted.name == "list" or self.chance(0.1)):
            names = self._lists
        name = self.pick(names) if self.chance(0.9) else self.pick(("missing", "model", "lane"))
        domain = DRIVER if self.chance(0.9) else self.pick((OTHER, "unknown"))
        roll = self._random.random()
        if wanted == BOOL and roll < 0.4:
            return self._presence(domain, name)
        if wanted == STRING and roll < 0.2:
            return "device.driver"
        root = ".device" if self.chance(0.03) else "device"
        base = f'{root}.attributes["{domain}"]'
        if roll > 0.97:
            return f"{base}.`{name}`"
        return f'{base}["{name}"]' if roll > 0.9 else f"{base}.{name}"

    def _presence(self, domain: str, name: str) -> str:
        return self.pick(
            (
                f'"{name}" in device.attributes["{domain}"]',
                f'has(device.attributes["{domain}"].{name})',
                f'device.attributes["{domain}"].?{name}.hasValue()',
                f'"{domain}" in device.attributes',
                "device.allowMultipleAllocations",
                f'device.attributes["{domain}"].size() == 2',
                f'device.capacity["{domain}"].exists(k, k == "{name}")',
            )
        )

    def _literal(self, wanted: Type, depth: int) -> str:
        number = int(self.pick((0, 1, 2, 3, -1, 7, 100, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))))
        name = wanted.name
        if name.startswith("kubernetes.authorization."):
            return "dyn(1)"
        if name in _PER_TYPE:
            return self.pick(_PER_TYPE[name])
        if name == "list":
            (of,) = wanted.parameters
            count = int(self._random.integers(0, 4))
            return f"[{', '.join(self._element(of, depth - 2) for _ in range(count))}]"
        if name == "map":
            key, value = wanted.parameters
            count = int(self._random.integers(0, 3))
            pairs = (self._entry(key, value, depth - 2) for _ in range(count))
            return "{" + ", ".join(pairs) + "}"
        if name == "optional_type":
            inner = self.make(wanted.parameters[0], depth - 1)
            of = self.pick(("optional.of", "optional.of", "optional.ofNonZeroValue"))
            return f"{of}({inner})" if self.chance(0.7) else "optional.none()"
        texts = {
            "bool": self.pick(("true", "false")),
            "int": hex(number) if number > 0 and self.chance(0.1) else str(number),
            "uint": f"{abs(number)}u",
            "double": self.pick(("0.0", "1.5", "-2.25", "1e10", "3.0", "1e300", "0.1")),
            "bytes": self.pick(('b"abc"', 'b"\\xff"', "b''", 'b"ä"')),
        }
        return texts.get(name) or self._text()

    def _text(self) -> str:
        text, roll = self.pick(_TEXTS), self._random.random()
        if roll < 0.05 and "'" not in text:
            return f"r'{text}'"
        if roll < 0.1 and '"' not in text:
            return f'r"""{text}"""'
        return _quoted(text)

    def _element(self, of: Type, depth: int) -> str:
        if self.chance(0.05):
            return f"?{self.make(Type('optional_type', (of,)), depth)}"
        return self.make(of, depth)

    def _entry(self, key: Type, value: Type, depth: int) -> str:
        if self.chance(0.05):
            held = self.make(Type("optional_type", (value,)), depth)
            return f"?{self._literal(key, 0)}: {held}"
        return f"{self._literal(key, 0)}: {self.make(value, depth)}"

    def _wrapped(self, wanted: Type, depth: int) -> str:
        inner = self.make(wanted, depth)
        return f"dyn({inner})" if self.chance(0.4) else f"({inner})"

    def _conditional(self, wanted: Type, depth: int) -> str:
        then, otherwise = self.make(wanted, depth), self.make(wanted, depth)
        return f"({self.make(BOOL, depth)} ? {then} : {otherwise})"

    def _variable(self) -> str:
        if self.chance(0.02):
            return self.pick(_HIDING)
        self._names += 1
        return _NAMES[self._names % len(_NAMES)]

    def _bind(self, wanted: Type, depth: int) -> str:
        of, name = self.pick(GROUND), self._variable()
        value = self.make(of, depth)
        return f"cel.bind({name}, {value}, {self._within([(name, of)], wanted, depth)})"

    def _within(self, variables: list[tuple[str, Type]], wanted: Type, depth: int) -> str:
        before = self._variables
        hidden = {name for name, _ in variables}
        self._variables = [each for each in before if each[0] not in hidden] + variables
        made = self.make(wanted, depth)
        self._variables = before
        return made

    def _optional(self, wanted: Type, depth: int) -> str:
        held = Type("optional_type", (wanted,))
        roll = self._random.random()
        if roll < 0.4:
            return f"{self.make(held, depth)}.orValue({self.make(wanted, depth)})"
        if roll < 0.6:
            attribute = self._attribute(wanted).replace('"].', '"].?').replace("].?.", "].?")
            return f"{attribute}.orValue({self.make(wanted, depth)})"
        if wanted.name == "optional_type":
            name, of = self._variable(), self.pick(GROUND)
            source = self.make(Type("optional_type", (of,)), depth)
            if self.chance(0.4):
                return f"{source}.optFlatMap({name}, {self._within([(name, of)], wanted, depth)})"
            body = self._within([(name, of)], wanted.parameters[0], depth)
            return f"{source}.optMap({name}, {body})"
        if roll < 0.75:
            name, of = self._field(), Type("map", (STRING, wanted))
            target = self.make(Type("optional_type", (of,)) if self.chance(0.5) else of, depth)
            return f"{target}.?{name}.orValue({self.leaf(wanted, 0)})"
        index = self.pick(("0", "1", "5", "-1"))
        return (
            f"{self.make(Type('list', (wanted,)), depth)}[?{index}].orValue({self.leaf(wanted, 0)})"
        )

    def _field(self) -> str:
        """Return the name of a field, now and then in quotes."""
        return self.pick(("a", "memory", "A100", "`a.b.c`", "`x y`"))

    def _source(self, of: Type, depth: int) -> str:
        """Return what can be iterated: mostly a list."""
        if self.chance(0.85):
            return self.make(Type("list", (of,)), depth)
        if self.chance(0.5):
            return self.pick(("device.attributes", f'device.capacity["{DRIVER}"]'))
        return self._attribute(of)

    def _fold(self, wanted: Type, depth: int) -> str:
        name, other, of = self._variable(), self._variable(), self.pick(GROUND)
        target = self._source(of, depth)
        if wanted == BOOL:
            macro = self.pick(("all", "exists", "exists_one"))
            if self.chance(0.3):
                macro = "existsOne" if macro == "exists_one" and self.chance(0.5) else macro
                body = self._within([(name, INT), (other, of)], BOOL, depth)
                return f"{target}.{macro}({name}, {other}, {body})"
            return f"{target}.{macro}({name}, {self._within([(name, of)], BOOL, depth)})"
        if wanted.name == "list":
            return self._list_fold(wanted, target, name, of, depth)
        if wanted.name == "map":
            return self._map_fold(wanted, target, [(name, INT), (other, of)], depth)
        return self._call(wanted, depth)

    def _map_fold(
        self, wanted: Type, target: str, variables: list[tuple[str, Type]], depth: int
    ) -> str:
        names = ", ".join(name for name, _ in variables)
        if self.chance(0.3):
            names += f", {self._within(variables, BOOL, depth)}"
        if wanted.parameters[0] == INT:
            body = self._within(variables, wanted.parameters[1], depth)
            return f"{target}.transformMap({names}, {body})"
        return f"{target}.transformMapEntry({names}, {self._within(variables, wanted, depth)})"

    def _list_fold(self, wanted: Type, target: str, name: str, of: Type, depth: int) -> str:
        roll = self._random.random()
        if roll < 0.3:
            condition = self._within([(name, wanted.parameters[0])], BOOL, depth)
            return f"{self.make(wanted, depth)}.filter({name}, {condition})"
        if roll < 0.45:
            key = self._within([(name, wanted.parameters[0])], INT, depth)
            return f"{self.make(wanted, depth)}.sortBy({name}, {key})"
        if roll < 0.65:
            other = self._variable()
            variables = [(other, INT), (name, of)]
            names = f"{other}, {name}"
            if self.chance(0.3):
                names += f", {self._within(variables, BOOL, depth)}"
            body = self._within(variables, wanted.parameters[0], depth)
            return f"{target}.transformList({names}, {body})"
        body = self._within([(name, of)], wanted.parameters[0], depth)
        if self.chance(0.3):
            return f"{target}.map({name}, {self._within([(name, of)], BOOL, depth)}, {body})"
        return f"{target}.map({name}, {body})"

    def _call(self, wanted: Type, depth: int) -> str:
        fitting = self._fitting.get(wanted)
        if fitting is None:
            fitting = self._fitting[wanted] = [
                (overload, bound)
                for overload in self._all
                if (bound := _bound(overload.result, wanted)) is not None
            ]
        if not fitting:
            return self._literal(wanted, depth)
        overload, bound = self.pick(fitting)
        return self._written(overload, dict(bound), depth)

    def _written(self, overload: Overload, bound: dict[Type, Type], depth: int) -> str:
        types = [self._ground(each, bound) for each in overload.arguments]
        arguments = [self.make(each, depth) for each in types]
        if overload.function == "lists.range":
            # Upstream makes the whole list before it looks at the cost.
            arguments = [str(int(self._random.integers(-1, 20)))]
        pattern = overload.function in ("matches", "find", "findAll")
        if pattern and self.chance(0.9):
            arguments[1] = _quoted(self.pick(_PATTERNS))
        return _written(overload, arguments)

    def _ground(self, of: Type, bound: dict[Type, Type]) -> Type:
        if of.variable or of.name == "dyn":
            return bound.setdefault(of, self.pick(GROUND)) if of.variable else self.pick(GROUND)
        return Type(of.name, tuple(self._ground(each, bound) for each in of.parameters))

    def device(self, *, lists: float = 0.05) -> CelDevice:
        """Return a device with all of the attributes, one or the other of them left out.

        Args:
            lists: The probability that it has attributes with lists.
        """
        attributes: dict[str, Attribute] = {
            "model": self.pick(("a100", "h100", "")), "text": self.pick(_TEXTS),
            "numa": self.pick((0, 1, 2)), "big": self.pick((2**62, -5)),
            "sriov": self.chance(0.5), "driverVersion": Version(self.pick(("1.2.3", "2.0.0-a.1"))),
            f"{OTHER}/lane": 4, f"{OTHER}/model": "x",
        }  # fmt: skip
        if self.chance(0.3):
            del attributes[self.pick(list(attributes))]
        self._lists = ()
        if self.chance(lists):
            # Which of several is reported where lists are not supported is random upstream.
            kind = self.pick(tuple(LISTS))
            name, values = LISTS[kind]
            attributes[name] = values
            self._lists = (name,)
        capacity = {"memory": self.pick(("40Gi", "10Gi", "500m")), f"{OTHER}/slots": "7"}
        return CelDevice(DRIVER, attributes, capacity, self.chance(0.5))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("\t", "\\t") + '"'


def _written(overload: Overload, arguments: list[str]) -> str:  # noqa: PLR0911
    name = overload.function
    if name in _OPERATORS:
        return f"({arguments[0]} {_OPERATORS[name]} {arguments[1]})"
    if name in ("!_", "-_"):
        return f"{name[0]}({arguments[0]})"
    if name == "_[_]":
        return f"{arguments[0]}[{arguments[1]}]"
    if name == "_[?_]":
        return f"{arguments[0]}[?{arguments[1]}]"
    if name == "_?_:_":
        return f"({arguments[0]} ? {arguments[1]} : {arguments[2]})"
    if not overload.member:
        return f"{name}({', '.join(arguments)})"
    return f"{arguments[0]}.{name}({', '.join(arguments[1:])})"


def _bound(declared: Type, wanted: Type) -> dict[Type, Type] | None:
    """Return what the variables of a declared type are in a wanted one, None if they differ."""
    if declared.variable:
        return {declared: wanted}
    if declared.name != wanted.name or len(declared.parameters) != len(wanted.parameters):
        return None
    bound: dict[Type, Type] = {}
    for own, other in zip(declared.parameters, wanted.parameters, strict=True):
        inner = _bound(own, other)
        if inner is None or any(bound.get(key, to) != to for key, to in inner.items()):
            return None
        bound.update(inner)
    return bound
