"""Quantities with the exact arithmetic of the API machinery.

`scheduler.model.api.quantity` rounds into the units of the columns; selectors also see how a
quantity was written: "1000m" is equal to "1" and yet not an integer.

Source: apimachinery v0.36.3 resource.Quantity, apiserver v0.36.3 cel/library/quantity.go.
"""

from typing import Final

from scheduler.cel.errors import Cancelled, CelFailure
from scheduler.cel.library.overloads import function, method, traversal
from scheduler.cel.values import INT_MAX, INT_MIN, Opaque, Value

__all__ = ["OVERLOADS", "Quantity", "parse_quantity"]

_DIGITS: Final = frozenset("0123456789")
_SUFFIX_LETTERS: Final = frozenset("eEinumkKMGTP")
_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO: Final = -9
_LARGEST_EXPONENT: Final = 400
#: Numbers are not brought to a common exponent when that takes more digits.
_MAX_DIGITS: Final = 20_000
_DIGITS_AT_ONCE: Final = 4000


class Quantity(Opaque):
    """`number * 10 ** exponent`.

    Attributes:
        number: an integer.
        exponent: a power of ten.
        large: whether upstream keeps it as a decimal of any size; such ones are never integers.
        derived: whether it is the result of `add` or `sub`; upstream's `x == y` fails for such a y.
    """

    __slots__ = ("derived", "exponent", "large", "number")
    name = "kubernetes.Quantity"

    def __init__(
        self, number: int, exponent: int, *, large: bool = False, derived: bool = False
    ) -> None:
        self.number = number
        self.exponent = exponent
        self.large = large
        self.derived = derived

    def same(self, other: Opaque) -> bool | None:
        """Return whether two quantities are equal."""
        assert isinstance(other, Quantity)
        return None if other.derived else _compare(self, other) == 0


def parse_quantity(text: str) -> Quantity:
    """Return the quantity of a text.

    Raises:
        Failure: it is not one, with the words of upstream.
    """
    if not text:
        raise _wrong_format()
    negative = text[0] == "-"
    rest = text[1:] if text[0] in "+-" else text
    rest = rest.lstrip("0")
    whole, rest = _leading_digits(rest)
    places = ""
    if rest.startswith("."):
        places, rest = _leading_digits(rest[1:])
    _check_suffix(rest)
    binary = rest in _BINARY
    power = _BINARY[rest] if binary else _exponent(rest)
    if len(whole) + len(places) > _MAX_DIGITS:
        raise Cancelled
    number = _number(whole + places)
    size = max(1, len(whole)) + len(places)
    quantity = (
        _binary(number, power, size, places) if binary else _decimal(number, power, size, places)
    )
    if negative:
        quantity.number = -quantity.number
    return quantity


def _number(digits: str) -> int:
    """Return the number of a text of digits; Python itself converts only so many at once."""
    number = 0
    for at in range(0, len(digits), _DIGITS_AT_ONCE):
        part = digits[at : at + _DIGITS_AT_ONCE]
        number = number * int(10 ** len(part)) + int(part)
    return number


def _wrong_format() -> CelFailure:
    pattern = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
    return CelFailure(f"quantities must match the regular expression '{pattern}'")


def _leading_digits(text: str) -> tuple[str, str]:
    at = 0
    while at < len(text) and text[at] in _DIGITS:
        at += 1
    return text[:at], text[at:]


def _check_suffix(suffix: str) -> None:
    at = 0
    while at < len(suffix) and suffix[at] in _SUFFIX_LETTERS:
        at += 1
    if at < len(suffix) and suffix[at] in "+-":
        at += 1
    if _leading_digits(suffix[at:])[1]:
        raise _wrong_format()


def _exponent(suffix: str) -> int:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    digits = suffix[1:].removeprefix("-").removeprefix("+")
    if suffix[0] not in "eE" or not digits or _leading_digits(digits)[1]:
        raise CelFailure("unable to parse quantity's suffix")
    significant = digits.lstrip("0") or "0"
    if suffix[1:].startswith(("-+", "+-")) or len(significant) > 10:
        raise CelFailure("unable to parse quantity's suffix")
    number = -int(significant) if suffix[1] == "-" else int(significant)
    if not -(2**31) <= number < 2**31:
        raise CelFailure("unable to parse quantity's suffix")
    return number


def _decimal(number: int, power: int, size: int, places: str) -> Quantity:
    exponent = power - len(places)
    if size <= 18 and exponent >= _NANO:
        return Quantity(number, exponent)
    return _rounded(number, exponent)


def _binary(number: int, power: int, size: int, places: str) -> Quantity:
    product = number << power
    if not places and 15 - size - power * 3 // 10 - 1 >= 0 and product <= INT_MAX:
        return Quantity(product, 0)
    quantity = _rounded(product, -len(places))
    if _compare(quantity, Quantity(INT_MAX, 0)) > 0:
        return Quantity(INT_MAX, 0, large=True)
    return quantity


