"""The paths that are served, each with what returns its page; `observe/server` serves them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from scheduler.observe.api.requests import ApiPage
from scheduler.observe.pages.health import Check
from scheduler.observe.pages.what_if import WhatIfPage

__all__ = ["Page", "Routes", "ZPage"]

_HEALTH: Final = ("/healthz", "/livez", "/readyz")

#: Returns a page for the query of the request and the variable parts of its path. Text is served
#: as it is, anything else as JSON; an asynchronous generator yields the JSON in parts. A
#: `LookupError` becomes a 404 and a `ValueError` a 400, with its message.
Page: TypeAlias = Callable[[Mapping[str, str]], object]


@dataclass(frozen=True, slots=True)
class ZPage:
    """A page that is text for people, and an object for programs that request one."""

    #: The kind of the object, as `Statusz`.
    kind: str
    #: The name of the component that it is about.
    name: str
    text: str
    #: The fields of the object besides its type and name, of strings, numbers, lists and mappings.
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Routes:
    """All pages that are served."""

    #: Returns all metrics and their content type, for an `Accept` header.
    metrics: Callable[[str], tuple[bytes, str]]
    #: Returns the configuration in force, as a value that JSON can encode.
    configz: Callable[[], object]
    #: Returns the flags in force.
    flagz: Callable[[], ZPage]
    #: Returns versions, start time and size of the process.
    statusz: Callable[[], ZPage]
    healthz: Mapping[str, Check] = field(default_factory=dict)
    livez: Mapping[str, Check] = field(default_factory=dict)
    readyz: Mapping[str, Check] = field(default_factory=dict)
    #: By path, as `/debug/queue` or `/debug/pods/{namespace}/{name}`.
    debug: Mapping[str, Page] = field(default_factory=dict)
    #: The documents of `/api/v1` by path, for `GET`.
    api: Mapping[str, ApiPage] = field(default_factory=dict)
    #: Answers `POST /api/v1/plan`; `None` where there are no what-ifs.
    what_if: WhatIfPage | None = None
    #: Whether all of it is about a scheduler in shadow mode, as each response says then.
    shadow: bool = False
    #: Whether this replica leads, as each response of the API says; called in the serving thread.
    leads: Callable[[], bool] = lambda: True

    @property
    def paths(self) -> list[str]:
        """The paths of all pages."""
        return [*_HEALTH, "/metrics", "/configz", "/flagz", "/statusz", *self.debug, *self.api]
