"""What the documents of `/api/v1` have in common.

Field names are in camel case in JSON. Times are RFC 3339 in UTC; durations are in seconds; amounts
of `cpu` are in milli-units, all other amounts in base units (bytes, devices). Fields at their
default are left out. Readers must ignore fields that they do not know: later versions add some.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

__all__ = ["Document", "OwnerView", "PodView", "Status"]


class Document(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The base of all documents and of their parts."""


class OwnerView(Document, frozen=True):
    """The controller of a pod."""

    kind: str
    name: str


class PodView(Document, frozen=True):
    """A pod, as far as the caller may know it.

    If the caller may not `get` the pods of its namespace, `hidden` is true, and only the priority
    is there: namespace, name, uid, owner and requests are empty.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""
    hidden: bool = False
    owner: OwnerView | None = None
    priority: int = 0
    #: Amounts by resource name.
    requests: Mapping[str, int] = {}


class Status(Document, frozen=True):
    """An error, as the API server of Kubernetes has it."""

    kind: Literal["Status"]
    api_version: Literal["v1"]
    metadata: Mapping[str, Any]
    status: Literal["Failure"]
    message: str
    #: A word for programs, as `Forbidden`.
    reason: str
    #: The HTTP status.
    code: int
