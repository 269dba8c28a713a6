"""Base classes of API objects: identity, labels, and how they are decoded."""

import hashlib
from collections.abc import Set as AbstractSet
from typing import Annotated, Final

import msgspec

__all__ = [
    "REST",
    "AnnotatedMeta",
    "Int32",
    "Int64",
    "ObjectMeta",
    "OwnerReference",
    "Quantities",
    "Record",
    "Value",
]

#: Integers of the widths of the API; the decoder rejects larger ones.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Quantities = dict[str, str | Int64 | float]

#: The key in `annotations` of the digest of those that are not kept. The API has no empty key.
REST: Final = ""


class Value(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """Base of all API values: immutable, camel case in JSON, and not tracked by the collector."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of values that are made for each pod: immutable, made in a tenth of a dataclass's time.

    Records never form reference cycles, so the garbage collector does not have to track them.
    """


class OwnerReference(Value, frozen=True):
    """A reference to an owner of an object."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Value, frozen=True):
    """Identity and labels of an object. No rule reads annotations of most kinds."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    #: Seconds between the deletion request and the deletion timestamp; set by the API server.
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = {}
    owner_references: list[OwnerReference] = []

    @property
    def key(self) -> str:
        """Namespace and name joined by a slash, or the name alone where there is no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class AnnotatedMeta(ObjectMeta, frozen=True):
    """Metadata of an object of which some annotations are read.

    The others may hold anything, such as the whole object as it was applied, with secrets of its
    author. So their values are not kept, but a digest of them, which shows that one has changed.
    """

    annotations: dict[str, str] = {}

    def leave_out(self, names: AbstractSet[str]) -> None:
        """Replace annotations by a digest; call it in `__post_init__` only."""
        if names <= {REST}:
            return
        rest = [(name, self.annotations[name]) for name in sorted(names)]
        read = {name: text for name, text in self.annotations.items() if name not in names}
        digest = hashlib.blake2b(repr(rest).encode(), digest_size=8).hexdigest()
        msgspec.structs.force_setattr(self, "annotations", {**read, REST: digest})
