"""Why a pod fits on no node: the message, and the kind of reason.

Source: kube-scheduler v1.36.3 framework/types.go FitError.Error.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler.framework.verdicts import NO_NODE, Verdict, Verdicts
from scheduler.queue.phases import PendingReason
from scheduler.state.columns.arrays import Codes

__all__ = ["count_reasons", "fit_error", "pending_reason"]

#: The plugin whose verdicts are unresolvable although pods may occupy what it looks for:
#: preemption does not free devices.
_DEVICES: Final = "DynamicResources"


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


def pending_reason(
    verdicts: Iterable[Verdict], *, refused: bool = False, blocked: bool = False
) -> PendingReason:
    """Return the kind of reason why a pod fits on no node and does not preempt.

    Args:
        verdicts: Those on the nodes, or on the pod as a whole.
        refused: Whether a policy refused its preemption on some node.
        blocked: Whether its preemption is vetoed for now.
    """
    if refused:
        return PendingReason.POLICY
    if blocked:
        return PendingReason.PAUSED
    if any(verdict.resolvable or verdict.plugin == _DEVICES for verdict in verdicts):
        return PendingReason.BUSY
    return PendingReason.NEVER_FITS
