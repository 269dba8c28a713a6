"""Outcomes are distinguished by all that matters, and by nothing else."""

from dataclasses import replace

import pytest

from tests.integration.outcomes import Fate, Outcome

WAITS = ("Unschedulable", "0/4 nodes are available: 4 Insufficient cpu.")
BASE = Outcome(
    frozenset({"big-0", "big-1", "small-0", "small-1"}),
    {
        "web-0": Fate("big-0", told=frozenset({"Scheduled"})),
        "web-1": Fate("big-1", told=frozenset({"Scheduled"})),
        "db-0": Fate("big-0", told=frozenset({"Scheduled"})),
        "low-0": Fate("small-0", evicted=True, told=frozenset({"Preempted"})),
        "high-0": Fate("small-0", told=frozenset({"FailedScheduling", "Scheduled"})),
        "late-0": Fate(waits=WAITS, told=frozenset({"FailedScheduling"})),
    },
    {"data-0": "Bound large-0", "budget": "disruptionsAllowed=1"},
)


def changed(**fates):
    """Return the outcome with these fates instead; underscores stand for dashes."""
    named = {name.replace("_", "-"): fate for name, fate in fates.items()}
    return replace(BASE, pods={**BASE.pods, **named})


def bound(node):
    return Fate(node, told=frozenset({"Scheduled"}))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(changed(db_0=bound("big-1")), id="another node of the kind"),
        pytest.param(
            changed(web_0=bound("big-1"), web_1=bound("big-0")), id="pods of a kind exchanged"
        ),
        pytest.param(
            changed(
                low_0=replace(BASE.pods["low-0"], node="small-1"),
                high_0=replace(BASE.pods["high-0"], node="small-1"),
            ),
            id="another node of the kind is freed",
        ),
        pytest.param(
            replace(BASE, facts={**BASE.facts, "data-0": "Bound large-3"}),
            id="another volume of the kind",
        ),
    ],
)
def test_interchangeable_ones_may_be_exchanged(other):
    assert other != BASE
    assert other.summary() == BASE.summary()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(changed(db_0=bound("small-1")), id="another kind of node"),
        pytest.param(changed(web_1=bound("big-0")), id="other company"),
        pytest.param(changed(db_0=replace(BASE.pods["late-0"])), id="not bound"),
        pytest.param(changed(late_0=bound("small-1")), id="bound"),
        pytest.param(
            changed(late_0=replace(BASE.pods["late-0"], waits=(WAITS[0], WAITS[1][:-1]))),
            id="a character of a message",
        ),
        pytest.param(
            changed(late_0=replace(BASE.pods["late-0"], waits=("SchedulerError", WAITS[1]))),
            id="a reason",
        ),
        pytest.param(changed(late_0=replace(BASE.pods["late-0"], node="big-0")), id="a nomination"),
        pytest.param(changed(high_0=bound("small-0")), id="an event"),
        pytest.param(changed(high_0=replace(BASE.pods["high-0"], node="small-1")), id="elsewhere"),
        pytest.param(changed(low_0=replace(BASE.pods["low-0"], evicted=False)), id="no victim"),
        pytest.param(changed(db_0=replace(BASE.pods["db-0"], evicted=True)), id="one victim more"),
        pytest.param(replace(BASE, nodes=BASE.nodes - {"small-1"}), id="a node less"),
        pytest.param(
            replace(BASE, facts={**BASE.facts, "data-0": "Bound small-0"}), id="another volume"
        ),
        pytest.param(
            replace(BASE, facts={**BASE.facts, "budget": "disruptionsAllowed=0"}), id="a budget"
        ),
    ],
)
def test_nothing_else_may_differ(other):
    assert other.summary() != BASE.summary()
