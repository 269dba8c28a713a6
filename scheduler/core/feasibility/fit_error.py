"""The message that says why a pod fits on no node.

Source: kube-scheduler v1.36.3 framework/types.go FitError.Error.
"""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from scheduler.framework.verdicts import NO_NODE, Verdicts
from scheduler.state.columns.arrays import Codes

__all__ = ["count_reasons", "fit_error"]


def count_reasons(codes: Codes, verdicts: Verdicts) -> Counter[str]:
    """Return how many nodes were rejected for each reason."""
    counts: Counter[str] = Counter()
    present = codes[(codes != 0) & (codes != NO_NODE)]
    for code, nodes in enumerate(np.bincount(present).tolist()):
        if nodes:
            for reason in verdicts[code].reasons:
                counts[reason] += nodes
    return counts


def fit_error(
    nodes: int, reasons: Iterable[tuple[str, int]], *, prefilter: str = "", post_filter: str = ""
) -> str:
    """Return the message.

    Args:
        nodes: The number of nodes.
        reasons: Reasons with the number of nodes that were rejected for them. They are sorted as
            text, as upstream does, so `10 x` comes before `2 y`.
        prefilter: Why the pod was rejected as a whole, before any node was filtered.
        post_filter: The message of the post filters.
    """
    text = f"0/{nodes} nodes are available:"
    if prefilter:
        text += f" {prefilter}."
    else:
        parts = sorted(f"{count} {reason}" for reason, count in reasons)
        if parts:
            text += f" {', '.join(parts)}."
    return f"{text} {post_filter}" if post_filter else text
