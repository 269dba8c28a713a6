"""IP addresses and networks.

Source: apiserver v0.36.3 cel/library/ip.go, cidr.go; Go's net/netip.
"""

import math
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from scheduler.cel.errors import CelFailure, no_such_overload
from scheduler.cel.library.overloads import Cost, function, method, size_of, traversal
from scheduler.cel.values import Opaque, Value, go_quote

__all__ = ["OVERLOADS", "AddressError", "Cidr", "Ip", "ZoneError", "parse_address"]

_HEX: Final = frozenset("0123456789abcdefABCDEF")
_MAPPED: Final = range(0xFFFF00000000, 0x1000000000000)


class Ip(Opaque):
    """An address; `bits` is 32 or 128."""

    __slots__ = ("bits", "number")
    name = "net.IP"

    def __init__(self, number: int, bits: int) -> None:
        self.number = number
        self.bits = bits

    @property
    def octets(self) -> int:
        """Its size in bytes."""
        return self.bits // 8

    def same(self, other: Opaque) -> bool | None:
        """Return whether two addresses are equal."""
        assert isinstance(other, Ip)
        return (self.number, self.bits) == (other.number, other.bits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ip) and self.same(other) is True

    def __hash__(self) -> int:
        return hash((self.number, self.bits))

    def __str__(self) -> str:
        return str(IPv4Address(self.number) if self.bits == 32 else IPv6Address(self.number))


class Cidr(Opaque):
    """A network; the address may have bits behind the prefix."""

    __slots__ = ("address", "length")
    name = "net.CIDR"

    def __init__(self, address: Ip, length: int) -> None:
        self.address = address
        self.length = length

    @property
    def octets(self) -> int:
        """The size of the prefix in bytes."""
        return math.ceil(self.length / 8)

    def same(self, other: Opaque) -> bool | None:
        """Return whether two networks are written alike."""
        assert isinstance(other, Cidr)
        return self.length == other.length and self.address.same(other.address)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cidr) and self.same(other) is True

    def __hash__(self) -> int:
        return hash((self.address, self.length))

    def __str__(self) -> str:
        return f"{self.address}/{self.length}"


class AddressError(ValueError):
    """A text that is not an address."""


def parse_address(text: str) -> Ip:
    """Return an address as netip.ParseAddr, without zones.

    Raises:
        AddressError: it is none; the message is that of Go without the text.
    """
    for character in text:
        if character == ".":
            return Ip(_parse_v4(text, text), 32)
        if character == ":":
            return Ip(_parse_v6(text), 128)
        if character == "%":
            raise AddressError(f"ParseAddr({go_quote(text)}): missing IPv6 address")
    raise AddressError(f"ParseAddr({go_quote(text)}): unable to parse IP")


def _parse_v4(text: str, whole: str) -> int:
    parts = text.split(".")
    number = 0
    for part in parts:
        number = number * 256 + _octet(part, text, whole)
    if len(parts) != 4:
        problem = "IPv4 address too short" if len(parts) < 4 else "IPv4 address too long"
        raise AddressError(f"ParseAddr({go_quote(whole)}): {problem}")
    return number


def _offset(text: str, part: str) -> int:
    """Return where the first malformed part of an address begins."""
    return f".{text}.".index(f".{part}.")


def _octet(part: str, text: str, whole: str) -> int:
    if not part:
        rest = text[_offset(text, part) :]
        at = f" (at {go_quote(rest)})" if rest else ""
        problem = f"IPv4 field must have at least one digit{at}"
    elif not (part.isascii() and part.isdigit()):
        wrong = next(at for at, each in enumerate(part) if each not in "0123456789")
        rest = text[_offset(text, part) + wrong :]
        problem = f"unexpected character (at {go_quote(rest)})"
    elif len(part) > 1 and part[0] == "0":
        problem = "IPv4 field has octet with leading zero"
    elif len(part) > 3 or int(part) > 255:
        problem = "IPv4 field has value >255"
    else:
        return int(part)
    raise AddressError(f"ParseAddr({go_quote(whole)}): {problem}")


