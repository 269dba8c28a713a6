"""Random clusters for any test: the families of the differential oracle, as typed objects."""

from collections.abc import Iterable, Iterator

from scheduler.sim import manifests
from scheduler.sim.manifests import Manifests
from tests.oracle import generate
from tests.oracle.generating.dice import Object

__all__ = ["clusters", "typed"]


def clusters(family: str, seeds: Iterable[int]) -> Iterator[Manifests]:
    """Yield the cluster of each seed, the same each time."""
    for seed in seeds:
        yield typed(generate.cluster(family, seed).objects)


def typed(objects: Iterable[Object]) -> Manifests:
    """Return API objects as `plan` reads them from files."""
    found = Manifests()
    for number, each in enumerate(objects):
        manifests._add(found, each, f"objects[{number}]")
    return found
