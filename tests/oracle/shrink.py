"""Makes a disagreement small: whatever can be taken away without losing it is taken away."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.oracle.generate import Cluster

__all__ = ["shrink"]

Disagrees = Callable[[Cluster], bool]

#: Paths that objects need to be objects.
_NEEDED = frozenset(
    {
        ("apiVersion",), ("kind",), ("metadata",), ("spec",), ("status",),
        ("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid"),
        ("spec", "containers"), ("spec", "priority"), ("spec", "schedulerName"),
        ("spec", "nodeName"), ("status", "allocatable"), ("status", "startTime"),
    }
)  # fmt: skip
#: Keys that are needed wherever they stand.
_NEEDED_ANYWHERE = frozenset(
    {
        "name", "key", "operator", "topologyKey", "whenUnsatisfiable", "maxSkew", "apiVersion",
        "kind", "claimName", "driver", "pool", "device", "generation", "resourceSliceCount",
        "deviceClassName", "allocationMode", "expression", "cel", "opaque", "exactly", "values",
        "effect", "value", "counterSet", "counters", "request", "int", "string", "version", "bool",
        "uid", "resource", "resourceClaimName", "resourceClaimTemplateName", "matchAttribute",
        "distinctAttribute", "nodeSelectorTerms", "matchExpressions", "matchFields", "source",
    }
)  # fmt: skip


def shrink(cluster: Cluster, disagrees: Disagrees) -> Cluster:
    """Return a cluster that disagrees and from which nothing more can be taken.

    Args:
        cluster: One that disagrees.
        disagrees: Tells whether a cluster does.
    """
    if cluster.settle and disagrees(once := replace(cluster, settle=False)):
        cluster = once
    if cluster.config is not None and disagrees(plain := replace(cluster, config=None)):
        cluster = plain
    while True:
        smaller = _without_objects(cluster, disagrees)
        smaller = _without_fields(smaller, disagrees)
        if smaller == cluster:
            return cluster
        cluster = smaller


def _without_objects(cluster: Cluster, disagrees: Disagrees) -> Cluster:
    """Take away runs of objects, long runs first."""
    length = len(cluster.objects) // 2
    while length:
        start = 0
        while start < len(cluster.objects):
            left = cluster.objects[:start] + cluster.objects[start + length :]
            smaller = replace(cluster, objects=left)
            if disagrees(smaller):
                cluster = smaller
            else:
                start += length
        length //= 2
    return cluster


def _without_fields(cluster: Cluster, disagrees: Disagrees) -> Cluster:
    """Take away fields and list entries, outer ones first."""
    whole: dict[str, Any] = {"objects": cluster.objects, "config": cluster.config}
    tried: set[tuple[Any, ...]] = set()
    while True:
        path = next((each for each in _paths(whole) if each not in tried), None)
        if path is None:
            return replace(cluster, objects=whole["objects"], config=whole["config"])
        tried.add(path)
        smaller = copy.deepcopy(whole)
        _remove(smaller, path)
        if disagrees(replace(cluster, objects=smaller["objects"], config=smaller["config"])):
            whole = smaller
            # Entries behind a removed one have moved up.
            tried = {each for each in tried if each[: len(path) - 1] != path[:-1]} | (
                {path} if isinstance(path[-1], str) else set()
            )


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all that may be taken away, outer ones first."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    for key in keys:
        if len(path) > 1 and not _needed((*path, key)):
            yield (*path, key)
    for key in keys:
        yield from _paths(value[key], (*path, key))


def _needed(path: tuple[Any, ...]) -> bool:
    if path[-1] in _NEEDED_ANYWHERE:
        return True
    # A container must be left.
    if path[0] == "objects" and path[2:] == ("spec", "containers", 0):
        return True
    return path[0] == "objects" and path[2:] in _NEEDED


def _remove(value: Any, path: tuple[Any, ...]) -> None:
    for key in path[:-1]:
        value = value[key]
    del value[path[-1]]
