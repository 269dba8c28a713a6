"""Which of the best nodes: reproducible, and not always the first.

Equally good nodes are told apart by a hash of the pod's uid with the node's name, so two pods
seldom choose the same one, and the same pod in the same cluster always does. Upstream takes the
one that its heap happens to have on top.

Axes: F feasible nodes.
"""

import hashlib

import numpy as np

from scheduler.state.columns.arrays import Rows, Scores
from scheduler.state.columns.node_columns import NodeColumns

__all__ = ["among", "best"]

_ODD = np.uint32(0x9E3779B9)


def best(rows: Rows, scores: Scores) -> Rows:
    """Return the rows that none is better than.

    Args:
        rows: (F,) feasible rows, at least one.
        scores: (F,) how good they are.
    """
    found: Rows = rows.take((scores == np.maximum.reduce(scores)).nonzero()[0])
    return found


def among(ties: Rows, uid: str, columns: NodeColumns) -> int:
    """Return one of some equally good rows, at least one.

    Args:
        ties: Rows of nodes.
        uid: The pod's.
        columns: Where the hashes of the names are.
    """
    if ties.shape[0] == 1:
        return int(ties[0])
    digest = hashlib.blake2b(uid.encode(errors="surrogatepass"), digest_size=4).digest()
    # Both are hashes already: one multiplication spreads what differs over the upper bits.
    mixed = columns.hashes().take(ties)
    mixed ^= np.uint32(int.from_bytes(digest, "little"))
    mixed *= _ODD
    return int(ties[mixed.argmax()])
