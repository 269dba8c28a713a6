"""What is served, and where, as values; `web` serves it.

Apart from `web`, because that takes aiohttp, which is imported when serving begins.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from scheduler.observe.health import Check

__all__ = ["Listen", "Page", "Pages"]

_HEALTH: Final = ("/healthz", "/livez", "/readyz")

#: Returns a page for the query of the request and the variable parts of its path: text as it is,
#: anything else as JSON, where an asynchronous generator yields the JSON in parts. A `LookupError`
#: becomes a 404 and a `ValueError` a 400, with its message.
Page: TypeAlias = Callable[[Mapping[str, str]], object]


@dataclass(frozen=True, slots=True)
class Pages:
    """What is served."""

    #: Returns all metrics and their content type, for an `Accept` header.
    metrics: Callable[[str], tuple[bytes, str]]
    #: Returns the configuration in force, as something that JSON knows.
    configz: Callable[[], object]
    #: Returns what runs, for people.
    statusz: Callable[[], str]
    healthz: Mapping[str, Check] = field(default_factory=dict)
    livez: Mapping[str, Check] = field(default_factory=dict)
    readyz: Mapping[str, Check] = field(default_factory=dict)
    #: By path, as `/debug/queue` or `/debug/pods/{namespace}/{name}`.
    debug: Mapping[str, Page] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """Where they are."""
        return [*_HEALTH, "/metrics", "/configz", "/statusz", *self.debug]


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
    #: How often the certificate files are looked at.
    refresh_seconds: float = 60.0
