"""PodTopologySpread, where no manifest shows it; tests/scenarios/spread.yaml has the rest."""

from msgspec.structs import replace

from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.plugins.pod_topology_spread.pod_topology_spread import PodTopologySpread
from tests.support.affinities import constraint, labels, spread
from tests.support.builders import node, pod, requirement
from tests.support.plugin_checks import rejected_as_a_whole, state_of

PLUGIN = PodTopologySpread()
NONSENSE = constraint("zone", label_selector=labels(requirement("app", "Nonsense")))
WEB = pod("p").label("app", "web")


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
    compiled_filter.prepare()

    for number in range(20):
        state.write_node(node(f"new-{number}").label("zone", f"new-{number}").build())
    compiled_filter.prepare()

    assert compiled_filter.codes(state.nodes()).tolist() == [0] * 21
