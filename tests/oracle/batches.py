"""Many clusters in several processes, each with a program of its own."""

import multiprocessing
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Final

from tests.oracle import generate
from tests.oracle.check import Disagreement, check, small
from tests.oracle.freeing import generate as freeing
from tests.oracle.generate import Cluster
from tests.oracle.upstream import Upstream

__all__ = ["FAMILIES", "Batch", "cluster", "run"]

FAMILIES: Final = (*generate.FAMILIES, *freeing.FAMILIES)
#: Clusters that a process decides before it reports.
_SIZE = 20
#: Disagreements of a batch that are made small; it takes some hundred decisions each.
_MAX_SMALL = 3


def cluster(family: str, seed: int) -> Cluster:
    """Return a cluster of a family.

    Raises:
        KeyError: There is no such family.
    """
    maker = freeing if family in freeing.FAMILIES else generate
    return maker.cluster(family, seed)


@dataclass(frozen=True)
class Batch:
    """What came out of some clusters."""

    done: int
    found: list[Disagreement]
    #: In how many clusters a search for devices was given up, by side.
    given_up: Counter[str]


def run(reference: str, names: Sequence[tuple[str, int]], jobs: int) -> Iterator[Batch]:
    """Compare clusters with a release, named by family and seed; yield what comes out."""
    context = multiprocessing.get_context("spawn")
    parts = [names[start : start + _SIZE] for start in range(0, len(names), _SIZE)]
    with ProcessPoolExecutor(jobs, context, _Worker.start, (reference,)) as pool:
        for ended in as_completed([pool.submit(_Worker.decide, part) for part in parts]):
            yield ended.result()


class _Worker:
    """One process; its program ends with it."""

    upstream: Upstream

    @classmethod
    def start(cls, reference: str) -> None:
        cls.upstream = Upstream(reference).__enter__()

    @classmethod
    def decide(cls, names: Sequence[tuple[str, int]]) -> Batch:
        found: list[Disagreement] = []
        given_up: Counter[str] = Counter()
        for family, seed in names:
            disagreement = check(cluster(family, seed), cls.upstream, given_up)
            if disagreement is not None and len(found) < _MAX_SMALL:
                disagreement = small(disagreement, cls.upstream)
            if disagreement is not None:
                found.append(disagreement)
        return Batch(len(names), found, given_up)
