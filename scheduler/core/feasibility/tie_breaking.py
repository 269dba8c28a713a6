"""Picks one of the best nodes: reproducibly, and not always the first.

A hash of the pod's uid with the node's name decides between equally good nodes, so two pods seldom
choose the same one, and the same pod in the same cluster always does. Upstream takes the one that
is on top of its heap.

Axes: F feasible nodes.
"""

import hashlib

import numpy as np

from scheduler.state.columns.arrays import Rows, Scores
from scheduler.state.columns.node_columns import NodeColumns

__all__ = ["best", "pick"]

_ODD = np.uint32(0x9E3779B9)


def best(rows: Rows, scores: Scores) -> Rows:
    """Return the rows with the highest score.

    Args:
        rows: (F,) feasible rows, at least one.
        scores: (F,) their scores.
    """
    highest: Rows = rows.take((scores == np.maximum.reduce(scores)).nonzero()[0])
    return highest


def pick(ties: Rows, uid: str, columns: NodeColumns) -> int:
    """Return one of some equally good rows.

    Args:
        ties: The rows of the nodes, at least one.
        uid: The pod's uid.
        columns: Has the hashes of the names of the nodes.
    """
    if ties.shape[0] == 1:
        return int(ties[0])
    digest = hashlib.blake2b(uid.encode(errors="surrogatepass"), digest_size=4).digest()
    # Both are hashes already: one multiplication spreads the differing bits over the upper ones.
    mixed = columns.hashes().take(ties)
    mixed ^= np.uint32(int.from_bytes(digest, "little"))
    mixed *= _ODD
    return int(ties[mixed.argmax()])
