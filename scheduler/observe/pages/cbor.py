"""Encodes CBOR (RFC 8949), as far as the structured pages need it: few fields of fixed types.

No library is used: none is among the locked dependencies, and two small objects do not justify a
new one.

Source: apimachinery v0.36.3 pkg/runtime/serializer/cbor: an object begins with the tag for
self-described CBOR, strings and names of fields are byte strings, keys are sorted by their bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

__all__ = ["CborValue", "encode"]

#: What can be encoded. Numbers are non-negative and below 2**64.
CborValue: TypeAlias = "str | int | Sequence[CborValue] | Mapping[str, CborValue]"

_SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
#: Kinds of items, in the upper three bits of their first byte.
_UNSIGNED, _BYTES, _ARRAY, _MAP = 0 << 5, 2 << 5, 4 << 5, 5 << 5
#: Numbers up to this one fit into that byte; larger ones follow it in 1, 2, 4 or 8 bytes.
_SMALL: Final = 23
_SIZES: Final = (1, 2, 4, 8)


def encode(value: CborValue) -> bytes:
    """Return a value as self-described CBOR.

    Raises:
        OverflowError: A number is negative or has more than 64 bits.
    """
    return _SELF_DESCRIBED + _item(value)


def _item(value: CborValue) -> bytes:
    if isinstance(value, str):
        data = value.encode()
        return _head(_BYTES, len(data)) + data
    if isinstance(value, int):
        return _head(_UNSIGNED, value)
    if isinstance(value, Mapping):
        pairs = sorted((_item(key), _item(field)) for key, field in value.items())
        return _head(_MAP, len(pairs)) + b"".join(key + field for key, field in pairs)
    return _head(_ARRAY, len(value)) + b"".join(map(_item, value))


def _head(kind: int, number: int) -> bytes:
    """Return the first bytes of an item: its kind and a number, in the shortest form."""
    if 0 <= number <= _SMALL:
        return bytes([kind | number])
    more = next((i for i, size in enumerate(_SIZES) if number < 1 << 8 * size), len(_SIZES) - 1)
    return bytes([kind | _SMALL + 1 + more]) + number.to_bytes(_SIZES[more], "big")
