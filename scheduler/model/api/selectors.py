"""Label selectors, node selectors, taints and tolerations as predicates over plain values.

The vectorised rules compile the same expressions against columns; these functions check one object
at a time, for queueing hints, budgets and other rare cases.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from scheduler.model.api.objects import (
    LabelSelector,
    Node,
    NodeSelectorTerm,
    PodSpec,
    Requirement,
    Taint,
    Toleration,
)

__all__ = [
    "NAME_FIELD",
    "Selector",
    "SelectorError",
    "Tolerations",
    "matches_node_selection",
    "matches_term",
    "parse_int64",
    "parse_selector",
    "untolerated",
    "valid_node_requirement",
]

#: The only node field that a term can select by.
NAME_FIELD: Final = "metadata.name"

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX: Final = re.compile(
    r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII
)


#: Sets of values by key; `None` for all values.
Folded: TypeAlias = Mapping[str, Set[str] | None]


class SelectorError(ValueError):
    """A selector that the API would not have admitted."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A checked label selector.

    The cost of a match is bounded by the number of the object's labels, however many requirements
    there are, because requirements are folded by key.

    Source: apimachinery v0.36.3 apis/meta/v1.LabelSelectorAsSelector.
    """

    requirements: tuple[Requirement, ...]
    _folded: tuple[Folded, Folded] | None = field(
        init=False, compare=False, repr=False, default=None
    )

    @classmethod
    def of(cls, selector: LabelSelector) -> "Selector":
        """Check and compile a selector.

        Raises:
            SelectorError: An operator, key or value is not valid.
        """
        equal = [Requirement(k, "In", [v]) for k, v in sorted(selector.match_labels.items())]
        requirements = (*equal, *selector.match_expressions)
        for requirement in requirements:
            _check_label_requirement(requirement)
        return cls(requirements)

    def folded(self) -> tuple[Folded, Folded]:
        """Return the requirements by key.

        Returns:
            Required keys with their allowed values, `None` for any value; and keys with their
            forbidden values, `None` for forbidden keys.
        """
        if self._folded is None:
            folded = (_demanded(self.requirements), _refused(self.requirements))
            object.__setattr__(self, "_folded", folded)
            return folded
        return self._folded

    @property
    def empty(self) -> bool:
        """Whether everything matches."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        demanded, refused = self._folded or self.folded()
        if len(demanded) > len(labels):
            return False
        for key, allowed in demanded.items():
            value = labels.get(key)
            if value is None or (allowed is not None and value not in allowed):
                return False
        few, others = (refused, labels) if len(refused) < len(labels) else (labels, refused)
        return not any(key in others and _is_in(refused[key], labels[key]) for key in few)


def parse_selector(text: str) -> Selector:
    """Return a selector that is given as kubectl takes it: `app=web,tier in (a, b),!canary`.

    Raises:
        SelectorError: It is malformed.

    Source: apimachinery v0.36.3 labels.Parse, without `>` and `<`.
    """
    parts = _PARTS.findall(text)
    if not parts or ",".join(parts) != text:
        raise SelectorError(f"not a label selector: {text[:100]}")
    found = [_requirement(part.strip()) for part in parts]
    return Selector.of(LabelSelector(match_expressions=found))


