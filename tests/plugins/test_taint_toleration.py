"""TaintToleration: hard taints reject, soft ones cost."""

from scheduler.framework.cluster_events import Action, Resource
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.plugins.taint_toleration import TaintToleration
from tests.support.builders import node, pod
from tests.support.plugin_checks import hint, rejections, scored, state_of, verdicts_of

PLUGIN = TaintToleration()
REASON = "node(s) had untolerated taint(s)"


def test_hard_taints_reject_and_preemption_does_not_help():
    state = state_of(
        node("none"),
        node("schedule").taint("a"),
        node("execute").taint("a", effect="NoExecute"),
        node("prefer").taint("a", effect="PreferNoSchedule"),
    )
    rejected = Verdict("TaintToleration", (REASON,), resolvable=False)

    assert verdicts_of(PLUGIN, pod("p"), state) == {
        "none": None, "schedule": rejected, "execute": rejected, "prefer": None,
    }  # fmt: skip


def test_every_hard_taint_must_be_tolerated():
    state = state_of(node("one").taint("a"), node("two").taint("a").taint("b"))

    tolerant = pod("p").tolerates("a", operator="Exists")

    assert rejections(PLUGIN, tolerant, state) == {"two": REASON}
    assert rejections(PLUGIN, tolerant.tolerates("b", operator="Exists"), state) == {}


def test_taints_added_later_are_evaluated_too():
    state = state_of(node("n1"))
    compiled_filter = PLUGIN.compile_filter(pod("p").build(), state, Verdicts())
    assert compiled_filter.codes(state.nodes()).tolist() == [0]

    state.write_node(node("n2").taint("new").build())

    assert (compiled_filter.codes(state.nodes()) > 0).tolist() == [False, True]


def soft(name: str, *keys: str):
    built = node(name)
    for key in keys:
        built = built.taint(key, effect="PreferNoSchedule")
    return built


def test_every_soft_taint_that_is_not_tolerated_lowers_the_score():
    state = state_of(soft("none"), soft("one", "a"), soft("three", "a", "b", "c"))

    assert scored(PLUGIN, pod("p"), state) == {"none": 100, "one": 67, "three": 0}


def test_without_soft_taints_all_nodes_are_equally_good():
    state = state_of(node("n1"), node("n2").taint("a", effect="NoExecute"))

    assert scored(PLUGIN, pod("p"), state) == {"n1": 100, "n2": 100}


def test_tolerations_of_any_or_the_soft_effect_keep_the_score():
    state = state_of(soft("none"), soft("a", "a"), soft("ab", "a", "b"))

    any_effect = pod("p").tolerates("a", operator="Exists")
    soft_effect = pod("p").tolerates("a", operator="Exists", effect="PreferNoSchedule")
    hard_effect = pod("p").tolerates("a", operator="Exists", effect="NoSchedule")

    assert scored(PLUGIN, any_effect, state) == {"none": 100, "a": 100, "ab": 0}
    assert scored(PLUGIN, soft_effect, state) == {"none": 100, "a": 100, "ab": 0}
    assert scored(PLUGIN, hard_effect, state) == {"none": 100, "a": 50, "ab": 0}


NODE_ADD = (Resource.NODE, Action.ADD)
TAINTS = (Resource.NODE, Action.UPDATE_NODE_TAINT)
OWN = (Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_TOLERATION)


def test_the_hint_queues_for_nodes_whose_taints_are_tolerated_now():
    p = pod("p").tolerates("a", operator="Exists")
    assert hint(PLUGIN, NODE_ADD, p, None, node("n").taint("a"))
    assert not hint(PLUGIN, NODE_ADD, p, None, node("n").taint("b"))
    assert hint(PLUGIN, TAINTS, p, node("n").taint("b"), node("n").taint("a"))
    assert not hint(PLUGIN, TAINTS, p, node("n").taint("a"), node("n"))


def test_the_hint_queues_for_any_new_toleration_of_the_pod():
    assert hint(PLUGIN, OWN, pod("p"), pod("p"), pod("p").tolerates("x"))
    assert not hint(PLUGIN, OWN, pod("q"), pod("p"), pod("p").tolerates("x"))


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
