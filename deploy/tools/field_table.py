"""Writes the table of the fields of Kubernetes' objects, which plans check submitted objects with.

The source is Kubernetes' own description of its API: the file `api/openapi-spec/swagger.json` of
the Go module `k8s.io/kubernetes`, which an API server serves at `/openapi/v2`, too:

    python -m deploy.tools.field_table swagger.json > scheduler/sim/object_fields.txt

A test compares the table with the API server of the tests (tests/integration/test_strict_live.py).
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["KINDS", "table"]

Definitions = Mapping[str, Mapping[str, Any]]

#: The kinds whose fields the table has: those with pods, and those that decisions depend on.
KINDS: Final = {
    "v1": "Pod PodTemplate ReplicationController Namespace Node PersistentVolume"
    " PersistentVolumeClaim Service",
    "apps/v1": "DaemonSet Deployment ReplicaSet StatefulSet",
    "batch/v1": "CronJob Job",
    "policy/v1": "PodDisruptionBudget",
    "resource.k8s.io/v1": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
    "scheduling.k8s.io/v1": "PriorityClass",
    "storage.k8s.io/v1": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment",
}
_HEAD: Final = """\
# The fields of Kubernetes' objects, v1.37.2. Written by deploy/tools/field_table.py from
# api/openapi-spec/swagger.json of k8s.io/kubernetes. Copyright The Kubernetes Authors,
# Apache License 2.0.
# "= VERSION KIND TYPE" names the type of a kind. "TYPE FIELD:TYPE ..." are the fields of a type;
# "!" marks one that the API server requires. s string, i integer, n number, b boolean, q quantity,
# x integer or string, * anything; "[" a list of, "{" a map of.
"""
_REFERENCE: Final = "#/definitions/"
_SCALARS: Final = {"string": "s", "integer": "i", "number": "n", "boolean": "b", "object": "*"}
_FORMATS: Final = {"int-or-string": "x"}
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
#: Required in the description, but the API server takes their zero values for granted.
_NOT_REQUIRED: Final = frozenset(
    {
        ("ExecAction", "command"), ("HTTPHeader", "value"), ("PodDNSConfigOption", "name"),
        ("PreferredSchedulingTerm", "preference"), ("PriorityClass", "value"),
    }
)  # fmt: skip
#: Required by the API server, but not in the description.
_REQUIRED: Final = frozenset(
    {
        ("Container", "image"), ("EphemeralContainer", "image"),
        ("Job", "spec"), ("JobTemplateSpec", "spec"), ("PersistentVolume", "spec"),
        ("PersistentVolumeClaim", "spec"), ("PersistentVolumeClaimSpec", "accessModes"),
        ("PersistentVolumeClaimSpec", "resources"), ("PersistentVolumeSpec", "accessModes"),
        ("PersistentVolumeSpec", "capacity"), ("Pod", "spec"), ("PodTemplate", "template"),
        ("PodTemplateSpec", "spec"), ("ReplicationController", "spec"),
        ("ReplicationControllerSpec", "template"), ("ServicePort", "port"),
    }
)  # fmt: skip


def table(swagger: Mapping[str, Any]) -> str:
    """Return the table for the description of an API."""
    definitions: Definitions = swagger["definitions"]
    roots = [
        (version, kind, _root(definitions, version, kind))
        for version, kinds in KINDS.items()
        for kind in kinds.split()
    ]
    found = _reachable(definitions, [name for _, _, name in roots])
    names = _short(found)
    lines = [f"= {version} {kind} {names[name]}" for version, kind, name in roots]
    for name in sorted(found, key=names.__getitem__):
        definition = definitions[name]
        required = set(definition.get("required", ()))
        fields = [
            f"{field}{_mark(names[name], field, required)}:{_type(schema, names)}"
            for field, schema in sorted(definition.get("properties", {}).items())
        ]
        lines.append(" ".join((names[name], *fields)))
    return _HEAD + "\n".join(lines) + "\n"


def _root(definitions: Definitions, version: str, kind: str) -> str:
    group, _, of_group = version.rpartition("/")
    wanted = {"group": group, "version": of_group, "kind": kind}
    return next(
        name
        for name, each in definitions.items()
        if wanted in each.get("x-kubernetes-group-version-kind", ())
    )


def _reachable(definitions: Definitions, todo: list[str]) -> set[str]:
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name in found or not _has_fields(definitions, name):
            continue
        found.add(name)
        for schema in definitions[name]["properties"].values():
            todo += _references(schema)
    return found


def _has_fields(definitions: Definitions, name: str) -> bool:
    return "properties" in definitions[name]


def _references(schema: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"].removeprefix(_REFERENCE)
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from _references(schema[inner])


def _short(found: set[str]) -> dict[str, str]:
    """Return the last part of each name, with the group where several groups have it."""
    last: dict[str, list[str]] = {}
    for name in found:
        last.setdefault(name.rpartition(".")[2], []).append(name)
    return {
        name: short if len(names) == 1 else f"{name.split('.')[-3]}.{short}"
        for short, names in last.items()
        for name in names
    }


def _mark(type_: str, field: str, required: set[str]) -> str:
    if (type_, field) in _NOT_REQUIRED:
        return ""
    return "!" if field in required or (type_, field) in _REQUIRED else ""


def _type(schema: Mapping[str, Any], names: Mapping[str, str]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        if name == _QUANTITY:
            return "q"
        if name.endswith("IntOrString"):
            return "x"
        return names.get(name, "s" if name.endswith(("Time", "MicroTime")) else "*")
    if schema.get("type") == "array":
        return f"[{_type(schema['items'], names)}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{{{_type(schema['additionalProperties'], names)}"
    return _FORMATS.get(schema.get("format", ""), _SCALARS.get(schema.get("type", ""), "*"))


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), end="")
