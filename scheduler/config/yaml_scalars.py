"""Resolves YAML scalars: the text of a leaf becomes null, a boolean, a number or a string.

Source: go.yaml.in/yaml/v2 v2.4.3 resolve. Whole numbers that are written as decimals become
integers (`16.0` is 16), since upstream converts them to JSON before it decodes a Kubernetes type.
"""

import base64
import binascii
import math
import re
from typing import Final

__all__ = ["ScalarError", "ScalarValue", "is_text", "plain", "tagged"]

ScalarValue = bool | int | float | str | None

_TAG: Final = "tag:yaml.org,2002:"

_WORDS: Final[dict[str, ScalarValue]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))"
)
_DECIMAL: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

#: Go treats integers outside of this range as decimals.
_INTEGERS: Final = range(-(2**63), 2**64)

#: From this value on JSON writes decimals with an exponent, so they are not integers any more.
_EXPONENT: Final = 1e21

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "null": (type(None),),
}


class ScalarError(ValueError):
    """A scalar that does not match its tag, or that JSON cannot represent."""


def plain(text: str) -> ScalarValue:
    """Return the value of an untagged, unquoted scalar.

    Raises:
        ScalarError: Infinity or NaN, which JSON cannot represent.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _NOT_FINITE.fullmatch(text):
        msg = f"unsupported value: {text}"
        raise ScalarError(msg)
    if text[0] not in "+-.0123456789":
        return text
    number = _number(text if text[0] == "." else text.replace("_", ""))
    return text if number is None else number


def is_text(text: str) -> bool:
    """Return whether an unquoted text is read as that same text."""
    try:
        return plain(text) == text
    except ScalarError:
        return False


def tagged(tag: str, text: str) -> ScalarValue:
    """Return the value of a quoted scalar, or of one with an explicit tag.

    Raises:
        ScalarError: The text does not fit the tag.
    """
    kind = tag.removeprefix(_TAG)
    if kind == "binary":
        return _binary(text)
    if kind not in _KINDS:
        return text
    value = plain(text)
    if isinstance(value, bool) is (kind == "bool") and isinstance(value, _KINDS[kind]):
        return value
    msg = f"cannot decode `{text}` as !!{kind}"
    raise ScalarError(msg)


def _binary(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode(errors="replace")
    except binascii.Error as error:
        msg = "!!binary value contains invalid base64 data"
        raise ScalarError(msg) from error


def _number(text: str) -> int | float | None:
    if match := _INTEGER.fullmatch(text):
        sign, *digits = match.groups()
        bases = zip((16, 2, 8, 10), digits, strict=True)
        value = next(int(each, base) for base, each in bases if each is not None)
        value = -value if sign == "-" else value
        if value in _INTEGERS:
            return value
    if not _DECIMAL.fullmatch(text):
        return None
    value_float = float(text)
    if math.isinf(value_float):
        return None
    whole = value_float.is_integer() and abs(value_float) < _EXPONENT
    return int(value_float) if whole else value_float
