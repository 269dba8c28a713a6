"""`victimMinRuntime` where the clocks of this host, of kubelets and of the API server differ."""

import pytest

from scheduler.model.api.objects import Condition
from scheduler.model.events import ClockAhead
from tests.support.builders import EPOCH, PodBuilder, at
from tests.support.cluster import Cluster
from tests.support.policies import HOUR, nodes, policy, refused, running, shown, victims, wants

LEAST = 600.0


def bound(pod: PodBuilder, seconds: float) -> PodBuilder:
    """Return a pod that the API server bound at a moment by its own clock."""
    scheduled = Condition("PodScheduled", "True", last_transition_time=at(seconds))
    return pod.status(conditions=[scheduled])


def protected(*pods: PodBuilder, ahead: float = 0.0) -> Cluster:
    """Return a cluster whose clock shows 1000 seconds after `EPOCH`."""
    cluster = Cluster(policy(victim_min_runtime=LEAST), *nodes("n1"), *pods)
    cluster.observe(ClockAhead(ahead))
    return cluster


def test_a_clock_that_is_ahead_evicts_no_pod_that_has_just_started():
    cluster = protected(running("young", cpu="4").started(900), ahead=HOUR)
    cluster.now += HOUR

    assert "have run for less than 10m" in refused(cluster.schedule(wants()))
    assert cluster.evicted() == []


def test_a_refused_pod_is_tried_again_when_the_victim_has_run_long_enough_by_the_servers_clock():
    cluster = protected(running("young", cpu="4").started(600), ahead=HOUR)
    cluster.now += HOUR
    said = refused(cluster.schedule(wants()))
    assert said.endswith(f"(until {at(1200 + HOUR)}).")
    assert "have run" in shown(cluster)["n1"][0]

    cluster.wait(199)
    assert cluster.drain() == []
    assert cluster.machine.next_wakeup() <= EPOCH + 1200 + HOUR

    cluster.wait(1)
    assert [victims(each.decision) for each in cluster.drain()] == [["young"]]


def test_a_slow_clock_does_not_shorten_the_protection():
    cluster = protected(running("young", cpu="4").started(900), ahead=0.0)
    cluster.now -= HOUR

    assert "have run" in refused(cluster.schedule(wants()))


def test_that_the_clock_is_ahead_counts_for_cached_results():
    cluster = protected(running("young", cpu="4").started(300))
    cluster.now -= 200
    assert "have run" in refused(cluster.schedule(wants()))

    cluster.observe(ClockAhead(200.0))
    cluster.wait(101)

    assert all("have run" in refused(each.decision) for each in cluster.drain())
    cluster.wait(200)
    assert [victims(each.decision) for each in cluster.drain()] == [["young"]]


def test_a_blocked_pod_is_tried_when_the_clock_turns_out_to_be_less_ahead():
    cluster = protected(running("old", cpu="4").started(300), ahead=HOUR)
    assert "have run" in refused(cluster.schedule(wants()))

    cluster.observe(ClockAhead(0.0))
    cluster.wait(10)

    assert [victims(each.decision) for each in cluster.drain()] == [["old"]]


@pytest.mark.parametrize(
    ("scheduled", "stays"),
    [
        pytest.param(900.0, True, id="bound later than the kubelet says"),
        pytest.param(100.0, False, id="bound earlier"),
    ],
)
def test_a_kubelet_with_a_slow_clock_does_not_shorten_the_protection(scheduled, stays):
    cluster = protected(bound(running("a", cpu="4").started(0), scheduled))

    decision = cluster.schedule(wants())

    if stays:
        assert "have run" in refused(decision)
    else:
        assert victims(decision) == ["a"]


def test_a_stamp_of_the_binding_does_not_protect_longer_than_the_kubelets():
    cluster = protected(bound(running("a", cpu="4").started(900), 0.0))

    assert "have run" in refused(cluster.schedule(wants()))


def test_a_pod_that_is_bound_and_has_not_started_has_not_run():
    cluster = protected(bound(running("a", cpu="4").not_started(), 0.0))

    assert "have run" in refused(cluster.schedule(wants()))


def test_a_stamp_that_cannot_be_read_counts_as_absent():
    odd = Condition("PodScheduled", "True", last_transition_time="yesterday")
    cluster = protected(running("a", cpu="4").started(0).status(conditions=[odd]))

    assert victims(cluster.schedule(wants())) == ["a"]
