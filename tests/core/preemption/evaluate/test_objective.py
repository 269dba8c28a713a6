"""Another objective is another order of criteria: the choice and what is shown of it follow."""

import numpy as np
import pytest

from scheduler.core.preemption.evaluate.candidates import (
    Candidate,
    keys_of,
    pick_one_node,
    tie_breaks,
)
from scheduler.core.preemption.evaluate.explain_comparison import explain_comparison
from scheduler.core.preemption.evaluate.objective import KUBE_SCHEDULER, Objective
from scheduler.observe.api.views import comparison_views
from tests.support.builders import node, pod
from tests.support.plugin_checks import state_of

NAMES = ["n0", "n1"]


@pytest.mark.parametrize(
    ("first", "node_name", "criterion"),
    [("highestPriority", "n1", "highestPriority"), ("victims", "n0", "victims")],
)
def test_the_first_criterion_that_differs_decides_in_any_order(first, node_name, criterion):
    important = pod("important").on("n0").priority(9)
    several = [pod(f"p{number}").on("n1").priority(number) for number in (2, 1)]
    cluster = state_of(*map(node, NAMES), important, *several)
    objective = Objective(sorted(KUBE_SCHEDULER, key=lambda each: each.label.name != first))
    candidates = [
        Candidate(0, (important.build(),), 0),
        Candidate(1, tuple(each.build() for each in several), 0),
    ]

    keys, rows = keys_of(candidates, cluster, objective), np.arange(2)
    choice = pick_one_node(rows, keys, tie_breaks("uid", cluster))
    assert choice is not None
    views = comparison_views(
        explain_comparison(rows, keys, choice, NAMES, objective), NAMES[choice.row]
    )

    assert NAMES[choice.row] == node_name
    assert [each.name for each in views.criteria] == [each.label.name for each in objective]
    assert views.criterion == criterion
    assert {each.node: each.values["victims"] for each in views.candidates} == {"n0": 1, "n1": 2}
