"""Preemptions for devices are transactions, whatever happens to claims, answers and processes.

At each moment no device is in two claims of this scheduler, and a pod is only evicted for a more
important one whose plan the API server has. At the end nothing is kept for pods that do not come,
wasted evictions are bounded, and a process that begins then would place none of those that wait. In
calm worlds, where nothing but answers, watches and leaders fail, no eviction is in vain.

`DEVICE_HISTORIES=10000` runs so many histories; by default there are fewer, for a usual run.
"""

import os

import numpy as np
import pytest

from tests.properties.device_preemptions import DevicePreemptions
from tests.support.seeds import share

pytestmark = pytest.mark.seeded

HISTORIES = int(os.environ.get("DEVICE_HISTORIES") or share(600))
SLICES = 6


@pytest.mark.parametrize("part", range(SLICES))
def test_devices_of_victims_go_to_their_preemptors_in_every_history(part: int) -> None:
    evicted = kills = 0
    for seed in range(part, HISTORIES, SLICES):
        world, random = DevicePreemptions(calm=seed % 2 == 0), np.random.default_rng(seed)
        kinds = len(world.happenings)
        try:
            for kind, number in random.integers(0, (kinds, 64), size=(150, 2)).tolist():
                world.act((kind, number))
            world.come_to_rest()
            world.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        evicted += world.evicted
        kills += world.kills
    assert evicted > HISTORIES // SLICES // 2
    assert kills > HISTORIES // SLICES
