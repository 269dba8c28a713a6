"""URLs.

Source: apiserver v0.36.3 cel/library/urls.go; Go's net/url ParseRequestURI and Parse.
"""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from scheduler.cel.errors import CelFailure
from scheduler.cel.library.net import AddressError, parse_address
from scheduler.cel.library.overloads import function, method, traversal
from scheduler.cel.values import Opaque, Value, go_quote

__all__ = ["OVERLOADS", "Url", "UrlError", "check_request_uri"]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*", re.ASCII)
_ESCAPES: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
#: Characters that a host must not have, and escapes: others than those of `%` and of bytes beyond
#: ASCII, and in the zone of an address all but those of what it may have or of a blank.
_BAD_HOST: Final = re.compile(r"[ \\^`{|}/?#@]|%(?!25|[89A-Fa-f][0-9A-Fa-f])(..?)?")
_BAD_ZONE: Final = re.compile(
    r"[ \\^`{|}/?#@]|%(?!2[0-24-9A-Ea-e]|3[0-9A-Ea-e]|[46][1-9A-Fa-f]|5[0-9ABDFabdf]|7[0-9AEae])"
    r"(..?)?"
)
_USER: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_PLAIN: Final = frozenset(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~$&+,/:;=@"
)
_AS_WRITTEN: Final = _PLAIN | frozenset(b"!'()*[]%")


class UrlError(ValueError):
    """A text that is not a URL; the message is that of Go."""

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"parse {go_quote(text)}: {problem}")


class Url(Opaque):
    """A URL in parts."""

    __slots__ = ("host", "path", "query", "scheme", "text")
    name = "kubernetes.URL"

    def __init__(self, text: str) -> None:
        check_request_uri(text)
        rest, _, fragment = text.partition("#")
        if _ESCAPES.search(fragment):
            raise UrlError(text, f"invalid URL escape {_bad_escape(fragment)}")
        self.scheme, self.host, self.path, self.query = _split(rest, text)
        self.text = text

    def same(self, other: Opaque) -> bool | None:
        """Return whether two URLs are written alike."""
        assert isinstance(other, Url)
        return self._key == other._key

    @property
    def _key(self) -> tuple[str, str]:
        rest = self.text.partition(":")[2] if self.scheme else self.text
        return self.scheme, rest

    @property
    def host_name(self) -> str:
        """The host without port and brackets."""
        if self.host.startswith("["):
            return self.host[1:].partition("]")[0]
        return self.host.rpartition(":")[0] if ":" in self.host else self.host

    @property
    def port(self) -> str:
        """The port, "" if there is none."""
        rest = self.host.rpartition("]")[2] if self.host.startswith("[") else self.host
        return rest.rpartition(":")[2] if ":" in rest else ""


def check_request_uri(text: str) -> None:
    """Check that a text is an absolute URL or path, as Go's ParseRequestURI.

    Raises:
        UrlError: it is not.
    """
    _split(text, text)


def _bad_escape(text: str) -> str:
    match = _ESCAPES.search(text)
    return f'"{text[match.start() : match.start() + 3]}"' if match else '""'


def _split(rest: str, text: str) -> tuple[str, str, str, str]:
    """Return scheme, host, path and query."""
    if _CONTROL.search(rest):
        raise UrlError(text, "net/url: invalid control character in URL")
    if not rest:
        raise UrlError(text, "empty url")
    if rest == "*":
        return "", "", "*", ""
    scheme, rest = _scheme(rest, text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return scheme, "", "", query
        raise UrlError(text, "invalid URI for request")
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(authority, scheme, text), slash + path
    if _ESCAPES.search(rest):
        raise UrlError(text, f"invalid URL escape {_bad_escape(rest)}")
    return scheme, host, rest, query


def _scheme(rest: str, text: str) -> tuple[str, str]:
    head, colon, tail = rest.partition(":")
    if not colon or _SCHEME.fullmatch(head) is None:
        if rest.startswith(":"):
            raise UrlError(text, "missing protocol scheme")
        return "", rest
    return head.lower(), tail


def _host(authority: str, scheme: str, text: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and _USER.fullmatch(user) is None:
        raise UrlError(text, "net/url: invalid userinfo")
    if at and _ESCAPES.search(user):
        raise UrlError(text, f"invalid URL escape {_bad_escape(user)}")
    if host.rfind("[") > 0:
        raise UrlError(text, "invalid IP-literal")
    if host.startswith("["):
        return _bracketed(host, text)
    # Only lists of hosts, in URLs of databases, may have several colons.
    strict = scheme in ("http", "https")
    _, colon, port = host.partition(":") if strict else host.rpartition(":")
    if colon and _PORT.fullmatch(colon + port) is None:
        raise UrlError(text, f'invalid port "{colon + port}" after host')
    return _host_text(host, _BAD_HOST, text)


def _host_text(host: str, forbidden: re.Pattern[str], text: str) -> str:
    bad = forbidden.search(host)
    if bad is not None:
        found = bad.group()
        problem = f'invalid character "{found}" in host name'
        raise UrlError(text, f'invalid URL escape "{found}"' if found[0] == "%" else problem)
    return unquote_to_bytes(host).decode(errors="replace")


def _bracketed(host: str, text: str) -> str:
    """Return a host that is an address, which is one of IPv6, perhaps with a zone."""
    address, bracket, port = host[1:].rpartition("]")
    if not bracket:
        raise UrlError(text, "missing ']' in host")
    if _PORT.fullmatch(port) is None:
        raise UrlError(text, f'invalid port "{port}" after host')
    name, percent, zone = address.partition("%25")
    name, zone = _host_text(name, _BAD_HOST, text), _host_text(zone, _BAD_ZONE, text)
    try:
        is_four = parse_address(name).bits == 32
    except AddressError as error:
        raise UrlError(text, f"invalid host: {error}") from None
    if is_four or (percent and not zone):
        raise UrlError(text, "invalid IP-literal")
    return f"[{name}%{zone}]{port}" if percent else host


def _url(text: str) -> Url:
    try:
        return Url(text)
    except UrlError as error:
        raise CelFailure(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: str) -> bool:
    try:
        check_request_uri(text)
    except UrlError:
        return False
    return True


def _escaped_path(url: Url) -> str:
    if url.path == "*":
        return "*"
    octets = url.path.encode()
    if set(octets) <= _AS_WRITTEN:
        return url.path
    plain = unquote_to_bytes(octets)
    return "".join(chr(each) if each in _PLAIN else f"%{each:02X}" for each in plain)


def _query(url: Url) -> dict[Value, Value]:
    found: dict[Value, Value] = {}
    for part in url.query.split("&"):
        key, _, value = part.partition("=")
        if not part or ";" in part or _ESCAPES.search(part):
            continue
        found.setdefault(_unescaped(key), []).append(_unescaped(value))
    return found


def _unescaped(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


OVERLOADS: Final = (
    function("url", "string -> url", _url, traversal()),
    function("isURL", "string -> bool", _is_url),
    method("getScheme", "url -> string", lambda url: url.scheme),
    method("getHost", "url -> string", lambda url: url.host),
    method("getHostname", "url -> string", lambda url: url.host_name),
    method("getPort", "url -> string", lambda url: url.port),
    method("getEscapedPath", "url -> string", _escaped_path),
    method("getQuery", "url -> map(string, list(string))", _query),
)
