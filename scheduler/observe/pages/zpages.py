"""`/flagz` and `/statusz`: text for people, or an object for programs that request its kind.

A program sends `Accept: application/json;g=config.k8s.io;v=v1beta1;as=Statusz`. The response to any
other media type is 406.

Source: apiserver v0.36.3 pkg/server/flagz, pkg/server/statusz.
Differs: there is no YAML and no CBOR; text has the same separator each time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from scheduler.observe.pages.negotiation import JSON, MEDIA_TYPES, TEXT, PageForm, negotiate
from scheduler.observe.pages.routes import ZPage
from scheduler.observe.pages.statuses import status

__all__ = ["Rendered", "rendered"]

GROUP: Final = "config.k8s.io"
VERSIONS: Final = ("v1beta1", "v1alpha1")
#: A response in one of these versions has a warning header.
DEPRECATED: Final = frozenset({"v1alpha1"})

#: User agents of people; JSON is indented for them.
_PEOPLE: Final = ("curl", "Wget", "Mozilla/5.0")
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


@dataclass(frozen=True, slots=True)
class Rendered:
    """A response, ready to be sent."""

    code: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def rendered(document: ZPage, accept: str, agent: str = "", pretty: str = "") -> Rendered:
    """Return a document in the requested form.

    Args:
        document: The content of the page.
        accept: The header `Accept`.
        agent: The header `User-Agent`; JSON is indented for clients that people use.
        pretty: The query parameter `pretty`, which takes precedence.
    """
    choice = negotiate(accept, document.kind, GROUP, VERSIONS)
    if choice is None:
        message = f"only the following media types are accepted: {', '.join(MEDIA_TYPES)}"
        return Rendered(406, JSON, status(406, "NotAcceptable", message))
    if choice.media_type == TEXT:
        return Rendered(200, TEXT, document.text.encode())
    indented = pretty in _TRUE if pretty else choice.pretty or agent.startswith(_PEOPLE)
    return Rendered(
        200, choice.media_type, _encoded(document, choice, indented), _warnings(document, choice)
    )


def _encoded(document: ZPage, choice: PageForm, indented: bool) -> bytes:
    value: dict[str, Any] = {
        "kind": document.kind,
        "apiVersion": f"{GROUP}/{choice.version}",
        "metadata": {"name": document.name},
        **document.fields,
    }
    body = msgspec.json.encode(value)
    return (msgspec.json.format(body, indent=2) if indented else body) + b"\n"


def _warnings(document: ZPage, choice: PageForm) -> dict[str, str]:
    if choice.version not in DEPRECATED:
        return {}
    page = document.kind.lower()
    text = f"This version of the {page} endpoint is deprecated. Please use a newer version."
    return {"Warning": f'299 - "{text}"'}
