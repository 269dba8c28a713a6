"""The contract that every plugin of the default profile keeps."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.config import load
from scheduler.framework.plugin import (
    SKIP,
    Filter,
    NodeFilter,
    PostFilter,
    PreEnqueue,
    Reads,
    Rejected,
    Score,
)
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import (
    Affinity,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from scheduler.model.releases import REFERENCES
from scheduler.plugins import registry
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Rows
from scheduler.state.views.node_view import NodeView
from tests.support.builders import OURS, PodBuilder, node, pod, requirement, term
from tests.support.cluster import profiles
from tests.support.plugin_checks import state_of

PROFILE = profiles()[OURS]
FILTERS = {plugin.name: plugin for plugin in PROFILE.filters}
SCORES = {plugin.name: plugin for plugin, _ in PROFILE.scores}
WEB = LabelSelector({"app": "web"})


def near(builder: PodBuilder, *, weight: int = 0, away: bool = False) -> PodBuilder:
    """Add an affinity to pods of the application `web`."""
    one = PodAffinityTerm(WEB, [], "zone")
    group = (
        PodAffinity(preferred=[WeightedPodAffinityTerm(weight, one)])
        if weight
        else PodAffinity([one])
    )
    affinity = builder.object.spec.affinity or Affinity()
    change = {"pod_anti_affinity": group} if away else {"pod_affinity": group}
    return builder.spec(affinity=replace(affinity, **change))


def spread(builder: PodBuilder, when: str) -> PodBuilder:
    one = TopologySpreadConstraint(1, "zone", when, WEB)
    return builder.spec(topology_spread_constraints=[one])


P = pod("p").cpu("1").label("app", "web")
PODS = {
    "plain": P,
    "nothing": pod("p"),
    "choosy": P.selects(zone="a").tolerates("t", operator="Exists"),
    "listening": P.port(80),
    "liking": P.likes(5, term(requirement("zone", "In", "b"))),
    "near": near(P),
    "away": near(P, away=True),
    "rather near": near(P, weight=10),
    "rather away": near(P, weight=10, away=True),
    "spread": spread(P, "DoNotSchedule"),
    "rather spread": spread(P, "ScheduleAnyway"),
    "imaged": P.image("app:1"),
}


def cluster() -> Cluster:
    """Return nodes of every kind, and pods that repel, draw, listen and count."""
    nodes = [
        node("n0").cpu("4").label("zone", "a"),
        node("n1").cpu("4").label("zone", "a").cordoned(),
        node("n2").cpu("4").label("zone", "b").taint("t"),
        node("n3").cpu("1").label("zone", "b").image("app:1", 500 * 2**20),
        node("n4").cpu("4").taint("s", effect="PreferNoSchedule"),
        node("n5").cpu("8").label("zone", "c"),
    ]
    web = pod("web").label("app", "web").cpu("1")
    running = [
        web.on("n0"),
        near(pod("shy"), away=True).on("n5"),
        near(pod("fan")).on("n3").port(80),
        pod("plain").on("n3").cpu("1"),
        near(pod("drawn"), weight=3).on("n2"),
    ]
    state = state_of(*nodes, *running)
    state.place(pod("lost").on("nowhere").cpu("1").build(), "nowhere")
    return state


def compiled_filters(plugin: Any, wanted: PodBuilder, state: Cluster) -> Iterator[Any]:
    """Yield the compiled filter, if the plugin has one that evaluates nodes."""
    compiled_filter = plugin.compile_filter(wanted.build(), state, Verdicts())
    if compiled_filter is not None:
        result = compiled_filter.prepare()
        if result is not SKIP and not isinstance(result, Rejected):
            yield compiled_filter


every_filter = pytest.mark.parametrize("plugin", FILTERS.values(), ids=FILTERS)
every_score = pytest.mark.parametrize("plugin", SCORES.values(), ids=SCORES)
every_pod = pytest.mark.parametrize("wanted", PODS.values(), ids=PODS)


@every_filter
@every_pod
def test_a_filter_evaluates_a_node_alone_as_among_others(plugin, wanted):
    state = cluster()
    rows: Rows = np.flatnonzero(state.columns.exists())
    for compiled_filter in compiled_filters(plugin, wanted, state):
        together = compiled_filter.codes(NodeView(state.columns, rows)).tolist()
        alone = [
            int(compiled_filter.codes(NodeView(state.columns, rows[at : at + 1]))[0])
            for at in range(len(rows))
        ]
        backwards = compiled_filter.codes(NodeView(state.columns, rows[::-1])).tolist()[::-1]
        everything = compiled_filter.codes(state.nodes())[rows].tolist()

        assert together == alone == backwards == everything


@every_filter
@every_pod
def test_a_filter_gives_a_code_a_node_and_never_writes_to_the_columns(plugin, wanted):
    state = cluster()
    for compiled_filter in compiled_filters(plugin, wanted, state):
        codes = compiled_filter.codes(state.nodes())
        again = compiled_filter.codes(state.nodes())

        assert codes.dtype == np.uint16
        assert codes.shape == (state.columns.size,)
        assert (codes == again).all()
        assert (compiled_filter.fits(state.nodes()) == (codes == 0)).all()
        assert compiled_filter.codes(
            NodeView(state.columns, np.zeros(0, dtype=np.int64))
        ).shape == (0,)
    state.check()


@every_filter
@every_pod
def test_a_filter_that_is_kept_by_row_knows_what_it_reads(plugin, wanted):
    state = cluster()
    for compiled_filter in compiled_filters(plugin, wanted, state):
        if compiled_filter.reads is Reads.CLUSTER:
            continue
        before = compiled_filter.codes(state.nodes()).copy()
        state.place(pod("more").on("n0").cpu("1").port(80).label("app", "web").build(), "n0")
        after = compiled_filter.codes(state.nodes())
        changed = {state.columns.names[row] for row in np.flatnonzero(before != after)}

        assert changed <= ({"n0"} if compiled_filter.reads is Reads.PODS else set())


@every_filter
@every_pod
def test_a_filter_agrees_with_itself_on_a_hypothesis_without_changes(plugin, wanted):
    state = cluster()
    rows: Rows = np.flatnonzero(state.columns.exists())
    for compiled_filter in compiled_filters(plugin, wanted, state):
        copy = state.hypothetical_view(rows)

        assert (
            compiled_filter.codes(copy).tolist()
            == compiled_filter.codes(state.nodes())[rows].tolist()
        )


@every_filter
@every_pod
def test_a_filter_agrees_with_the_cluster_as_it_would_be(plugin, wanted):
    state = cluster()
    rows: Rows = np.array([state.columns.row(name) for name in ("n0", "n5")])
    gone = [state.pods.slot(f"uid:default/{name}") for name in ("web", "shy")]
    for row, slot in zip(rows.tolist(), gone, strict=True):
        for compiled_filter in compiled_filters(plugin, wanted, state):
            copy = state.hypothetical_view(np.array([row]))
            copy.change(np.array([slot]), -1)
            hypothetical = compiled_filter.codes(copy).tolist()
            break
        else:
            continue
        other = cluster()
        other.remove(state.pods.pod(slot).uid)
        fresh = plugin.compile_filter(wanted.build(), other, Verdicts())
        if fresh.prepare() is SKIP:
            assert hypothetical == [0]
        else:
            there = NodeView(other.columns, np.array([row]))
            assert (fresh.codes(there) > 0).tolist() == [code > 0 for code in hypothetical]


@every_score
@every_pod
def test_a_score_lies_between_0_and_100_and_scores_every_node(plugin, wanted):
    state = cluster()
    rows: Rows = np.flatnonzero(state.columns.exists())
    compiled_score = plugin.compile_score(wanted.build(), state)
    if compiled_score is None or compiled_score.prepare() is SKIP:
        return
    raw = compiled_score.scores(NodeView(state.columns, rows))
    scores = compiled_score.normalise(raw.copy()) if compiled_score.needs_normalising else raw

    assert scores.shape == rows.shape
    assert scores.min() >= 0
    assert scores.max() <= 100


@every_score
@every_pod
def test_a_score_that_is_cached_by_row_is_the_same_alone_as_among_others(plugin, wanted):
    state = cluster()
    rows: Rows = np.flatnonzero(state.columns.exists())
    compiled_score = plugin.compile_score(wanted.build(), state)
    if (
        compiled_score is None
        or compiled_score.prepare() is SKIP
        or compiled_score.reads is Reads.CLUSTER
    ):
        return
    together = compiled_score.scores(NodeView(state.columns, rows)).tolist()

    assert together == [
        int(compiled_score.scores(NodeView(state.columns, rows[at : at + 1]))[0])
        for at in range(len(rows))
    ]
    assert together == compiled_score.scores(state.nodes())[rows].tolist()
    for row, raw in zip(rows.tolist(), together, strict=True):
        assert compiled_score.score_row(row) in (None, raw)


@every_score
def test_equal_raw_scores_stay_equal(plugin):
    state = cluster()
    for wanted in PODS.values():
        compiled_score = plugin.compile_score(wanted.build(), state)
        if (
            compiled_score is not None
            and compiled_score.needs_normalising
            and compiled_score.reads is not Reads.CLUSTER
        ):
            assert len(set(compiled_score.normalise(np.full(4, 7, dtype=np.int64)).tolist())) == 1


@pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)
@pytest.mark.parametrize("name", sorted(registry.PLUGINS))
def test_every_plugin_has_a_form_or_is_a_name(name, reference):
    plugin = registry.PLUGINS[name](load.defaults().profiles[0], reference)
    forms = (Filter, NodeFilter, Score, PreEnqueue, PostFilter)
    names_only = {"DefaultBinder", "DefaultPreemption", "PrioritySort"}

    assert plugin.name == name
    assert any(isinstance(plugin, form) for form in forms) or name in names_only
    assert all(event.action for event in plugin.events_to_register())
