"""Nodes that are watched while nodes and pods come, change and go: the watch misses nothing."""

import json
import threading

import pytest

from tests.integration.event_stream import Follower, NodeList
from tests.integration.objects import pod
from tests.support.live import PATIENCE_SECONDS

pytestmark = pytest.mark.cluster

NODES = "/api/v1/nodes?limit=5000&labels=team"
WATCHED = "/api/v1/nodes?watch=1&labels=team"


def listed(scheduler) -> dict:
    status, text = scheduler.get(NODES)
    assert status == 200, text
    return json.loads(text)


def until_equal(scheduler, followed: NodeList) -> None:
    """Wait until what was followed is what a new list has."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / 0.5)):
        assert followed.problem is None, repr(followed.problem)
        fresh = NodeList(listed(scheduler))
        if fresh.nodes == followed.nodes:
            return
        pause.wait(0.5)
    different = [
        (name, fresh.nodes.get(name), followed.nodes.get(name))
        for name in fresh.nodes.keys() | followed.nodes.keys()
        if fresh.nodes.get(name) != followed.nodes.get(name)
    ]
    raise TimeoutError(different)


class Churn:
    """Changes nodes and pods in rounds; each round leaves some of both behind."""

    def __init__(self, scene) -> None:
        self._scene = scene
        self._round = 0
        self._old: list[str] = []

    def turn(self) -> None:
        """Add, change and delete nodes; have pods bound and deleted."""
        scene, self._round = self._scene, self._round + 1
        nodes = scene.nodes(4)
        for name in (*nodes, *self._old):
            scene.patch_node(name, {"metadata": {"labels": {"team": f"t{self._round}"}}})
        names = [f"p{self._round}-{i}" for i in range(8)]
        scene.create(*(pod(name, "1", "low" if i % 2 else "high") for i, name in enumerate(names)))
        for name in names:
            scene.wait_bound(name)
        for name in names[:5]:
            scene.remove(name)
        scene.patch_node(nodes[0], {"spec": {"unschedulable": True}})
        empty = next(iter(set(nodes) - {scene.pod(name)["spec"]["nodeName"] for name in names[5:]}))
        scene.remove_node(empty)
        self._old = [name for name in nodes if name != empty]


def test_what_is_followed_is_what_a_list_has(scene, scheduler):
    churn = Churn(scene)
    churn.turn()
    begun = listed(scheduler)
    followed, at_once = NodeList(begun), NodeList()
    reading = Follower(scheduler, f"{WATCHED}&revision={begun['revision']}", followed)
    from_nothing = Follower(scheduler, WATCHED, at_once)
    for _ in range(3):
        churn.turn()
    until_equal(scheduler, followed)
    until_equal(scheduler, at_once)
    seen = len(followed.events)

    # It does not read for some turns, and gets what it has missed.
    reading.reads.clear()
    churn.turn()
    churn.turn()
    assert len(followed.events) <= seen + 1
    reading.reads.set()
    until_equal(scheduler, followed)
    reading.close()

    # It comes again with the last event that it has read, as browsers do and by the query.
    churn.turn()
    by_header = NodeList({**begun, "items": followed.nodes.values(), "revision": followed.revision})
    by_query = NodeList({**begun, "items": followed.nodes.values(), "revision": followed.revision})
    last = str(followed.revision)
    coming = [
        Follower(scheduler, f"{WATCHED}&revision={begun['revision']}", by_header, last),
        Follower(scheduler, f"{WATCHED}&revision={last}", by_query),
    ]
    churn.turn()
    for each in (by_header, by_query, at_once):
        until_equal(scheduler, each)
    for follower in (*coming, from_nothing):
        follower.close()
    assert {*followed.events, *by_header.events, *by_query.events} == {"update"}


def test_a_watch_of_another_process_has_to_list_again(schedulers, scene):
    first = schedulers.start()
    scene.nodes(2)
    followed = NodeList(listed(first))
    first.terminate()
    second = schedulers.start()
    scene.nodes(1)

    reading = Follower(second, f"{WATCHED}&revision={followed.revision}", followed)

    assert reading.ended()
    assert followed.events == ["resync"]
    reading.close()
