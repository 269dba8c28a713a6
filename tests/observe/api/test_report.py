"""What preemption cost: the sums, in one sentence, as much as the caller may see."""

import pytest

from scheduler.model import times
from tests.support.api_documents import Documents, Only
from tests.support.builders import node, pod

HOUR = 3600.0


def preempted() -> Documents:
    """Return a cluster in which team-a has evicted a pod of team-b and one of its own."""
    docs = Documents(node("n1").cpu("4"), node("n2").cpu("4"))
    docs.cluster.add(
        pod("low").namespace("team-b").on("n1").cpu("4").memory("1Gi").priority(1).started(1000),
        pod("own").namespace("team-a").on("n2").cpu("2").priority(1).started(1000),
    )
    docs.cluster.wait(HOUR)
    for name, cpu in (("high", "4"), ("more", "4")):
        docs.cluster.schedule(pod(name).namespace("team-a").cpu(cpu).priority(9))
    docs.cluster.finish_terminating()
    docs.cluster.drain()
    docs.cluster.wait(1)
    return docs


async def test_the_sums_are_those_of_the_victims():
    docs = preempted()

    found = await docs.get("report")

    core_hour = 1000 * HOUR
    assert found["victims"] == 2
    assert found["preemptors"] == 2
    assert found["cost"]["cpu"] == pytest.approx(6 * core_hour, rel=0.01)
    by_name = {each["namespace"]: each for each in found["namespaces"]}
    assert [*by_name] == ["team-b", "team-a"]
    assert by_name["team-b"]["cost"]["memory"] == pytest.approx(HOUR * 2**30, rel=0.01)
    assert by_name["team-a"]["evicted"] == 2
    assert by_name["team-a"]["causedCost"] == found["cost"]
    assert found["impact"] == "evictions"
    assert "2 pods were evicted for 2 pods of 1 namespace; 6 core-h of work" in found["verdict"]


async def test_only_evictions_within_the_span_count():
    docs = preempted()
    begun = docs.cluster.now
    docs.cluster.wait(HOUR)

    spans = {
        "before": (begun - 2 * HOUR, begun - HOUR),
        "around": (begun - HOUR / 2, begun + HOUR),
        "after": (begun + 60, begun + HOUR),
    }
    victims = {}
    for name, (since, until) in spans.items():
        query = {"since": times.stamp(since), "until": times.stamp(until)}
        found = await docs.get("report", **query)
        victims[name] = found.get("victims", 0)

    assert victims == {"before": 0, "around": 2, "after": 0}


async def test_a_caller_sees_counts_of_hidden_pods_and_no_names():
    docs = preempted()

    found = await docs.get("report", Only("team-b"))

    assert "team-a" not in str(found)
    assert found["hidden"] == 1
    assert found["victims"] == 1
    hidden = found["namespaces"][-1]
    assert hidden == {"preemptors": 1, "evicted": 1}
    assert "topPreemptors" not in found


async def test_hidden_victims_count_without_their_work():
    docs = Documents(node("n1").cpu("4"))
    docs.cluster.add(
        pod("low").namespace("team-b").on("n1").cpu("4").priority(1).started(1000),
    )
    docs.cluster.wait(HOUR)
    docs.cluster.schedule(pod("high").namespace("team-a").cpu("4").priority(9))
    docs.cluster.finish_terminating()
    docs.cluster.drain()
    docs.cluster.wait(1)

    found = await docs.get("report", Only("team-a"))

    assert "team-b" not in str(found)
    assert found["namespaces"][-1] == {"victims": 1}
    assert "cost" not in found


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("yesterday", ""),
        ("", "9999999-01-01T00:00:00Z"),
        ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00Z", ""),
    ],
)
async def test_a_malformed_span_is_refused(since, until):
    with pytest.raises(ValueError, match=r"since|until"):
        await Documents().get("report", since=since, until=until)


async def test_a_span_before_the_history_is_not_known():
    found = await Documents().get(
        "report", since="2025-01-01T20:00:00Z", until="2025-01-02T08:00:00Z"
    )

    assert found["verdict"] == (
        "It is not known what was evicted between 2025-01-01 20:00 and 2025-01-02 08:00 UTC."
    )
    assert found["notes"][0].startswith("The history begins at ")


async def test_nothing_evicted_is_said_as_well():
    found = await Documents().get("report")

    assert found["verdict"].endswith("no pod was evicted.")
    assert found["impact"] == "none"
    assert found["notes"][0].startswith("The history begins at ")
