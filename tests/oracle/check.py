"""One cluster on both sides, and a disagreement made small.

Where preemption frees devices, which kube-scheduler does not do, the other side are its rules.
"""

import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.oracle import product
from tests.oracle.compare import compare, gives_up
from tests.oracle.defects import comparable
from tests.oracle.freeing import rules
from tests.oracle.freeing.generate import frees
from tests.oracle.generate import Cluster
from tests.oracle.shrink import shrink
from tests.oracle.upstream import Upstream

__all__ = ["Disagreement", "check", "first_disagreement", "small"]


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
    lines = tuple(_compared(cluster, upstream, given_up).lines)
    return Disagreement(cluster, lines) if lines else None


def small(found: Disagreement, upstream: Upstream) -> Disagreement:
    """Return a smaller cluster on which the two sides differ."""

    def differ(cluster: Cluster) -> bool:
        compared = _compared(cluster, upstream)
        if compared.theirs_fails or compared.ours_fails != whole.ours_fails:
            # An object that upstream cannot read is no cluster.
            return False
        return _kind(compared.lines) == kind

    kind = _kind(found.lines)
    whole = _compared(found.cluster, upstream)
    if whole.theirs_fails:
        return found
    cluster = shrink(found.cluster, differ)
    return check(cluster, upstream) or found


def first_disagreement(
    family: str, make: Callable[[str, int], Cluster], seeds: Iterable[int], upstream: Upstream
) -> str:
    """Return the first cluster of a family on which the two sides differ, and how; else nothing."""
    for seed in seeds:
        found = check(make(family, seed), upstream)
        if found is not None:
            return "\n".join((f"{family}:{seed}", *small(found, upstream).lines))
    return ""


def _kind(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the words that are equal for disagreements of one kind; empty for agreement."""
    if not lines:
        return ()
    _, _, text = lines[0].partition(": ")
    return tuple(re.sub(r"[^A-Za-z:]+", " ", text).split()[:2]) + tuple(
        re.findall(r"upstream \W*(\w+)", text)[:1]
    )


@dataclass(frozen=True)
class _Compared:
    """How the two sides differ on a cluster, and which of them has no answer."""

    lines: list[str]
    ours_fails: bool = False
    theirs_fails: bool = False


def _compared(
    cluster: Cluster, upstream: Upstream, given_up: Counter[str] | None = None
) -> _Compared:
    cluster = comparable(cluster, upstream.reference)
    if frees(cluster):
        return _candidates(cluster, upstream)
    ours = product.decide(cluster, upstream.reference)
    theirs = upstream.decide(cluster, ours)
    if given_up is not None:
        given_up.update(here=gives_up(ours), upstream=gives_up(theirs))
    return _Compared(compare(ours, theirs), bool(ours.error), bool(theirs.error))


def _candidates(cluster: Cluster, upstream: Upstream) -> _Compared:
    """Compare the candidates with what the rules say."""
    try:
        theirs = rules.expected(cluster.objects, upstream)
    except (AssertionError, LookupError, RuntimeError, ValueError):
        return _Compared([f"upstream: {traceback.format_exc()}"], theirs_fails=True)
    try:
        ours = product.candidates(cluster, upstream.reference)
    except Exception:  # noqa: BLE001 - whatever goes wrong is what is looked for
        return _Compared([f"here: {traceback.format_exc()}"], ours_fails=True)
    return _Compared(rules.compare(ours, theirs))
