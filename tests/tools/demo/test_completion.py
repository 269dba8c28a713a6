"""When a step is done."""

import pytest

from deploy.tools.demo import completion
from tests.support.builders import PodBuilder, pod
from tests.support.demo_objects import raw, unschedulable

HIGH = pod("high").priority(10)
LOW = pod("low").priority(1)
NO_ROOM = unschedulable(LOW, "no room")

CASES = {
    "all run": ([HIGH.on("n"), LOW.on("n")], None),
    "an unimportant one fits nowhere": ([HIGH.on("n"), NO_ROOM], None),
    "a pod does not exist yet": ([HIGH.on("n")], "0 of 1 pods of priority low exist"),
    "a pod is about to be replaced": (
        [HIGH.on("n"), LOW.on("n").terminating()],
        "0 of 1 pods of priority low exist",
    ),
    "a pod too many is leaving": (
        [HIGH.on("n"), LOW.on("n"), pod("old").on("n").terminating()],
        "default/old is terminating",
    ),
    "an important one fits nowhere": (
        [unschedulable(HIGH, "no room"), LOW.on("n")],
        "default/high does not run: no room",
    ),
    "an important one waits for victims": (
        [unschedulable(HIGH, "no room").nominated("n"), LOW.on("n")],
        "default/high does not run: no room",
    ),
    "an important one does not start": (
        [HIGH.on("n").status(phase="Pending"), LOW.on("n")],
        "default/high does not run: it is Pending on n",
    ),
    "an unimportant one waits for victims": (
        [HIGH.on("n"), NO_ROOM.nominated("n")],
        "default/low: no room",
    ),
    "an unimportant one was not tried": (
        [HIGH.on("n"), LOW],
        "default/low: the scheduler has not attempted it yet",
    ),
    "an unimportant one does not start": (
        [HIGH.on("n"), LOW.on("n").status(phase="Pending")],
        "default/low: it is Pending on n",
    ),
}


@pytest.mark.parametrize(("pods", "want"), CASES.values(), ids=CASES.keys())
def test_the_first_obstacle_is_named(pods: list[PodBuilder], want: str | None):
    classes = {"high": "high", "low": "low"}
    objects = [raw(each, classes.get(each.object.metadata.name, "")) for each in pods]

    assert completion.obstacle(objects, {"high": 1, "low": 1}, ["high"]) == want
