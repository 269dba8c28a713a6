"""A watch of pods, as the benchmark counts it."""

import json

import pytest

from deploy.tools.bench import observer
from deploy.tools.bench.observer import Observer

A, B, OTHER = (("ns", name) for name in ("a", "b", "other"))


def change(kind, name, *, node="", conditions=(), priority=0, version="1"):
    metadata = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": version}
    pod = {
        "metadata": metadata,
        "spec": {"nodeName": node, "priority": priority},
        "status": {"conditions": [{"type": each} for each in conditions]},
    }
    return observer.decode(json.dumps({"type": kind, "object": pod}))


def bound(name, node="n"):
    return change("MODIFIED", name, node=node)


def tried(name):
    return change("MODIFIED", name, conditions=["PodScheduled"])


#: A case of changes at the seconds 1, 2, ...; the attributes that differ from those of no change.
CASES = {
    "a pod is bound when it first has a node": ([bound("a"), bound("a")], {"bound": {A: 1.0}}),
    "all are bound when the last one is": (
        [bound("a"), bound("b")],
        {"bound": {A: 1.0, B: 2.0}, "all_bound": True, "all_tried": True},
    ),
    "pods that are not measured do not count": ([bound("other")], {"first_write": None}),
    "a condition is an attempt": (
        [tried("a"), bound("b")],
        {"bound": {B: 2.0}, "all_tried": True},
    ),
    "a pod that moves voids the run": (
        [bound("a"), bound("a", "m")],
        {"bound": {A: 1.0}, "problems": ["ns/a went from n to m"]},
    ),
    "a measured pod that is deleted voids the run": (
        [change("DELETED", "a")],
        {"gone": {A: 0}, "problems": ["ns/a was deleted"]},
    ),
    "deleted foreign pods are recorded with their priority": (
        [change("DELETED", "other", priority=3)],
        {"gone": {OTHER: 3}},
    ),
    "the watch continues after the last change": (
        [change("MODIFIED", "other", version="41"), change("MODIFIED", "other", version="42")],
        {"version": "42", "first_write": None},
    ),
}


@pytest.mark.parametrize(("changes", "want"), CASES.values(), ids=CASES)
def test_changes_of_pods_are_counted(changes, want):
    seen = Observer({A, B})

    for second, each in enumerate(changes, 1):
        seen.see(each, float(second))

    empty = {"bound": {}, "gone": {}, "problems": [], "first_write": 1.0, "version": "1"}
    assert {name: getattr(seen, name) for name in empty} == {
        name: want.get(name, default) for name, default in empty.items()
    }
    assert seen.all_bound.is_set() == want.get("all_bound", False)
    assert seen.all_tried.is_set() == want.get("all_tried", False)


def test_an_error_of_the_watch_is_raised():
    line = b'{"type":"ERROR","object":{"kind":"Status","metadata":{},"status":"Failure"}}'

    with pytest.raises(ConnectionError, match="Failure"):
        Observer({A}).see(observer.decode(line), 1.0)
