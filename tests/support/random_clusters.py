"""Random clusters for any test: the families of the differential oracle, as typed objects."""

from collections.abc import Iterable, Iterator

from scheduler.sim import manifests
from scheduler.sim.manifests import Manifests
from tests.oracle import generate

__all__ = ["clusters"]


def clusters(family: str, seeds: Iterable[int]) -> Iterator[Manifests]:
    """Yield the cluster of each seed, the same each time."""
    for seed in seeds:
        yield manifests.typed(generate.cluster(family, seed).objects)
