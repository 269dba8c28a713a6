"""PodTopologySpread, where no manifest shows it; tests/scenarios/spread.yaml has the rest."""

import pytest
from msgspec.structs import replace

from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import TopologySpreadConstraint
from scheduler.plugins.pod_topology_spread.pod_topology_spread import PodTopologySpread
from tests.support.affinities import constraint, labels, spread
from tests.support.builders import node, pod, requirement
from tests.support.plugin_checks import ATTEMPT, in_attempt, rejected_as_a_whole, state_of

PLUGIN = PodTopologySpread()
NONSENSE = constraint("zone", label_selector=labels(requirement("app", "Nonsense")))
WEB = pod("p").label("app", "web")
WAITING = spread(WEB, constraint("zone", app="web"))


def test_a_selector_that_means_nothing_rejects_the_pod_and_scores_nothing():
    state, soft = state_of(node("n1")), replace(NONSENSE, when_unsatisfiable="ScheduleAnyway")

    reason = (
        "obtaining pod's hard topology spread constraints: "
        "'Nonsense' is not a valid label selector operator"
    )
    assert rejected_as_a_whole(PLUGIN, spread(WEB, NONSENSE), state) == Verdict(
        "PodTopologySpread", (reason,), resolvable=False
    )
    assert PLUGIN.compile_score(spread(WEB, soft).build(), state) is None


def test_a_new_value_on_a_node_that_does_not_count_is_evaluated_as_well():
    state = state_of(node("n1").label("zone", "a"))
    here = spread(WEB.selects(disk="ssd"), constraint("zone", app="web")).build()
    compiled_filter = PLUGIN.compile_filter(here, state, Verdicts())
    assert compiled_filter is not None
    in_attempt(compiled_filter)

    for number in range(20):
        state.write_node(node(f"new-{number}").label("zone", f"new-{number}").build())
    compiled_filter.prepare(ATTEMPT)

    assert compiled_filter.codes(state.nodes()).tolist() == [0] * 21


@pytest.mark.parametrize(
    ("waiting", "old", "new", "want"),
    [
        pytest.param(WAITING, None, WEB.nominated("n"), True, id="a nominated pod"),
        pytest.param(spread(pod("w"), NONSENSE), None, WEB.on("n"), True, id="unreadable"),
        pytest.param(pod("w"), None, WEB.on("n"), True, id="defaults may count any pod"),
        pytest.param(pod("w"), WEB.on("n"), WEB.on("n").tolerates("a"), False, id="same labels"),
        pytest.param(pod("w"), WEB.on("n"), WEB.on("n").label("x"), True, id="other labels"),
        pytest.param(
            spread(pod("w"), constraint("zone", soft=True, app="web")), None, WEB.on("n"), False,
            id="no constraint must hold",
        ),
    ],
)  # fmt: skip
def test_which_pods_wake_a_pod(waiting, old, new, want):
    rule = PodTopologySpread([TopologySpreadConstraint(1, "zone", "DoNotSchedule")])
    hint = rule.events_to_register()[0].hint

    assert hint(waiting.build(), old and old.build(), new and new.build()) is want


def test_pods_with_many_constraints_are_woken_as_others_are_and_are_forgotten():
    rule = PodTopologySpread()
    hint = rule.events_to_register()[0].hint
    hints = hint.__self__
    apps = [f"app-{number}" for number in range(100)]
    waiting = [spread(pod(app), *[constraint("zone", app=app)] * 16).build() for app in apps]

    for _ in range(2):
        for app, each in zip(apps, waiting, strict=True):
            assert hint(each, None, pod("own").label("app", app).on("n").build())
            assert not hint(each, None, WEB.on("n").build())

    assert len(hints._last) == 64


def test_a_pod_with_unreadable_constraints_is_woken_by_every_node():
    hint = PLUGIN.events_to_register()[1].hint

    assert hint(spread(pod("w"), NONSENSE).build(), None, node("n").build())
