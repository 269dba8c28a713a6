"""What is served, and where, as values; `web` serves it.

Apart from `web`, because that takes aiohttp, which is imported when serving begins.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ssl import TLSVersion
from typing import Any, Final, TypeAlias

from scheduler.observe.pages.health import Check
from scheduler.observe.rates import Allowance

__all__ = ["Document", "Limits", "Listen", "Page", "Pages"]

_HEALTH: Final = ("/healthz", "/livez", "/readyz")

#: Returns a page for the query of the request and the variable parts of its path: text as it is,
#: anything else as JSON, where an asynchronous generator yields the JSON in parts. A `LookupError`
#: becomes a 404 and a `ValueError` a 400, with its message.
Page: TypeAlias = Callable[[Mapping[str, str]], object]


@dataclass(frozen=True, slots=True)
class Document:
    """A page that is text for people, and an object for programs that ask for one."""

    #: The kind of the object, as `Statusz`.
    kind: str
    #: The name of the component that it is about.
    name: str
    text: str
    #: The fields of the object besides its type and name, of strings, numbers, lists and mappings.
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pages:
    """What is served."""

    #: Returns all metrics and their content type, for an `Accept` header.
    metrics: Callable[[str], tuple[bytes, str]]
    #: Returns the configuration in force, as something that JSON knows.
    configz: Callable[[], object]
    #: Returns the flags in force.
    flagz: Callable[[], Document]
    #: Returns what runs.
    statusz: Callable[[], Document]
    healthz: Mapping[str, Check] = field(default_factory=dict)
    livez: Mapping[str, Check] = field(default_factory=dict)
    readyz: Mapping[str, Check] = field(default_factory=dict)
    #: By path, as `/debug/queue` or `/debug/pods/{namespace}/{name}`.
    debug: Mapping[str, Page] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """Where they are."""
        return [*_HEALTH, "/metrics", "/configz", "/flagz", "/statusz", *self.debug]


_ACCEPTS: Final = Allowance(per_second=1000, burst=1000)
_HANDSHAKES: Final = Allowance(per_second=50, burst=300)
_PEER_HANDSHAKES: Final = Allowance(per_second=30, burst=150)
_PEER_REQUESTS: Final = Allowance(per_second=100, burst=200)


@dataclass(frozen=True, slots=True)
class Limits:
    """What all clients together, and one of them, may take."""

    #: Connections; fewer where the process may have few descriptors. One peer has three quarters.
    connections: int = 512
    #: Connections that are accepted; each costs some 50 µs, and the others wait in the kernel.
    accepts: Allowance = _ACCEPTS
    #: Handshakes, each some 1 ms of CPU, half of it outside of Python: in all, and of one peer.
    handshakes: Allowance = _HANDSHAKES
    peer_handshakes: Allowance = _PEER_HANDSHAKES
    #: Requests of one peer; each costs some 0.2 ms of CPU. Those that are too many wait.
    peer_requests: Allowance = _PEER_REQUESTS
    #: In which time a handshake has to be done, its turn included.
    handshake_seconds: float = 5.0
    #: Pages at a time, those of health not counted; more of them are refused with 503.
    pages: int = 32


@dataclass(frozen=True, slots=True)
class Listen:
    """Where, and how, is served."""

    address: str = "0.0.0.0"
    #: 0 switches serving off.
    port: int = 10259
    #: Both empty: a self-signed certificate.
    cert_file: str = ""
    key_file: str = ""
    #: Serve HTTP without TLS; for local use.
    plain: bool = False
    #: In which time a connection has to ask for something, at first and again.
    idle_seconds: float = 30.0
    #: In which time a reviewer has to answer; without an answer nobody is let in.
    review_seconds: float = 10.0
    #: In which time an answer has to be taken, the review included.
    answer_seconds: float = 60.0
    #: How often it is looked whether there is a new certificate, or need for one.
    refresh_seconds: float = 60.0
    #: The oldest protocol that is spoken.
    min_version: TLSVersion = TLSVersion.TLSv1_2
    #: Cipher suites up to TLS 1.2, as OpenSSL calls them; empty for its own choice.
    ciphers: str = ""
    limits: Limits = field(default_factory=Limits)
