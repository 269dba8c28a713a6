"""Pods take no more memory than was measured, and the recommended sizes are enough for that."""

from pathlib import Path
from typing import Final

import msgspec
import pytest

from scheduler.model.api import quantity
from tests.perf.bench_memory import bytes_each
from tests.support.memory_mixes import MIXES

ROOT: Final = Path(__file__).parents[2]
#: The clusters for which the chart's sizes are: nodes and pods.
CLUSTERS: Final = {"small": (1000, 30_000), "medium": (5000, 150_000), "large": (15_000, 300_000)}
#: Of the memory that the formula gives, what a size must have: some is for what cannot be foreseen.
SPARE: Final = 1.2


class Taken(msgspec.Struct, forbid_unknown_fields=True):
    """What each pod of a mix takes: resident kB, and bytes that Python allocates."""

    resident_kb: float
    allocated: int


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """`memory.yaml`."""

    provenance: str
    headroom: float
    empty_mib: int
    node_kb: float
    pods: dict[str, Taken]


RECORD: Final = msgspec.yaml.decode(
    Path(__file__).with_name("memory.yaml").read_bytes(), type=Record
)
SIZES: Final = msgspec.yaml.decode(
    (ROOT / "charts/preemptive-scheduler/sizes.yaml").read_bytes(), type=dict[str, dict[str, str]]
)


def test_every_mix_was_measured():
    assert RECORD.provenance
    assert RECORD.pods.keys() == MIXES.keys()


@pytest.mark.parametrize("mix", MIXES)
def test_a_pod_takes_no_more_memory_than_its_budget_allows(mix: str):
    assert bytes_each(mix, 1000, 100) <= RECORD.pods[mix].allocated * RECORD.headroom


@pytest.mark.parametrize("size", SIZES)
def test_a_size_of_the_chart_is_enough_for_ordinary_pods_of_its_cluster(size: str):
    nodes, pods = CLUSTERS[size]
    each = RECORD.pods["ordinary"].resident_kb
    needed = RECORD.empty_mib * 2**20 + 1000 * (nodes * RECORD.node_kb + pods * each)

    assert SPARE <= quantity.value(SIZES[size]["memory"]) / needed <= 2 * SPARE


def test_the_page_on_sizing_has_what_was_measured():
    page = " ".join((ROOT / "docs/installation.md").read_text(encoding="utf-8").split())
    kinds = {mix: f"{taken.resident_kb:g} kB" for mix, taken in RECORD.pods.items()}

    assert f"{RECORD.empty_mib} MiB + nodes * {RECORD.node_kb:g} kB + pods * kB" in page
    for figure in kinds.values():
        assert f"| {figure} |" in page
    for size, requests in SIZES.items():
        nodes, pods = CLUSTERS[size]
        row = f"| `{size}` | {nodes:,} | {pods:,} | {requests['cpu']} | {requests['memory']} |"
        assert row in page
