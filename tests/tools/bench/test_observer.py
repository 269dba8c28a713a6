"""What the benchmark makes of a watch of pods."""

import json

import pytest

from deploy.tools.bench import observer
from deploy.tools.bench.observer import Observer


def change(kind, name, *, node="", conditions=(), uid="", priority=0, version="1"):
    metadata = {"namespace": "ns", "name": name, "uid": uid or name, "resourceVersion": version}
    pod = {
        "metadata": metadata,
        "spec": {"nodeName": node, "priority": priority},
        "status": {"conditions": [{"type": each} for each in conditions]},
    }
    return observer.decode(json.dumps({"type": kind, "object": pod}))


@pytest.fixture
def seen():
    return Observer({("ns", "a"), ("ns", "b")})


def test_a_pod_is_bound_when_it_is_first_seen_with_a_node(seen):
    seen.see(change("MODIFIED", "a", node="n"), 1.0)
    seen.see(change("MODIFIED", "a", node="n"), 2.0)

    assert seen.bound == {("ns", "a"): 1.0}
    assert not seen.all_bound.is_set()


def test_all_are_bound_when_the_last_one_is(seen):
    seen.see(change("MODIFIED", "a", node="n"), 1.0)
    seen.see(change("MODIFIED", "b", node="n"), 2.0)

    assert seen.all_bound.is_set()
    assert seen.all_tried.is_set()


def test_pods_that_are_not_measured_do_not_count(seen):
    seen.see(change("MODIFIED", "other", node="n"), 1.0)

    assert seen.bound == {}
    assert seen.first_write is None


def test_a_pod_was_tried_when_it_says_why_it_has_no_node(seen):
    seen.see(change("MODIFIED", "a", conditions=["PodScheduled"]), 1.0)
    assert not seen.all_tried.is_set()

    seen.see(change("MODIFIED", "b", node="n"), 2.0)
    assert seen.all_tried.is_set()
    assert not seen.all_bound.is_set()


def test_a_pod_that_moves_makes_the_run_void(seen):
    seen.see(change("MODIFIED", "a", node="n"), 1.0)
    seen.see(change("MODIFIED", "a", node="m"), 2.0)

    assert seen.problems == ["ns/a went from n to m"]


def test_a_measured_pod_that_goes_makes_the_run_void(seen):
    seen.see(change("DELETED", "a"), 1.0)

    assert seen.problems == ["ns/a was deleted"]


def test_others_that_go_are_remembered_with_their_priority(seen):
    seen.see(change("DELETED", "victim", priority=3), 1.0)

    assert seen.gone == {("ns", "victim"): 3}
    assert seen.first_write == 1.0
    assert seen.problems == []


def test_the_first_write_is_the_first_change_of_a_measured_pod(seen):
    seen.see(change("MODIFIED", "a", conditions=["PodScheduled"]), 1.0)
    seen.see(change("MODIFIED", "a", node="n"), 2.0)

    assert seen.first_write == 1.0


def test_the_watch_can_go_on_after_the_last_change(seen):
    seen.see(change("MODIFIED", "other", version="41"), 1.0)
    seen.see(change("MODIFIED", "a", version="42"), 1.0)

    assert seen.version == "42"


def test_an_error_of_the_watch_is_raised(seen):
    line = (
        b'{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure","code":410}}'
    )

    with pytest.raises(ConnectionError, match="Failure"):
        seen.see(observer.decode(line), 1.0)
