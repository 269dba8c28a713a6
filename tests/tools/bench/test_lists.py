"""The measurement of a start with many pods, on a real API server."""

import pytest

from deploy.tools.bench.lists import WAYS, measure


@pytest.mark.deep
@pytest.mark.cluster
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", WAYS)
def test_a_scheduler_knows_every_pod_although_history_is_discarded(way):
    told: list[str] = []

    measure(2000, 11_000, way, told.append)

    assert told[0].startswith("2000 pods of 11")
    assert any("history compacted" in each for each in told)
    assert any('"pods":1999' in each or '"pods":2000' in each for each in told)
