"""Parses resource quantities of the API into exact integers.

`500m`, `1.5Gi` and `2e3` become integers in the unit that the columns use: milli-units for
cpu, whole units for everything else, both rounded away from zero as the API machinery does.

Values are capped at `MAX_QUANTITY`, so that sums over the pods of a node stay within int64 and
float64 stays exact; a request at the cap fits no node. Upstream lets such numbers overflow.

Source: apimachinery v0.36.3 resource.ParseQuantity, Quantity.Value, Quantity.MilliValue.
"""

import re
from functools import lru_cache
from typing import Final

__all__ = [
    "MAX_QUANTITY",
    "QuantityError",
    "canonical",
    "ceil_capped",
    "exact",
    "milli_value",
    "value",
    "written",
]

#: Largest magnitude a column ever holds (9 PB of memory, 9 * 10^12 cores).
MAX_QUANTITY: Final = 2**53 - 1

#: Longer numbers are clipped before any big-integer arithmetic; no real quantity is longer.
_MAX_DIGITS: Final = 100

_PATTERN: Final = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?"
    r"(?:([eE])([+-]?[0-9]{1,20})|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]))?",
    re.ASCII,
)

_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {0: "", **{power: suffix for suffix, power in _BINARY.items()}}
_NANO: Final = 10**9
_INT32: Final = 2**31
_BINARY_CAP: Final = 2**63 - 1


class QuantityError(ValueError):
    """A text that is not a quantity."""


def value(text: str | float) -> int:
    """Return the quantity in whole units, rounded away from zero, at most `MAX_QUANTITY`.

    Raises:
        QuantityError: The text is not a quantity.
    """
    return ceil_capped(_nano(str(text)), _NANO)


def milli_value(text: str | float) -> int:
    """Return the quantity in thousandths, rounded away from zero, at most `MAX_QUANTITY`.

    Raises:
        QuantityError: The text is not a quantity.
    """
    return ceil_capped(_nano(str(text)), _NANO // 1000)


def exact(text: str | float) -> int:
    """Return the quantity in billionths, as the API machinery keeps it, without our cap.

    Raises:
        QuantityError: The text is not a quantity.
    """
    return _nano(str(text))


def canonical(text: str | float) -> str:
    """Return a quantity as the API machinery writes it.

    Raises:
        QuantityError: The text is not a quantity.

    Source: apimachinery v0.36.3 resource.Quantity.String.
    """
    return written(_nano(str(text)), like=text)


def written(nano: int, *, like: str | float) -> str:
    """Return billionths as a quantity in the format of another one."""
    shown = str(like)
    if shown.endswith("i") and abs(nano) >= 1024 * _NANO and nano % _NANO == 0:
        number, power = nano // _NANO, 0
        while number % 1024 == 0 and power < 60:
            number, power = number // 1024, power + 10
        return f"{number}{_BINARY_SUFFIX[power]}"
    number, power = nano, -9
    while number and number % 1000 == 0 and power < 18:
        number, power = number // 1000, power + 3
    if not number:
        return "0"
    if shown[-1:].isdigit() and ("e" in shown or "E" in shown) and power:
        return f"{number}e{power}"
    return f"{number}{_DECIMAL_SUFFIX[power]}"


def ceil_capped(number: int, unit: int) -> int:
    """Return billionths in a larger unit, rounded away from zero, at most `MAX_QUANTITY`.

    Args:
        number: Billionths.
        unit: How many billionths the larger unit has.
    """
    return _capped(_ceil(number, unit))


def _capped(number: int) -> int:
    return max(-MAX_QUANTITY, min(MAX_QUANTITY, number))


def _ceil(number: int, unit: int) -> int:
    """Divide, rounding away from zero."""
    return -(-number // unit) if number >= 0 else number // unit


@lru_cache(maxsize=65_536)
def _nano(text: str) -> int:
    """Return the quantity in billionths, rounded away from zero.

    Numbers beyond a hundred digits are clipped to ones that are far beyond the cap.
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise QuantityError(f"{_shown(text)} is not a quantity")
    sign, whole, fraction, exponent_mark, exponent, suffix = match.groups()
    fraction = fraction or ""
    if not whole and not fraction:
        raise QuantityError(f"{_shown(text)} is not a quantity")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return 0
    if suffix in _BINARY:
        number = _binary(digits, len(fraction), _BINARY[suffix])
    else:
        power = int(exponent) if exponent_mark else _DECIMAL[suffix or ""]
        if not -_INT32 <= power < _INT32:
            raise QuantityError(f"{_shown(text)} has an exponent out of range")
        number = _decimal(digits, power - len(fraction) + 9)
    return -number if sign == "-" else number


def _decimal(digits: str, power: int) -> int:
    """Return ceil(digits * 10^power); a clipped number if the result is too long."""
    length = len(digits) + power
    if length > _MAX_DIGITS:
        return int(10**_MAX_DIGITS)
    if length < 0:
        return 1
    if power >= 0:
        return int(digits) * int(10**power)
    kept, dropped = digits[:power], digits[power:]
    return int(kept or "0") + (1 if dropped.strip("0") else 0)


def _binary(digits: str, places: int, shift: int) -> int:
    """Return ceil(digits / 10^places * 2^shift) billionths, capped as the API machinery caps."""
    if len(digits) - places > _MAX_DIGITS:
        return _BINARY_CAP * _NANO
    kept = digits[: max(0, len(digits) - max(0, places - _MAX_DIGITS))]
    rest = 1 if len(kept) < len(digits) else 0
    unit = 10 ** min(places, _MAX_DIGITS)
    number = _ceil((int(kept or "0") * 2**shift * _NANO) + rest, unit)
    return min(number, _BINARY_CAP * _NANO)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
