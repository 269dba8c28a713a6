"""What all API objects share: identity, labels, and how they are decoded."""

import msgspec

__all__ = ["ObjectMeta", "OwnerReference", "Quantities", "Value"]

Quantities = dict[str, str | int | float]


class Value(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """Base of all API values: immutable, camel case on the wire, cheap for the collector."""


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
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
