"""Random clusters for any test: the families of the differential oracle, as typed objects."""

from collections.abc import Iterable, Iterator

from scheduler.sim.manifests import Manifests
from tests.oracle import generate
from tests.support.typed import typed

__all__ = ["clusters"]


def clusters(family: str, seeds: Iterable[int]) -> Iterator[Manifests]:
    """Yield the cluster of each seed, the same each time."""
    for seed in seeds:
        yield typed(generate.cluster(family, seed).objects)
