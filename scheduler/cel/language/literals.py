"""Values of literals: numbers, strings with escapes, bytes.

Source: cel-go v0.26.0 parser/unescape.go, parser.VisitInt, VisitUint, VisitDouble.
"""

import re
from typing import Final

from scheduler.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

__all__ = ["LiteralError", "bytes_value", "double_value", "int_value", "string_value", "uint_value"]

_ESCAPE: Final = re.compile(r"\\(x..|X..|u.{4}|U.{8}|[0-3]..|.)", re.DOTALL)
_SIMPLE: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_SURROGATES: Final = range(0xD800, 0xE000)
_LAST_CODE_POINT: Final = 0x10FFFF


class LiteralError(ValueError):
    """A literal without a value; the message is the one of upstream."""


def int_value(text: str) -> int:
    """Return the value of an integer literal, its sign included."""
    number = _digits(text, "invalid int literal")
    if not INT_MIN <= number <= INT_MAX:
        raise LiteralError("invalid int literal")
    return number


def uint_value(text: str) -> Uint:
    """Return the value of an unsigned literal, such as `12u`."""
    number = _digits(text[:-1], "invalid uint literal")
    if number > UINT_MAX:
        raise LiteralError("invalid uint literal")
    return Uint(number)


def _digits(text: str, message: str) -> int:
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    if len(digits) > 40 and digits.lstrip("0x")[40:]:
        raise LiteralError(message)
    return sign * (int(digits[2:], 16) if digits.startswith("0x") else int(digits))


def double_value(text: str) -> float:
    """Return the value of a floating-point literal, its sign included."""
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise LiteralError("invalid double literal")
    return number


def string_value(token: str) -> str:
    """Return the value of a string literal with its quotes and prefix."""
    raw, body = _body(token)
    return body if raw else _ESCAPE.sub(_character, body)


def bytes_value(token: str) -> bytes:
    """Return the value of a bytes literal with its quotes and prefix."""
    raw, body = _body(token[1:])
    if raw:
        return body.encode("utf-8", "surrogatepass")
    parts, at = [], 0
    for match in _ESCAPE.finditer(body):
        parts.append(body[at : match.start()].encode("utf-8", "surrogatepass"))
        parts.append(_octets(match[1]))
        at = match.end()
    parts.append(body[at:].encode("utf-8", "surrogatepass"))
    return b"".join(parts)


def _body(token: str) -> tuple[bool, str]:
    """Return whether a string is raw, and what is between its quotes."""
    raw = token[0] in "rR"
    token = token[1:] if raw else token
    token = token.replace("\r\n", "\n").replace("\r", "\n")
    width = 3 if len(token) >= 6 and token[:3] in ('"""', "'''") else 1
    return raw, token[width:-width]


def _character(match: re.Match[str]) -> str:
    code = match[1]
    if code in _SIMPLE:
        return _SIMPLE[code]
    number = int(code[1:], 16) if code[0] in "xXuU" else int(code, 8)
    if number in _SURROGATES or number > _LAST_CODE_POINT:
        raise LiteralError("invalid unicode code point")
    return chr(number)


def _octets(code: str) -> bytes:
    if code in _SIMPLE:
        return _SIMPLE[code].encode()
    if code[0] in "uU":
        raise LiteralError("unable to unescape string")
    return bytes([int(code[1:], 16) if code[0] in "xX" else int(code, 8)])
