"""One cluster on both sides, and a disagreement made small."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.oracle import product
from tests.oracle.compare import compare, gives_up
from tests.oracle.defects import comparable
from tests.oracle.generate import Cluster
from tests.oracle.shrink import shrink
from tests.oracle.upstream import Upstream
from tests.oracle.verdicts import Answer

__all__ = ["Disagreement", "check", "small"]


@dataclass(frozen=True)
class Disagreement:
    """A cluster on which the two sides differ, and how."""

    cluster: Cluster
    lines: tuple[str, ...]


def check(
    cluster: Cluster, upstream: Upstream, given_up: Counter[str] | None = None
) -> Disagreement | None:
    """Decide a cluster on both sides; `None` when they agree.

    Args:
        cluster: The cluster.
        upstream: The other side.
        given_up: Counts the side on which a search for devices is given up, if there is one.
    """
    ours, theirs = _both(cluster, upstream)
    if given_up is not None:
        given_up.update(here=gives_up(ours), upstream=gives_up(theirs))
    lines = tuple(compare(ours, theirs))
    return Disagreement(cluster, lines) if lines else None


def small(found: Disagreement, upstream: Upstream) -> Disagreement:
    """Return a smaller cluster on which the two sides differ."""

    def differ(cluster: Cluster) -> bool:
        ours, theirs = _both(cluster, upstream)
        if theirs.error or bool(ours.error) != failed:
            # An object that upstream cannot read is no cluster.
            return False
        return _kind(compare(ours, theirs)) == kind

    kind = _kind(found.lines)
    ours, theirs = _both(found.cluster, upstream)
    failed = bool(ours.error)
    if theirs.error:
        return found
    cluster = shrink(found.cluster, differ)
    return check(cluster, upstream) or found


def _kind(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the words that are equal for disagreements of one kind; empty for agreement."""
    if not lines:
        return ()
    _, _, text = lines[0].partition(": ")
    return tuple(re.sub(r"[^A-Za-z:]+", " ", text).split()[:2]) + tuple(
        re.findall(r"upstream \W*(\w+)", text)[:1]
    )


def _both(cluster: Cluster, upstream: Upstream) -> tuple[Answer, Answer]:
    cluster = comparable(cluster, upstream.reference)
    ours = product.decide(cluster, upstream.reference)
    return ours, upstream.decide(cluster, ours)