#: What is between commas, if these are not in parentheses.
_PARTS: Final = re.compile(r"(?:[^,()]|\([^()]*\))+")
#: A requirement of `parse_selector`: `!key`, `key in (a, b)`, `key!=a`, `key`.
_SET: Final = re.compile(r"(\S+)\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL: Final = re.compile(r"([^=!\s]+)\s*(==|=|!=)\s*([^=!\s]*)")


def _requirement(text: str) -> Requirement:
    if parsed := _SET.fullmatch(text):
        operator = "In" if parsed[2] == "in" else "NotIn"
        return Requirement(parsed[1], operator, [each.strip() for each in parsed[3].split(",")])
    if parsed := _EQUAL.fullmatch(text):
        return Requirement(parsed[1], "NotIn" if parsed[2] == "!=" else "In", [parsed[3]])
    if text.startswith("!"):
        return Requirement(text[1:].strip(), "DoesNotExist", [])
    return Requirement(text, "Exists", [])


def _is_in(values: Set[str] | None, value: str) -> bool:
    return values is None or value in values


def _demanded(requirements: Sequence[Requirement]) -> Folded:
    allowed: dict[str, frozenset[str] | None] = {}
    for requirement in requirements:
        key = requirement.key
        if requirement.operator == "In":
            others = allowed.get(key)
            values = frozenset(requirement.values)
            allowed[key] = values if others is None else others & values
        elif requirement.operator == "Exists":
            allowed.setdefault(key, None)
    return allowed


def _refused(requirements: Sequence[Requirement]) -> Folded:
    values: dict[str, set[str]] = {}
    for requirement in requirements:
        if requirement.operator == "NotIn":
            values.setdefault(requirement.key, set()).update(requirement.values)
    present = ("In", "NotIn", "Exists")
    absent = (wanted.key for wanted in requirements if wanted.operator not in present)
    return {**values, **dict.fromkeys(absent)}


def _check_label_requirement(requirement: Requirement) -> None:
    operator, values = requirement.operator, requirement.values
    if operator in ("In", "NotIn"):
        valid = bool(values)
    elif operator in ("Exists", "DoesNotExist"):
        valid = not values
    else:
        raise SelectorError(f"{operator!r} is not a valid label selector operator")
    if not valid:
        raise SelectorError(f"wrong number of values for operator {operator!r}")
    _check_key(requirement.key)
    for value in values:
        _check_label_value(value)


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    named = _NAME.fullmatch(name) is not None
    prefixed = not slash or (len(prefix) <= 253 and _PREFIX.fullmatch(prefix) is not None)
    if not (named and prefixed):
        raise SelectorError(f"{key[:80]!r} is not a valid label key")


def _check_label_value(value: str) -> None:
    if value and _NAME.fullmatch(value) is None:
        raise SelectorError(f"{value[:80]!r} is not a valid label value")


def _label_holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case _:
            return value is None


def valid_node_requirement(requirement: Requirement) -> bool:
    """Return whether a node selector expression is valid.

    A term with an invalid expression matches no node; the other terms still count.

    Source: component-helpers v0.36.3 nodeaffinity.nodeSelectorRequirementsAsSelector.
    """
    operator, values = requirement.operator, requirement.values
    try:
        if operator in ("Gt", "Lt"):
            _check_key(requirement.key)
            return len(values) == 1 and parse_int64(values[0]) is not None
        _check_label_requirement(requirement)
    except SelectorError:
        return False
    return True


def parse_int64(text: str) -> int | None:
    """Return a decimal integer of the API, `None` if it is invalid or exceeds int64."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _node_label_holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    if requirement.operator not in ("Gt", "Lt"):
        return _label_holds(requirement, labels)
    value = parse_int64(labels.get(requirement.key, ""))
    bound = parse_int64(requirement.values[0])
    if value is None or bound is None:
        return False
    return value > bound if requirement.operator == "Gt" else value < bound


def _field_holds(requirement: Requirement, name: str) -> bool:
    if requirement.key != NAME_FIELD or len(requirement.values) != 1:
        return False
    if requirement.operator == "In":
        return name == requirement.values[0]
    return requirement.operator == "NotIn" and name != requirement.values[0]


def matches_term(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a node of that name and those labels satisfies one term.

    A term with neither expressions nor fields matches no node.
    """
    if not term.match_expressions and not term.match_fields:
        return False
    return all(
        valid_node_requirement(expression) and _node_label_holds(expression, labels)
        for expression in term.match_expressions
    ) and all(_field_holds(field, name) for field in term.match_fields)


def matches_node_selection(spec: PodSpec, node: Node) -> bool:
    """Return whether a node satisfies the pod's nodeSelector and required node affinity.

    Source: component-helpers v0.36.3 scheduling/corev1/nodeaffinity.GetRequiredNodeAffinity.
    """
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in (spec.node_selector or {}).items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None or affinity.required is None:
        return True
    terms = affinity.required.node_selector_terms
    return any(matches_term(term, node.metadata.name, labels) for term in terms)


class Tolerations:
    """All tolerations of a pod, indexed: checking thousands costs no more than checking a few."""

    __slots__ = ("_any_value", "_values")

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._any_value: set[tuple[str, str]] = set()
        self._values: set[tuple[str, str, str]] = set()
        for toleration in tolerations:
            effect, key = toleration.effect, toleration.key
            if toleration.operator == "Exists":
                self._any_value.add((effect, key))
            elif toleration.operator in ("", "Equal"):
                self._values.add((effect, key, toleration.value))

    def cover(self, taint: Taint) -> bool:
        """Return whether one of them tolerates a taint.

        An empty key with operator Equal compares only the values, as upstream.

        Source: api v0.36.3 core/v1.Toleration.ToleratesTaint, comparison operators off.
        """
        return any(
            (effect, key) in self._any_value or (effect, key, taint.value) in self._values
            for effect in ("", taint.effect)
            for key in ("", taint.key)
        )


def untolerated(
    taints: Sequence[Taint], tolerations: Tolerations, effects: frozenset[str]
) -> Taint | None:
    """Return the first taint with one of the effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not tolerations.cover(taint):
            return taint
    return None
