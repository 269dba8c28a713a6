"""Chooses the form of a page by the `Accept` header.

Source: apiserver v0.36.3 pkg/endpoints/handlers/negotiation, pkg/server/{flagz,statusz}/negotiate;
goautoneg ParseAccept.
Differs: a media type with `q=0` is never chosen, as RFC 9110 requires; a wildcard is ordered by its
weight first.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["JSON", "MEDIA_TYPES", "TEXT", "PageForm", "negotiate"]

JSON: Final = "application/json"
TEXT: Final = "text/plain"
#: In the order in which they are tried for a wildcard.
MEDIA_TYPES: Final = (JSON, TEXT)

#: Parameters that identify the type of an object: its kind, group and version.
_TYPE: Final = ("as", "g", "v")
#: Parameters for features that these pages do not have: a stream, a version of the server.
_REFUSED: Final = ("stream", "sv")


@dataclass(frozen=True, slots=True)
class PageForm:
    """The form of a page."""

    media_type: str
    #: The version of the structured object; empty for text.
    version: str = ""
    #: Whether it should be indented for people.
    pretty: bool = False


@dataclass(frozen=True, slots=True)
class _Clause:
    """One media type of the header, with its parameters."""

    kind: str
    subtype: str
    weight: float
    parameters: Mapping[str, str]

    def matches(self, media_type: str) -> bool:
        kind, _, subtype = media_type.partition("/")
        return self.kind in ("*", kind) and self.subtype in ("*", subtype)


def negotiate(accept: str, kind: str, group: str, versions: Collection[str]) -> PageForm | None:
    """Return the preferred form; `None` if none of the accepted forms is available.

    Args:
        accept: The header; if it is empty, the form is text.
        kind: The kind of the structured object.
        group: Its API group.
        versions: Its available versions.
    """
    if not accept.strip():
        return PageForm(TEXT)
    wanted = (kind, group)
    for clause in _clauses(accept):
        for media_type in MEDIA_TYPES:
            if not clause.matches(media_type):
                continue
            choice = _choice(clause, media_type)
            if choice is None:
                continue
            if media_type == TEXT or (choice[0] == wanted and choice[1].version in versions):
                return choice[1]
    return None


def _choice(clause: _Clause, media_type: str) -> tuple[tuple[str, str], PageForm] | None:
    """Return kind and group that a clause requests, and the form; `None` if it is unsupported."""
    given = clause.parameters
    if any(given.get(name) for name in _REFUSED):
        return None
    if media_type == TEXT and any(name in given for name in _TYPE):
        return None
    kind, group, version = (given.get(name, "") for name in _TYPE)
    return (kind, group), PageForm(media_type, version, given.get("pretty") == "1")


def _clauses(accept: str) -> list[_Clause]:
    """Return the clauses of the header, most preferred first."""
    clauses = [clause for clause in _parsed(accept) if clause.weight > 0]
    return sorted(
        clauses, key=lambda clause: (-clause.weight, clause.kind == "*", clause.subtype == "*")
    )


def _parsed(accept: str) -> Iterator[_Clause]:
    for part in accept.split(","):
        media_type, *rest = part.split(";")
        kind, _, subtype = (word.strip(" ") for word in media_type.partition("/"))
        if kind == "*" and not subtype:
            subtype = "*"
        if not subtype or "/" in subtype:
            continue
        parameters = {}
        for parameter in rest:
            name, _, value = (word.strip(" ") for word in parameter.partition("="))
            if value and "=" not in value:
                parameters[name] = value
        yield _Clause(kind, subtype, _weight(parameters.pop("q", "1")), parameters)


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
