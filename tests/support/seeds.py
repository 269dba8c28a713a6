"""How many seeds random tests look at: a third of them in `make test`, all of them in `make deep`.

Tests that use this have the marker `seeded`, by which `make deep` finds them.
"""

import os
from typing import Final

__all__ = ["ALL_SEEDS", "share"]

#: Whether this is a run with all seeds.
ALL_SEEDS: Final = os.environ.get("ALL_SEEDS") == "1"


def share(count: int) -> int:
    """Return how many of some seeds, histories or examples this run looks at."""
    return count if ALL_SEEDS else -(-count // 3)
