"""What all API objects share: identity, labels, and how they are decoded."""

from typing import Annotated

import msgspec

__all__ = ["Int32", "Int64", "ObjectMeta", "OwnerReference", "Quantities", "Record", "Value"]

#: Integers as wide as those of the API: nothing wider gets past the decoder.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Quantities = dict[str, str | Int64 | float]


class Value(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """Base of all API values: immutable, camel case on the wire, cheap for the collector."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of what is made anew for each pod: immutable, and made in a tenth of a dataclass's time.

    Records never refer to each other in a circle, so the collector need not know them.
    """


class OwnerReference(Value, frozen=True):
    """Who manages an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Value, frozen=True):
    """Identity and labels of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    #: Seconds between the deletion and its stamp; set by the API server.
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
