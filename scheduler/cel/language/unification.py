"""Which types go together, and what the variables of the type checker stand for.

Source: cel-go v0.26.0 checker/types.go, checker/mapping.go.
"""

from typing import Final

from scheduler.cel.language.types import DYN, ERROR, Type, is_dyn

__all__ = ["Unifier", "most_general"]

_NULLABLE: Final = frozenset(("google.protobuf.Duration", "google.protobuf.Timestamp"))
_PRIMITIVE: Final = frozenset(
    ("bool", "bytes", "double", "int", "string", "uint", "list", "map", "type")
)


class Unifier:
    """What the variables of one expression stand for."""

    def __init__(self) -> None:
        self._bound: dict[Type, Type] = {}
        self._log: list[tuple[Type, Type | None]] = []
        self._fresh = 0
        #: Results of `substitute`, as long as no variable is bound to another type.
        self._substituted: dict[tuple[Type, bool], Type] = {}

    def variable(self) -> Type:
        """Return a variable that is not used yet."""
        self._fresh += 1
        return Type(f"_var{self._fresh}")

    def instantiate(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        """Return the types of a declaration with its variables replaced by new ones."""
        fresh: dict[Type, Type] = {}
        return tuple(self._instantiated(each, fresh) for each in types)

    def _instantiated(self, one: Type, fresh: dict[Type, Type]) -> Type:
        if one.variable:
            if one not in fresh:
                fresh[one] = self.variable()
            return fresh[one]
        if one.ground:
            return one
        return Type(one.name, tuple(self._instantiated(each, fresh) for each in one.parameters))

    def substitute(self, one: Type, *, final: bool = False) -> Type:
        """Return a type with variables replaced; at the end, those that are free are dyn."""
        if one.ground:
            return one
        known = self._substituted.get((one, final))
        if known is None:
            known = self._substituted[one, final] = self._substitute(one, final=final)
        return known

    def _substitute(self, one: Type, *, final: bool) -> Type:
        if one.variable:
            found = self._bound.get(one)
            if found is not None:
                return self.substitute(found, final=final)
            return DYN if final else one
        parameters = tuple(self.substitute(each, final=final) for each in one.parameters)
        return one if parameters == one.parameters else Type(one.name, parameters)

    def assignable(self, *pairs: tuple[Type, Type]) -> bool:
        """Return whether in each pair the first type is assignable to the second.

        Only if all are, variables are bound.
        """
        mark = len(self._log)
        if all(self._assignable(first, second) for first, second in pairs):
            return True
        self._substituted.clear()
        while len(self._log) > mark:
            key, before = self._log.pop()
            if before is None:
                del self._bound[key]
            else:
                self._bound[key] = before
        return False

    def _bind(self, variable: Type, to: Type) -> None:
        self._log.append((variable, self._bound.get(variable)))
        self._bound[variable] = to
        self._substituted.clear()

    def _assignable(self, first: Type, second: Type) -> bool:
        if second.variable:
            valid, known = self._bindable(first, second)
            if valid or known:
                return valid
        if first.variable:
            return self._bindable(second, first)[0]
        return self._concrete(first, second)

    def _concrete(self, first: Type, second: Type) -> bool:
        """Return whether a type is assignable to another one; neither is a variable."""
        if is_dyn(first) or is_dyn(second) or ERROR in (first, second):
            return True
        if "null_type" in (first.name, second.name):
            other = second.name if first.name == "null_type" else first.name
            return other == "null_type" or other in _NULLABLE or other not in _PRIMITIVE
        if first.name != second.name:
            return False
        if first.name == "type":
            return True
        if len(first.parameters) != len(second.parameters):
            return False
        return all(map(self._assignable, first.parameters, second.parameters))

    def _bindable(self, to: Type, variable: Type) -> tuple[bool, bool]:
        """Try to bind a variable; return whether that is valid, and whether it was bound before."""
        if to == variable:
            return True, True
        bound = self._bound.get(variable)
        if bound is not None:
            if to == bound:
                return True, True
            if not self._assignable(to, bound):
                return False, True
            general = most_general(to, bound)
            if self._not_within(variable, general):
                self._bind(variable, general)
            return True, True
        if self._not_within(variable, to):
            self._bind(variable, to)
            return True, False
        return False, False

    def _not_within(self, variable: Type, other: Type) -> bool:
        """Return whether a type does not contain a variable."""
        pending = [other]
        while pending:
            one = pending.pop()
            if one.ground:
                continue
            if one.parameters:
                pending.extend(one.parameters)
                continue
            if one == variable:
                return False
            bound = self._bound.get(one)
            if bound is not None:
                pending.append(bound)
        return True


def most_general(first: Type, second: Type) -> Type:
    """Return the more general of two types that go together."""
    return first if _is_general(first, second) else second


def _is_general(first: Type, second: Type) -> bool:
    """Return whether the first type is equal to the second or less specific."""
    if is_dyn(first) or first.variable:
        return True
    if is_dyn(second) or second.variable or first.name != second.name:
        return False
    if first.name == "type":
        return True
    if len(first.parameters) != len(second.parameters):
        return False
    return all(map(_is_general, first.parameters, second.parameters))
