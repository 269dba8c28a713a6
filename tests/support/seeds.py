"""How many seeds random tests look at: a third of them in `make test`, all of them in `make deep`.

Tests that use this have the marker `seeded`, by which `make deep` finds them.
"""

import os
import time
from typing import Final

__all__ = ["ALL_SEEDS", "first_seed", "share"]

#: Whether this is a run with all seeds.
ALL_SEEDS: Final = os.environ.get("ALL_SEEDS") == "1"


def share(count: int) -> int:
    """Return how many of some seeds, histories or examples this run looks at."""
    return count if ALL_SEEDS else -(-count // 3)


def first_seed() -> int:
    """Return the seed of this day: clusters that no other day has."""
    given = os.environ.get("FIDELITY_SEED")
    return int(given) if given else int(time.strftime("%Y%m%d", time.gmtime())) * 1000
