"""Reads objects from YAML, and finds the API path of an object by its kind."""

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import yaml

Json: TypeAlias = dict[str, Any]

CRD = "CustomResourceDefinition"


def documents(source: Path | Json | Iterable[Json]) -> Iterator[Json]:
    """Yield the objects of a YAML file or of a folder with YAML files, or the given objects.

    Lists are replaced by their items.
    """
    if isinstance(source, Path):
        files = sorted(source.glob("*.y*ml")) if source.is_dir() else [source]
        objects: Iterable[Json | None] = (
            document for file in files for document in yaml.safe_load_all(file.read_text())
        )
    elif isinstance(source, dict):
        objects = [source]
    else:
        objects = source
    for document in objects:
        if document is None:
            continue
        if document["kind"] == "List":
            yield from documents(document["items"])
        else:
            yield document


class ResourcePaths:
    """Finds the paths of kinds by discovery; each kind is looked up once.

    Args:
        discover: lists the resources of a group version, /api/v1 or /apis/<group>/<version>.
    """

    def __init__(self, discover: Callable[[str], list[Json]]) -> None:
        self._discover = discover
        self._lock = threading.Lock()
        self._resources: dict[str, dict[str, Json]] = {}

    def of(self, document: Json) -> str:
        """Return the path of an object; the default namespace is `default`.

        Raises:
            LookupError: the server does not know the kind.
        """
        version = document["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resource = self._resource(root, document["kind"])
        metadata = document["metadata"]
        if resource["namespaced"]:
            root = f"{root}/namespaces/{metadata.get('namespace', 'default')}"
        return f"{root}/{resource['name']}/{metadata['name']}"

    def _resource(self, root: str, kind: str) -> Json:
        with self._lock:
            if kind not in self._resources.get(root, {}):
                self._resources[root] = {
                    resource["kind"]: resource
                    for resource in self._discover(root)
                    if "/" not in resource["name"]
                }
            try:
                return self._resources[root][kind]
            except KeyError:
                raise LookupError(f"the API server has no {kind} in {root}") from None
