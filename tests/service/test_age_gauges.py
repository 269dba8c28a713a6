"""The age of the oldest of what must not last long."""

import pytest
from prometheus_client import CollectorRegistry

from scheduler.model import times
from scheduler.observe.metrics.metrics import Metrics
from scheduler.service.age_gauges import Oldest, provide
from tests.support.builders import node, pod
from tests.support.cluster import Cluster

VICTIM = "scheduler_preemption_oldest_victim_leaving_seconds"
NOMINATION = "scheduler_oldest_nomination_seconds"


class Scrapes:
    """A registry that is read at times of the cluster's clock."""

    def __init__(self, cluster: Cluster) -> None:
        self.registry = CollectorRegistry()
        self.cluster = cluster
        provide(Metrics(self.registry), cluster.machine, lambda: cluster.now)

    def read(self, name: str) -> float | None:
        return self.registry.get_sample_value(name)


def test_an_age_counts_from_the_first_look():
    keys, now = ["a"], [100.0]
    oldest = Oldest(lambda: keys, lambda: now[0])

    assert oldest.read() == {(): 0.0}
    now[0] = 130.0
    keys.append("b")
    assert oldest.read() == {(): 30.0}
    keys.remove("a")
    now[0] = 140.0
    assert oldest.read() == {(): 10.0}
    keys.clear()
    assert oldest.read() == {(): 0.0}


def test_a_key_that_returns_after_a_look_without_it_is_new():
    keys, now = ["a"], [0.0]
    oldest = Oldest(lambda: keys, lambda: now[0])
    oldest.read()

    keys.clear()
    now[0] = 10.0
    oldest.read()
    keys.append("a")
    now[0] = 20.0

    assert oldest.read() == {(): 0.0}


@pytest.fixture
def cluster() -> Cluster:
    """A cluster with one node, which is full."""
    return Cluster(node("n1").cpu("2"), pod("low").on("n1").cpu("2").priority(1))


def test_victims_and_nominations_age_while_others_are_added_and_removed(cluster):
    scrapes = Scrapes(cluster)
    cluster.schedule(pod("high").cpu("2").priority(10))
    end = times.stamp(cluster.now + 3600)
    cluster.change(
        "low",
        lambda victim: victim.meta(deletion_timestamp=end, deletion_grace_period_seconds=3600),
    )
    cluster.add(node("n2").cpu("1"))
    assert scrapes.read(VICTIM) == scrapes.read(NOMINATION) == 0

    for number in range(5):
        cluster.wait(600)
        cluster.schedule(pod(f"other-{number}").cpu("1m"))
        scrapes.read(VICTIM)

    assert scrapes.read(VICTIM) == scrapes.read(NOMINATION) == 3000


def test_a_victim_that_hangs_after_its_grace_period_still_ages(cluster):
    scrapes = Scrapes(cluster)
    cluster.schedule(pod("high").cpu("2").priority(10))
    scrapes.read(VICTIM)

    cluster.wait(7200)

    assert scrapes.read(VICTIM) == 7200
    cluster.finish_terminating()
    assert scrapes.read(VICTIM) == 0


def test_nominations_of_other_schedulers_have_no_age_here(cluster):
    scrapes = Scrapes(cluster)
    cluster.add(pod("theirs").scheduler("other").nominated("n1").priority(5))
    scrapes.read(NOMINATION)

    cluster.wait(600)

    assert scrapes.read(NOMINATION) == 0