def _rounded(number: int, exponent: int) -> Quantity:
    """Return a positive decimal, rounded up to billionths."""
    if exponent < _NANO:
        excess = _NANO - exponent
        if number == 0:
            return Quantity(0, exponent, large=True)
        if excess > _MAX_DIGITS:
            return Quantity(1, _NANO, large=True)
        return Quantity(-(-number // 10**excess), _NANO, large=True)
    if number and exponent < _LARGEST_EXPONENT:
        # Upstream rounds by writing all nine places, which shows in `asApproximateFloat`.
        return Quantity(number * int(10 ** (exponent - _NANO)), _NANO, large=True)
    return Quantity(number, exponent, large=True)


def _compare(left: Quantity, right: Quantity) -> int:
    if left.exponent == right.exponent:
        return _sign(left.number - right.number)
    sign = _sign(left.number)
    if sign != _sign(right.number) or sign == 0:
        return _sign(sign - _sign(right.number))
    magnitude = _magnitude(left) - _magnitude(right)
    if abs(magnitude) > 1:
        return sign * _sign(magnitude)
    exponent = min(left.exponent, right.exponent)
    return _sign(_scaled(left, exponent) - _scaled(right, exponent))


def _magnitude(value: Quantity) -> int:
    """Return about how many digits are before the point."""
    return value.number.bit_length() * 30103 // 100000 + value.exponent


def _scaled(value: Quantity, exponent: int) -> int:
    if value.exponent - exponent > _MAX_DIGITS:
        raise Cancelled
    return value.number * int(10 ** (value.exponent - exponent))


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _as_integer(value: Quantity) -> int | None:
    if value.large or value.exponent < 0:
        return None
    if value.exponent > 18:
        return 0 if value.number == 0 else None
    number = value.number * int(10**value.exponent)
    return number if INT_MIN <= number <= INT_MAX else None


def _integer(value: Quantity) -> int:
    number = _as_integer(value)
    if number is None:
        raise CelFailure("cannot convert value to integer")
    return number


def _float(value: Quantity) -> float:
    try:
        base = float(value.number)
    except OverflowError:
        base = float("inf") if value.number > 0 else float("-inf")
    if value.exponent == 0:
        return base
    if value.exponent < -323:
        return base * 0.0
    return base * (float(f"1e{value.exponent}") if value.exponent <= 308 else float("inf"))


def _sum(left: Quantity, right: Quantity, sign: int) -> Quantity:
    large = left.large or right.large
    exponent = min(left.exponent, right.exponent)
    if sign < 0 and not large and right.number == INT_MIN:
        # Upstream negates in 64 bits, where this number is its own opposite.
        wrong = _scaled(left, exponent) + _scaled(right, exponent)
        sign = 1 if left.number == 0 or _fits(left, right, exponent, wrong) else sign
    if not large and right.number == 0:
        return Quantity(left.number, left.exponent, derived=True)
    if not large and left.number == 0:
        return Quantity(sign * right.number, right.exponent, derived=True)
    number = _scaled(left, exponent) + sign * _scaled(right, exponent)
    large = large or not _fits(left, right, exponent, number)
    return Quantity(number, exponent, large=large, derived=True)


def _fits(left: Quantity, right: Quantity, exponent: int, number: int) -> bool:
    """Return whether upstream computes a sum in 64 bits."""
    values = (_scaled(left, exponent), _scaled(right, exponent), number)
    return all(INT_MIN <= each <= INT_MAX for each in values)


def _add(left: Quantity, right: Quantity) -> Quantity:
    return _sum(left, right, 1)


def _subtract(left: Quantity, right: Quantity) -> Quantity:
    return _sum(left, right, -1)


def _is_quantity(text: Value) -> bool:
    try:
        parse_quantity(text)
    except CelFailure:
        return False
    return True


OVERLOADS: Final = (
    function("quantity", "string -> quantity", parse_quantity, traversal()),
    function("isQuantity", "string -> bool", _is_quantity, traversal()),
    function("sign", "quantity -> int", lambda value: _sign(value.number)),
    method("isInteger", "quantity -> bool", lambda value: _as_integer(value) is not None),
    method("asInteger", "quantity -> int", _integer),
    method("asApproximateFloat", "quantity -> double", _float),
    method("isGreaterThan", "quantity, quantity -> bool", lambda a, b: _compare(a, b) > 0),
    method("isLessThan", "quantity, quantity -> bool", lambda a, b: _compare(a, b) < 0),
    method("compareTo", "quantity, quantity -> int", _compare),
    method("add", "quantity, quantity -> quantity", _add),
    method("add", "quantity, int -> quantity", lambda a, b: _add(a, Quantity(b, 0))),
    method("sub", "quantity, quantity -> quantity", _subtract),
    method("sub", "quantity, int -> quantity", lambda a, b: _subtract(a, Quantity(b, 0))),
)
