"""Objects as the product reads them, from what is in memory."""

from collections.abc import Iterable
from typing import Any

from scheduler.sim.manifests import Manifests, collect

__all__ = ["typed"]


def typed(documents: Iterable[Any]) -> Manifests:
    """Return objects that are in memory already, as JSON or YAML was read: dicts, lists, scalars.

    Raises:
        ManifestError: One of them is not what it should be; named by its place, `objects[0]`.
    """
    named = ((f"objects[{place}]", each) for place, each in enumerate(documents))
    return collect(named, Manifests())
