"""Random histories of claims: no device in two claims, and nobody waits while a device is free.

No pod is bound without its reservation, either. The world asserts the first and the last at each
moment, and that nobody waits in vain when all has come to rest.

`CLAIM_HISTORIES=10000` runs so many histories; by default there are fewer, for a usual run.
"""

import os

import numpy as np
import pytest

from tests.properties.claims import Claims

HISTORIES = int(os.environ.get("CLAIM_HISTORIES", "600"))
SLICES = 6


@pytest.mark.parametrize("part", range(SLICES))
def test_claims_survive_every_history(part: int) -> None:
    for seed in range(part, HISTORIES, SLICES):
        world, random = Claims(), np.random.default_rng(seed)
        try:
            for kind, number in random.integers(
                0, (len(Claims.happenings), 64), size=(60, 2)
            ).tolist():
                world.act((kind, number))
            world.come_to_rest()
            world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