def _parse_v6(text: str) -> int:
    def error(problem: str) -> AddressError:
        return AddressError(f"ParseAddr({go_quote(text)}): {problem}")

    body, percent, zone = text.partition("%")
    if percent and not zone:
        raise error("zone must be a non-empty string")
    head, double, tail = body.partition("::")
    if (double and "::" in tail) or ":::" in body:
        raise error("multiple :: in address")
    before = _groups(head, text, last=not double)
    after = _groups(tail, text, last=True) if double else []
    count = len(before) + len(after)
    if double and count >= 8:
        raise error("the :: must expand to at least one field of zeros")
    if not double and count != 8:
        raise error("address string too short")
    number = 0
    for group in (*before, *([0] * (8 - count)), *after):
        number = number * 65536 + group
    if percent:
        raise ZoneError(number)
    return number


class ZoneError(AddressError):
    """An address with a zone."""


def _groups(text: str, whole: str, *, last: bool) -> list[int]:
    """Return the groups of a part of an IPv6 address; an IPv4 address may end it."""

    def error(problem: str) -> AddressError:
        return AddressError(f"ParseAddr({go_quote(whole)}): {problem}")

    if not text:
        return []
    found: list[int] = []
    parts = text.split(":")
    for at, part in enumerate(parts):
        if "." in part and last and at == len(parts) - 1:
            number = _parse_v4(part, whole)
            found.extend((number >> 16, number & 0xFFFF))
        elif not part or not set(part) <= _HEX:
            rest = ":".join(parts[at:]) if last else whole[len(":".join(parts[:at])) + bool(at) :]
            digits = next((index for index, each in enumerate(rest) if each not in _HEX), 0)
            if digits:
                raise error(f"unexpected character, want colon (at {go_quote(rest[digits:])})")
            problem = "each colon-separated field must have at least one digit"
            raise error(f"{problem} (at {go_quote(rest)})" if rest else problem)
        elif len(part) > 4:
            raise error("each group must have 4 or less digits")
        else:
            found.append(int(part, 16))
    return found


def _is_mapped(address: Ip) -> bool:
    return address.bits == 128 and address.number in _MAPPED


