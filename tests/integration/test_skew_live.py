"""Clocks that differ from the API server's do not make preemption go from node to node."""

from typing import Final

import pytest

from tests.integration.objects import HANGS, condition, is_terminating, pod

pytestmark = pytest.mark.cluster

#: By how many seconds the clock of a scheduler is ahead; all of them run at once.
SKEWS: Final = (3600.0, -3600.0, 70.0)
#: How long each is watched after its first eviction.
WATCHED_SECONDS: Final = 10.0
#: Longer than the test takes, so that no victim hangs beyond it.
GRACE_SECONDS: Final = 30


def test_a_fast_or_slow_clock_evicts_no_second_victim(scene, schedulers):
    names = [f"{schedulers.name}-{number}" for number in range(len(SKEWS))]
    started = [
        schedulers.start(name=name, ahead=ahead, ready=False)
        for name, ahead in zip(names, SKEWS, strict=True)
    ]
    for number, name in enumerate(names):
        label = {"example.com/clock": f"clock-{number}"}
        nodes = scene.nodes(3, cpu="2", labels=label)
        scene.run(*(victim(f"victim-{number}-{i}", node) for i, node in enumerate(nodes)))
        scene.create(pod(f"high-{number}", "2", "high", by=name, nodeSelector=label))
    for each in started:
        each.wait_log("caches_synced")
    pods = scene.path("").rstrip("/")
    scene.api.wait_for_list(pods, lambda found: set(terminating(found)) == set(range(len(SKEWS))))

    def is_second(found):
        return len(terminating(found)) > len(SKEWS)

    with pytest.raises(TimeoutError):
        scene.api.wait_for_list(pods, is_second, timeout=WATCHED_SECONDS)

    assert sorted(terminating(scene.api.items(pods))) == list(range(len(SKEWS)))
    assert len(scene.history().doomed()) == len(SKEWS)


def victim(name, node):
    return pod(
        name, "2", "low", on=node, annotations=HANGS, terminationGracePeriodSeconds=GRACE_SECONDS
    )


def terminating(found):
    """Return, for each victim that is terminating, the number of its scheduler."""
    return [
        int(each["metadata"]["name"].split("-")[1])
        for each in found
        if is_terminating(each) and condition(each, "DisruptionTarget")
    ]
