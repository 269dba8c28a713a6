"""Invalid API objects: a few of their fields have values that do not belong there."""

import copy
import json
from typing import Any, Final

from tests.oracle.generating.dice import Dice, Object

__all__ = ["spoilt"]

_ODD_TEXTS: Final = (
    "", " ", "\x00", "a\nb", "é", "🦄", "\u202etxt", "a" * 300, "A", "-", "/", "a/b/c",
    "*", "null", "In", "NotIn", "Exists", "Gt", "Lt", "Always", "DoNotSchedule", "NoExecute",
    "kubernetes.io/hostname", "metadata.name", "Pod", "True", "Unknown", "TCP", "ReadWriteOncePod",
    "0", "00", "-0", "1", "-1", "1.5", ".5", "5.", "+1", "1e3", "1e-3", "1e999999999", "1E", "1Ki",
    "0.0000000001", "100m", "1000u", "9223372036854775807", "9223372036854775808", "1e40", "0x10",
    "1_000", "\u0661", "NaN", "Infinity", "1KB", "1234567890123456789012345678901234567890Ei",
    "2026-01-01T00:00:00Z", "0000-13-45T99:99:99Z", "9999-12-31T23:59:60+99:99", "yesterday",
)  # fmt: skip
_ODD_NUMBERS: Final = (
    0, 1, -1, 7, 100, 2**31 - 1, 2**31, -(2**31) - 1, 2**53, 2**63 - 1, 2**63, -(2**63) - 1,
    2**64, 10**30, 10**400, 0.5, -0.0, 1e-320, 1e308,
)  # fmt: skip
_ODD_SHAPES: Final = (
    None, True, False, [], {}, [None], [[]], [{}], {"": ""}, {"a": None}, {"key": 1}, ["a", 1],
)  # fmt: skip
_ODD_VALUES: Final = (*_ODD_TEXTS, *_ODD_NUMBERS, *_ODD_SHAPES)


def spoilt(dice: Dice, whole: Object) -> bytes:
    """Return the JSON of an object with one to four places changed; its kind stays."""
    changed = copy.deepcopy(whole)
    for _ in range(dice.number(1, 4)):
        _spoil(dice, changed)
    return json.dumps(
        {**changed, "apiVersion": whole["apiVersion"], "kind": whole["kind"]}
    ).encode()


def _spoil(dice: Dice, whole: Object) -> None:
    """Change one place, deep or not."""
    if not whole:
        return
    parent: Any = whole
    key = dice.pick(list(whole))
    while dice.chance(0.8) and isinstance(parent[key], dict | list) and parent[key]:
        parent = parent[key]
        key = dice.pick(list(parent)) if isinstance(parent, dict) else _index(dice, parent)
    match dice.number(0, 9):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        case 1:
            parent[dice.pick(_ODD_TEXTS)] = parent[key]
        case 2:
            parent[key] = [parent[key]]
        case 3:
            parent[key] = {dice.pick(_ODD_TEXTS): parent[key]}
        case 4 if isinstance(parent[key], str):
            parent[key] = parent[key] + dice.pick(_ODD_TEXTS)
        case 4 | 5:
            parent[key] = dice.pick(_ODD_NUMBERS)
        case 6 | 7:
            parent[key] = dice.pick(_ODD_TEXTS)
        case _:
            parent[key] = dice.pick(_ODD_VALUES)


def _index(dice: Dice, items: list[Any]) -> int:
    return dice.number(0, len(items) - 1)
