"""TaintToleration, and taints that come and go; tests/scenarios has its decisions."""

from scheduler.framework.verdicts import Verdicts
from scheduler.plugins.taint_toleration import TaintToleration
from tests.support.builders import node, pod
from tests.support.plugin_checks import state_of

PLUGIN = TaintToleration()


def test_taints_that_no_node_has_any_more_are_dropped():
    state = state_of(node("n1"), node("n2").taint("kept"))
    tolerant = pod("p").tolerates("kept", operator="Exists").build()
    compiled_filter = PLUGIN.compile_filter(tolerant, state, Verdicts())
    score = PLUGIN.compile_score(tolerant, state)

    for number in range(5_000):
        effect = "NoSchedule" if number % 2 else "PreferNoSchedule"
        state.write_node(node("n1").taint("t", str(number), effect).build())
        assert (compiled_filter.codes(state.nodes()) > 0).tolist() == [number % 2 == 1, False]
        assert score.scores(state.nodes()).tolist() == [number % 2 == 0, 0]

    assert len(state.columns.taint_sets) < 200
