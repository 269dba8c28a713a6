"""Optional values.

Source: cel-go v0.26.0 cel/library.go, OptionalTypes; common/types/optional.go.
"""

from typing import Final

from scheduler.cel.errors import CelFailure
from scheduler.cel.library.overloads import function, method
from scheduler.cel.values import NONE, Duration, Optional, Timestamp, Value, show

__all__ = ["OVERLOADS", "value_of"]

#: The zero of a timestamp is the first moment of year 1.
_FIRST_MOMENT: Final = -62135596800 * 10**9


def value_of(optional: Optional) -> Value:
    """Return what an optional holds."""
    if optional is NONE:
        raise CelFailure("optional.none() dereference")
    if isinstance(optional.value, CelFailure):
        raise optional.value
    return optional.value


def _of_non_zero(value: Value) -> Optional:
    return NONE if _is_zero(value) else Optional(value)


def _is_zero(value: Value) -> bool:
    if value is None:
        return True
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Timestamp):
        return value.nanos == _FIRST_MOMENT
    if isinstance(value, bool | int | float | str | bytes | list | dict):
        return not value
    return False


def _unwrap(elements: list[Value]) -> list[Value]:
    for each in elements:
        if not isinstance(each, Optional):
            raise CelFailure(f"value {show(each)} is not optional")
    return [each.value for each in elements if each is not NONE]


OVERLOADS: Final = (
    function("optional.of", "V -> optional(V)", Optional),
    function("optional.ofNonZeroValue", "V -> optional(V)", _of_non_zero),
    function("optional.none", "-> optional(V)", lambda: NONE),
    method("value", "optional(V) -> V", value_of),
    method("hasValue", "optional(V) -> bool", lambda optional: optional is not NONE),
    # The planner evaluates these two itself: they may not need their argument.
    method("or", "optional(V), optional(V) -> optional(V)", Optional, guarded=False),
    method("orValue", "optional(V), V -> V", Optional, guarded=False),
    function("optional.unwrap", "list(optional(V)) -> list(V)", _unwrap),
    method("unwrapOpt", "list(optional(V)) -> list(V)", _unwrap),
)
