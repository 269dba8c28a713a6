"""The contract that every plugin of the default profile keeps."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.config import load
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import (
    PASS,
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
    PodResourceClaim,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from scheduler.model.releases import REFERENCES, V1_37
from scheduler.plugins import registry
from scheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Rows
from scheduler.state.views.node_view import NodeView
from tests.support.builders import OURS, PodBuilder, node, pod, requirement, term
from tests.support.cluster import profiles
from tests.support.devices import choice, device_class, gpus, one_of
from tests.support.devices import claim as device_claim
from tests.support.storage import (
    DRIVER,
    capacity,
    claim,
    csi_driver,
    csi_node,
    gce_disk,
    mounting,
    storage_class,
    using,
    volume,
)

# The newest release has plugins with a score that older ones do not have.
PROFILE = profiles(reference=V1_37)[OURS]
FILTERS = {plugin.name: plugin for plugin in PROFILE.filters}
#: More resources than two are not balanced node by node.
OF_THREE = NodeResourcesBalancedAllocation(["cpu", "memory", "ephemeral-storage"])
SCORES = {
    **{plugin.name: plugin for plugin, _ in PROFILE.scores},
    f"{OF_THREE.name}-of-three": OF_THREE,
}
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
    "nested": P.spec(host_network=True, host_users=False),
    "with a disk": mounting(P, gce_disk("disk")),
    "with a volume": using(P, "bound"),
    "with a volume to make": using(P, "waiting"),
    "with devices": P.spec(resource_claims=[PodResourceClaim("gpu", "devices")]),
}
#: A plugin, a kind of pod, and what the plugin compiles to for it.
Pair = tuple[str, str, Any]
ZONE = "topology.kubernetes.io/zone"
STORAGE = [
    volume("v").csi(DRIVER).label(ZONE, "a").build(),
    claim("bound").bound_to("v").build(),
    csi_node("n0").driver(DRIVER, 0).build(),
    csi_driver(DRIVER, tells_capacity=True),
    storage_class("made").waits().made_by(DRIVER).build(),
    claim("waiting").of_class("made").build(),
    capacity("c", "made").room("2Gi").for_nodes(zone="a").build(),
]
DEVICES = [
    gpus("n0", "d0"),
    gpus("n5", "d0", "d1"),
    device_claim("devices", one_of("r", choice("two", count=2), choice("one"))),
]


def cluster() -> Cluster:
    """Return nodes of every kind, and pods that repel, draw, listen and count."""
    nodes = [
        node("n0").cpu("4").has({"ephemeral-storage": "10Gi"}).label("zone", "a").label(ZONE, "b"),
        node("n1").cpu("4").label("zone", "a").cordoned(),
        node("n2").cpu("4").label("zone", "b").taint("t"),
        node("n3").cpu("1").label("zone", "b").image("app:1", 500 * 2**20),
        node("n4").cpu("4").taint("s", effect="PreferNoSchedule"),
        node("n5").cpu("8").label("zone", "c").declares("UserNamespacesHostNetworkSupport"),
    ]
    web = pod("web").label("app", "web").cpu("1")
    running = [
        mounting(web.on("n0"), gce_disk("disk")),
        near(pod("shy"), away=True).on("n5"),
        near(pod("fan")).on("n3").port(80),
        pod("plain").on("n3").cpu("1"),
        near(pod("drawn"), weight=3).on("n2"),
    ]
    state = Cluster(V1_37)
    for each in nodes:
        state.write_node(each.build())
    for each in (*running, pod("lost").on("nowhere").cpu("1")):
        state.place(each.build(), each.object.spec.node_name)
    for stored in STORAGE:
        state.volumes.write(stored)
    state.write_device_class(device_class())
    for known in DEVICES:
        state.devices.write(known)
    return state


def prepared_filter(
    plugin: Any, wanted: PodBuilder, state: Cluster, attempt: AttemptState | None = None
) -> Any:
    """Return the compiled filter; `None` if the plugin has none that evaluates nodes."""
    compiled_filter = plugin.compile_filter(wanted.build(), state, Verdicts())
    if compiled_filter is None:
        return None
    attempt = attempt or AttemptState(wanted.build(), 0.0)
    result = compiled_filter.prepare(attempt)
    if result is SKIP or isinstance(result, Rejected):
        return None
    return compiled_filter if result is PASS else result


def prepared_score(plugin: Any, wanted: PodBuilder, state: Cluster) -> Any:
    """Return the compiled score, after the filter of the same plugin; `None` if it has none."""
    attempt = AttemptState(wanted.build(), 0.0)
    if isinstance(plugin, Filter):
        prepared_filter(plugin, wanted, state, attempt)
    compiled_score = plugin.compile_score(wanted.build(), state)
    result = SKIP if compiled_score is None else compiled_score.prepare(attempt)
    return {SKIP: None, PASS: compiled_score}.get(result, result)


def applicable(plugins: Mapping[str, Any], prepared: Callable[..., Any]) -> list[Pair]:
    """Return each plugin with each pod that it does not skip, and what it compiles to."""
    state = cluster()
    pairs = [
        (name, kind, prepared(plugin, wanted, state))
        for name, plugin in plugins.items()
        for kind, wanted in PODS.items()
    ]
    return [pair for pair in pairs if pair[2] is not None]


FILTERED = applicable(FILTERS, prepared_filter)
SCORED = applicable(SCORES, prepared_score)


def pairs(found: Iterable[Pair], plugins: Mapping[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("plugin", "wanted"),
        [pytest.param(plugins[name], PODS[kind], id=f"{name}-{kind}") for name, kind, _ in found],
    )


def kept_by_row(found: Iterable[Pair]) -> list[Pair]:
    return [pair for pair in found if pair[2].reads is not Reads.CLUSTER]


def test_every_plugin_applies_to_a_pod():
    assert {name for name, _, _ in FILTERED} == set(FILTERS) - {"NodeName"}  # never has a filter
    assert {name for name, _, _ in SCORED} == set(SCORES)


@pairs(FILTERED, FILTERS)
def test_a_filter_evaluates_a_node_alone_as_among_others(plugin, wanted):
    state = cluster()
    rows: Rows = np.flatnonzero(state.columns.exists())
    compiled_filter = prepared_filter(plugin, wanted, state)
    together = compiled_filter.codes(NodeView(state.columns, rows)).tolist()
    alone = [
        int(compiled_filter.codes(NodeView(state.columns, rows[at : at + 1]))[0])
        for at in range(len(rows))
    ]
    backwards = compiled_filter.codes(NodeView(state.columns, rows[::-1])).tolist()[::-1]
    everything = compiled_filter.codes(state.nodes())[rows].tolist()

    assert together == alone == backwards == everything


@pairs(FILTERED, FILTERS)
def test_a_filter_gives_a_code_a_node_and_never_writes_to_the_columns(plugin, wanted):
    state = cluster()
    compiled_filter = prepared_filter(plugin, wanted, state)
    codes = compiled_filter.codes(state.nodes())
    again = compiled_filter.codes(state.nodes())

    assert codes.dtype == np.uint16
    assert codes.shape == (state.columns.size,)
    assert (codes == again).all()
    assert (compiled_filter.fits(state.nodes()) == (codes == 0)).all()
    assert compiled_filter.codes(NodeView(state.columns, np.zeros(0, dtype=np.int64))).shape == (0,)
    state.check()


@pairs(kept_by_row(FILTERED), FILTERS)
def test_a_filter_that_is_kept_by_row_knows_what_it_reads(plugin, wanted):
    state = cluster()
    compiled_filter = prepared_filter(plugin, wanted, state)
    before = compiled_filter.codes(state.nodes()).copy()
    state.place(pod("more").on("n0").cpu("1").port(80).label("app", "web").build(), "n0")
    after = compiled_filter.codes(state.nodes())
    changed = {state.columns.names[row] for row in np.flatnonzero(before != after)}

    assert changed <= ({"n0"} if compiled_filter.reads is Reads.PODS else set())


@pytest.mark.parametrize(("name", "victim"), [("n0", "web"), ("n5", "shy")], ids=["n0", "n5"])
@pairs(FILTERED, FILTERS)
def test_a_filter_agrees_with_the_cluster_as_it_would_be(plugin, wanted, name, victim):
    state, other = cluster(), cluster()
    row: Rows = np.array([state.columns.row(name)])
    copy = state.hypothetical_view(row)
    copy.change(np.array([state.pods.slot(f"uid:default/{victim}")]), -1)
    other.remove(f"uid:default/{victim}")

    hypothetical = prepared_filter(plugin, wanted, state).codes(copy).tolist()
    fresh = prepared_filter(plugin, wanted, other)

    there = [0] if fresh is None else fresh.codes(NodeView(other.columns, row)).tolist()
    assert [code > 0 for code in hypothetical] == [code > 0 for code in there]


@pairs(SCORED, SCORES)
def test_a_score_lies_between_0_and_100_and_scores_every_node(plugin, wanted):
    state = cluster()
    rows: Rows = np.flatnonzero(state.columns.exists())
    compiled_score = prepared_score(plugin, wanted, state)
    raw = compiled_score.scores(NodeView(state.columns, rows))
    scores = compiled_score.normalise(raw.copy()) if compiled_score.needs_normalising else raw

    assert scores.shape == rows.shape
    assert scores.min() >= 0
    assert scores.max() <= 100


@pairs(kept_by_row(SCORED), SCORES)
def test_a_score_that_is_cached_by_row_is_the_same_alone_as_among_others(plugin, wanted):
    state = cluster()
    rows: Rows = np.flatnonzero(state.columns.exists())
    compiled_score = prepared_score(plugin, wanted, state)
    together = compiled_score.scores(NodeView(state.columns, rows)).tolist()

    assert together == [
        int(compiled_score.scores(NodeView(state.columns, rows[at : at + 1]))[0])
        for at in range(len(rows))
    ]
    assert together == compiled_score.scores(state.nodes())[rows].tolist()
    for row, raw in zip(rows.tolist(), together, strict=True):
        assert compiled_score.score_row(row) in (None, raw)


@pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)
@pytest.mark.parametrize("name", sorted(registry.PLUGINS))
def test_every_plugin_has_a_form_or_is_a_name(name, reference):
    plugin = registry.PLUGINS[name](load.defaults().profiles[0], reference)
    forms = (Filter, NodeFilter, Score, PreEnqueue, PostFilter)
    names_only = {"DefaultBinder", "DefaultPreemption", "PrioritySort"}

    assert plugin.name == name
    assert any(isinstance(plugin, form) for form in forms) or name in names_only
    assert all(event.action for event in plugin.events_to_register())
