"""Counters over pods, updated from changes."""

from weakref import ref

import numpy as np
import pytest

from scheduler.state.cluster import Cluster
from scheduler.state.pods.pod_index import LabelSet
from scheduler.state.views import counters
from scheduler.state.views.counters import Domains, PodWeights, TopologyCounter
from tests.support.builders import PodBuilder, node, pod


@pytest.fixture
def cluster() -> Cluster:
    """Three nodes in zone a, two in b, one in none."""
    made = Cluster()
    for number, zone in enumerate(["a", "a", "a", "b", "b", ""]):
        named = node(f"n{number}")
        made.write_node((named.label("zone", zone) if zone else named).build())
    return made


def webs(cluster: Cluster) -> PodWeights[LabelSet]:
    """Count 2 for each pod with `app: web`."""
    return counters.of_labels(
        cluster.pods.pod_index, "webs", lambda looks: 2 * (looks.labels.get("app") == "web")
    )


def by_zone(cluster: Cluster) -> TopologyCounter:
    columns = cluster.columns
    return counters.by_domain(
        webs(cluster), "zone", lambda: Domains(columns.labels.column("zone")), columns
    )


def sums(tally: TopologyCounter) -> dict[str, int]:
    tally.refresh()
    values = tally.domains.column.values
    found = zip(values, tally.sums.tolist(), tally.members.tolist(), strict=False)
    return {str(value): total for value, total, members in found if members}


def web(name: str) -> PodBuilder:
    return pod(name).label("app", "web")


def test_after_a_burst_of_changes_all_pods_are_counted(cluster: Cluster) -> None:
    domains, rows = by_zone(cluster), counters.by_row(webs(cluster))
    assert sums(domains) == {"a": 0, "b": 0}
    assert rows.rows(6).tolist() == [0] * 6

    for number in range(300):
        cluster.place(web(f"w{number}").build(), f"n{number % 6}")
    for number in range(100):
        cluster.write_node(node(f"n{number % 6}").label("zone", f"z{number % 6}").build())

    assert sums(domains) == {f"z{number}": 100 for number in range(6)}
    assert rows.rows(6).tolist() == [100] * 6


def test_counters_outlive_any_number_of_pods_with_labels_of_their_own(cluster: Cluster) -> None:
    domains, rows = by_zone(cluster), counters.by_row(webs(cluster))
    cluster.place(web("stays").build(), "n3")

    for number in range(2500):
        passing = web("passes") if number % 3 else pod("passes")
        cluster.place(passing.label("number", str(number)).build(), f"n{number % 6}")
        if number % 100 == 0:
            on_row = np.zeros(6, dtype=np.int64)
            on_row[3] = 2
            on_row[number % 6] += 2 * bool(number % 3)
            assert rows.rows(6).tolist() == on_row.tolist()
            assert sums(domains) == {"a": int(on_row[:3].sum()), "b": int(on_row[3:5].sum())}

    assert len(cluster.pods.pod_index.label_sets) < 3000
    cluster.check()


def test_equal_questions_share_one_counter(cluster: Cluster) -> None:
    first = by_zone(cluster)
    alive = ref(first)

    assert by_zone(cluster) is first
    assert counters.by_row(webs(cluster)) is not first
    del first

    assert alive() is None


def test_domains_stay_correct_when_codes_are_reused(cluster: Cluster) -> None:
    tally = by_zone(cluster)
    for number in range(6):
        cluster.place(web(f"w{number}").build(), f"n{number}")

    for turn in range(1_000):
        cluster.write_node(node(f"n{turn % 6}").label("zone", f"zone-{turn // 2}").build())
        if turn % 3 == 0:
            want: dict[str, int] = {}
            for each in filter(None, cluster.columns.nodes):
                zone = each.metadata.labels.get("zone")
                if zone:
                    want[zone] = want.get(zone, 0) + 2
            assert sums(tally) == want

    assert len(tally.domains.column.values) < 200