def _ip(text: str) -> Ip:
    try:
        address = parse_address(text)
    except ZoneError:
        raise CelFailure(f"IP address {go_quote(text)} with zone value is not allowed") from None
    except AddressError as error:
        shown = f"IP Address {go_quote(text)} parse error during conversion from string"
        raise CelFailure(f"{shown}: {error}") from None
    if _is_mapped(address):
        raise CelFailure(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return address


def _cidr(text: str) -> Cidr:
    prefix = "network address parse error during conversion from string: "
    try:
        network = _parse_network(text)
    except AddressError as error:
        raise CelFailure(f"{prefix}{prefix}{error}") from None
    if _is_mapped(network.address):
        shown = f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed"
        raise CelFailure(f"{prefix}{shown}")
    return network


def _parse_network(text: str) -> Cidr:
    def error(problem: str) -> AddressError:
        return AddressError(f"netip.ParsePrefix({go_quote(text)}): {problem}")

    head, slash, length = text.rpartition("/")
    if not slash:
        raise error("no '/'")
    try:
        address = parse_address(head)
    except ZoneError:
        raise error("IPv6 zones cannot be present in a prefix") from None
    except AddressError as inner:
        raise error(str(inner)) from None
    valid = length.isascii() and length.isdigit() and (length == "0" or length[0] != "0")
    if not valid:
        raise error(f"bad bits after slash: {go_quote(length)}")
    if len(length) > 3 or int(length) > address.bits:
        raise error("prefix length out of range")
    return Cidr(address, int(length))


def _is_ip(text: str) -> bool:
    try:
        _ip(text)
    except CelFailure:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        _cidr(text)
    except CelFailure:
        return False
    return True


def _masked(network: Cidr) -> Cidr:
    rest = network.address.bits - network.length
    number = network.address.number >> rest << rest
    return Cidr(Ip(number, network.address.bits), network.length)


def _contains_ip(network: Cidr, address: Ip) -> bool:
    if network.address.bits != address.bits:
        return False
    rest = address.bits - network.length
    return network.address.number >> rest == address.number >> rest


def _contains_ip_text(network: Cidr, text: str) -> bool:
    """Return whether an address is in a network; upstream does not tell why a text is none."""
    try:
        address = _ip(text)
    except CelFailure:
        raise no_such_overload() from None
    return _contains_ip(network, address)


def _contains_cidr(network: Cidr, other: Cidr) -> bool:
    return network.length <= other.length and _contains_ip(network, other.address)


def _in_v4(address: Ip, network: str, length: int) -> bool:
    rest = 32 - length
    return address.bits == 32 and address.number >> rest == int(IPv4Address(network)) >> rest


def _starts(address: Ip, prefix: int, length: int) -> bool:
    """Return whether an IPv6 address starts with the bits of a 16 bit prefix."""
    return address.bits == 128 and address.number >> (128 - length) == prefix >> (16 - length)


def _is_loopback(address: Ip) -> bool:
    return _in_v4(address, "127.0.0.0", 8) or (address.bits, address.number) == (128, 1)


def _is_link_local_unicast(address: Ip) -> bool:
    return _in_v4(address, "169.254.0.0", 16) or _starts(address, 0xFE80, 10)


def _is_link_local_multicast(address: Ip) -> bool:
    v6 = address.bits == 128 and (address.number >> 112) & 0xFF0F == 0xFF02
    return v6 or _in_v4(address, "224.0.0.0", 24)


def _is_global_unicast(address: Ip) -> bool:
    if address.number == 0 or (address.bits, address.number) == (32, 2**32 - 1):
        return False
    multicast = _in_v4(address, "224.0.0.0", 4) or _starts(address, 0xFF00, 8)
    return not (multicast or _is_loopback(address) or _is_link_local_unicast(address))


def _contains_ip_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    return math.ceil(size_of(arguments[0]) * 2 * 0.1)


def _contains_cidr_cost(arguments: tuple[Value, ...], result: Value) -> int:
    own = math.ceil(size_of(arguments[0]) * 0.1) + 1
    return _contains_ip_cost(arguments, result) + own


def _with_text(cost: Cost) -> Cost:
    """Return a cost that includes reading the second argument, a text."""

    def with_text(arguments: tuple[Value, ...], result: Value) -> int:
        return cost(arguments, result) + math.ceil(size_of(arguments[1]) * 0.1)

    return with_text


OVERLOADS: Final = (
    function("ip", "string -> ip", _ip, traversal()),
    function("isIP", "string -> bool", _is_ip, traversal()),
    function("ip.isCanonical", "string -> bool", lambda text: str(_ip(text)) == text, traversal(2)),
    method("family", "ip -> int", lambda address: 4 if address.bits == 32 else 6),
    method("isUnspecified", "ip -> bool", lambda address: address.number == 0),
    method("isLoopback", "ip -> bool", _is_loopback),
    method("isLinkLocalMulticast", "ip -> bool", _is_link_local_multicast),
    method("isLinkLocalUnicast", "ip -> bool", _is_link_local_unicast),
    method("isGlobalUnicast", "ip -> bool", _is_global_unicast),
    function("string", "ip -> string", str),
    function("cidr", "string -> cidr", _cidr, traversal()),
    function("isCIDR", "string -> bool", _is_cidr, traversal()),
    method("containsIP", "cidr, string -> bool", _contains_ip_text, _with_text(_contains_ip_cost)),
    method("containsIP", "cidr, ip -> bool", _contains_ip, _contains_ip_cost),
    method(
        "containsCIDR", "cidr, string -> bool", lambda a, b: _contains_cidr(a, _cidr(b)),
        _with_text(_contains_cidr_cost),
    ),
    method("containsCIDR", "cidr, cidr -> bool", _contains_cidr, _contains_cidr_cost),
    method("ip", "cidr -> ip", lambda network: network.address),
    method("prefixLength", "cidr -> int", lambda network: network.length),
    method("masked", "cidr -> cidr", _masked),
    function("string", "cidr -> string", str),
)  # fmt: skip
