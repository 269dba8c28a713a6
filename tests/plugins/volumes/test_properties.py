"""The volume rules agree with their plainest form, on nodes as they are and as they would be."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.framework.plugin import CompiledFilter, Rejected
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Node, Pod
from scheduler.model.api.storage import PersistentVolumeClaim, Storage
from scheduler.plugins.volumes.node_volume_limits import NodeVolumeLimits
from scheduler.plugins.volumes.volume_binding import VolumeBinding
from scheduler.plugins.volumes.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volumes.volume_zone import VolumeZone
from scheduler.state.cluster import Cluster
from scheduler.state.views.node_view import NodeView
from tests.support import oracle_volumes as oracle
from tests.support.builders import node, pod
from tests.support.oracle_volumes import Refused, World
from tests.support.plugin_checks import ATTEMPT
from tests.support.storage import (
    VolumeBuilder,
    attachment,
    capacity,
    claim,
    csi_driver,
    csi_node,
    ebs_disk,
    gce_disk,
    iscsi,
    mounting,
    rbd,
    storage_class,
    using,
    volume,
)

NODES = ("n1", "n2", "n3")
ZONE = "topology.kubernetes.io/zone"
BETA = "failure-domain.beta.kubernetes.io/zone"
CLASSES = (*("local", "tracked", "fast", "aws") * 3, "now", "gone")
SIZES = ("1Gi", "2Gi", "5Gi")
CLAIMS = tuple(f"c{i}" for i in range(4))
VOLUMES = tuple(f"v{i}" for i in range(5))

few = st.integers(0, 3)


def some(*options: Any) -> Any:
    return st.sampled_from(options)


@st.composite
def nodes(draw: Any) -> list[Node]:
    made = []
    for name in NODES:
        each = node(name).label("host", name)
        for label in (ZONE, BETA):
            zone = draw(some("", "", "a", "b"))
            each = each.label(label, zone) if zone else each
        made.append(each.build())
    return made


def reached_by(draw: Any, made: VolumeBuilder) -> VolumeBuilder:
    match draw(some("", "", "zone", "host", "both", "either", "none")):
        case "zone":
            return made.reached_by(**{ZONE: draw(some("a", "b"))})
        case "host":
            return made.reached_by(host=draw(some(*NODES)))
        case "both":
            return made.reached_by(host=draw(some(*NODES)), **{ZONE: draw(some("a", "b"))})
        case "either":
            return made.reached_by(host="other").reached_by(host=draw(some(*NODES)))
        case "none":
            return made.reached_by()
        case _:
            return made


@st.composite
def volumes(draw: Any, name: str) -> Storage:
    made = volume(name).size(draw(some(*SIZES))).of_class(draw(some(*CLASSES)))
    made = made.modes(*draw(some(("ReadWriteOnce",), ("ReadWriteOnce", "ReadOnlyMany"))))
    made = reached_by(draw, made.phase(draw(some("Available", "Available", "Released"))))
    match draw(some("", "", "", "claimed", "zonal", "fast", "deleting")):
        case "claimed":
            made = made.for_claim(draw(some(*CLAIMS)), draw(some("", "other")))
        case "zonal":
            made = made.label(draw(some(ZONE, BETA)), draw(some("a", "a__b", "b")))
        case "fast":
            made = made.label("disk", "ssd")
        case "deleting":
            made = made.deleting()
    match draw(some("", "csi", "csi", "ebs")):
        case "csi":
            made = made.csi(draw(some("csi.a", "csi.b")), draw(some("h1", "h2", "h3", "h4")))
        case "ebs":
            made = made.spec(aws_elastic_block_store=ebs_disk("vol-1").aws_elastic_block_store)
    return made.build()


@st.composite
def claims(draw: Any, name: str) -> Storage:
    made = claim(name).size(draw(some(*SIZES))).of_class(draw(some(*CLASSES, None)))
    made = made.modes(draw(some("ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod")))
    how = draw(some(*("", "bound") * 5, "half", "selected", "picky"))
    if how == "bound":
        made = made.bound_to(draw(some(*VOLUMES * 2, "missing")))
    elif how == "half":
        made = made.spec(volume_name=draw(some(*VOLUMES)))
    elif how == "selected":
        made = made.on(draw(some(*NODES, "missing")))
    elif how == "picky":
        made = made.selects(disk="ssd")
    return made.build()


@st.composite
def surroundings(draw: Any) -> list[Storage]:
    """Draw classes, drivers, limits, capacities and attachments."""
    made: list[Any] = [
        storage_class("local").waits(),
        storage_class("now").made_by("csi.a"),
        storage_class("aws").waits().made_by("kubernetes.io/aws-ebs"),
        csi_driver("csi.b", tells_capacity=draw(some(True, True, False))),
    ]
    fast = storage_class("fast").waits().made_by(draw(some("csi.a", "csi.a", "")))
    if draw(st.booleans()):
        fast = fast.allows(**{ZONE: ("a",)}).allows(host="n2", **{ZONE: ("a", "b")})
    made += [fast, storage_class("tracked").waits().made_by("csi.b")]
    for name in NODES:
        if draw(few):
            limited = csi_node(name).driver("csi.a", draw(some(None, 0, 1, 2)))
            limited = limited.driver("csi.b", draw(some(None, 1, 2)))
            made.append(limited.driver("ebs.csi.aws.com", draw(some(None, 1))))
    for i in range(draw(few)):
        room = capacity(f"r{i}", "tracked").room(draw(some(*SIZES)))
        room = room.at_most(draw(some(*SIZES))) if draw(few) == 0 else room
        made.append(room.for_nodes(**draw(some({}, {ZONE: "a"}, {"host": "n1"}))) if i else room)
    for i in range(draw(few)):
        attached = draw(some(*VOLUMES)), draw(some(*NODES)), draw(some("csi.a", "csi.b", ""))
        made.append(attachment(f"a{i}", *attached))
    return [each.build() if hasattr(each, "build") else each for each in made]


@st.composite
def pods(draw: Any, name: str, namespaces: tuple[str, ...] = ("default",)) -> Pod:
    made = pod(name).namespace(draw(some(*namespaces)))
    made = using(made, *draw(st.lists(some(*CLAIMS), min_size=1, max_size=2)))
    for _ in range(draw(some(0, 0, 1, 2))):
        read_only = draw(st.booleans())
        disk = draw(some(iscsi, gce_disk, ebs_disk, rbd))
        monitors = draw(some(("m1",), ("m1", "m2"), ("m3",))) if disk is rbd else ()
        made = mounting(made, disk(draw(some("x", "y")), *monitors, read_only=read_only))
    return made.build()


@st.composite
def worlds(draw: Any) -> tuple[World, list[tuple[str, Pod]], Pod]:
    """Draw a world, the order in which its pods were added, and a pod to evaluate."""
    stored: list[Storage] = draw(surroundings())
    stored += [draw(volumes(name)) for name in VOLUMES]
    stored += [draw(claims(name)) for name in CLAIMS if draw(st.integers(0, 19)) != 7]
    placed = [
        (draw(some(*NODES, "imaginary")), draw(pods(f"p{i}", ("default", "default", "other"))))
        for i in range(draw(some(3, 5, 7)))
    ]
    by_node: dict[str, list[Pod]] = {}
    for where, each in placed:
        by_node.setdefault(where, []).append(each)
    return World(draw(nodes()), by_node, stored), placed, draw(pods("incoming"))


def told(world: World, placed: list[tuple[str, Pod]], order: Callable[[list[Any]], Any]) -> Cluster:
    """Return a cluster that has observed a world, in some order."""
    cluster = Cluster()
    news: list[Any] = [*world.nodes, *placed, *world.items]
    order(news)
    for each in news:
        if isinstance(each, Node):
            cluster.write_node(each)
        elif isinstance(each, tuple):
            cluster.place(each[1], each[0])
        else:
            cluster.volumes.write(each)
    cluster.check()
    return cluster


class Rule:
    """One rule, compiled for one pod."""

    def __init__(self, plugin: Any, incoming: Pod, cluster: Cluster) -> None:
        self.verdicts = Verdicts()
        self.cluster = cluster
        self.compiled_filter: CompiledFilter | None = plugin.compile_filter(
            incoming, cluster, self.verdicts
        )
        self.refused: Refused | None = None
        self.prepare()

    def prepare(self) -> None:
        said = self.compiled_filter.prepare(ATTEMPT) if self.compiled_filter is not None else None
        self.refused = Refused(said.verdict.reasons[0]) if isinstance(said, Rejected) else None

    def judge(self, view: NodeView, name: str) -> tuple[str, ...] | Refused:
        """Return what the rule says of one node of a view."""
        if self.refused is not None:
            return self.refused
        if self.compiled_filter is None:
            return ()
        row = self.cluster.columns.row(name)
        (position,) = np.flatnonzero(view.rows == row)
        reasons = self.verdicts[int(self.compiled_filter.codes(view)[position])].reasons
        # Whatever the rule remembers, it says the same again.
        assert bool(self.compiled_filter.fits(view)[position]) == (not reasons)
        return reasons


RULES = {
    "restrictions": (VolumeRestrictions(), oracle.restrictions),
    "limits": (NodeVolumeLimits(), oracle.limits),
    "zone": (VolumeZone(), oracle.zone),
    "binding": (VolumeBinding(), oracle.binding),
}


def refused_by_others(name: str, world: World, incoming: Pod) -> bool:
    """Return whether a rule is not called, because the claims do not exist."""
    names = oracle.claim_names(incoming)
    return name == "limits" and any(world.claim(incoming, each) is None for each in names)


@given(drawn=worlds(), random=st.randoms(use_true_random=False))
def test_every_node_is_evaluated_as_by_the_plain_oracle(drawn, random):
    world, placed, incoming = drawn
    cluster = told(world, placed, random.shuffle)
    for name, (plugin, plain) in RULES.items():
        if refused_by_others(name, world, incoming):
            continue
        rule = Rule(plugin, incoming, cluster)
        for each in world.nodes:
            where = each.metadata.name
            alone = NodeView(cluster.columns, np.array([cluster.columns.row(where)]))
            assert (name, rule.judge(cluster.nodes(), where)) == (
                name,
                plain(world, incoming, each),
            )
            assert (name, rule.judge(alone, where)) == (name, plain(world, incoming, each))


@given(drawn=worlds(), random=st.randoms(use_true_random=False), data=st.data())
def test_nodes_with_hypothetical_pods_are_evaluated_as_by_the_oracle(drawn, random, data):
    world, placed, incoming = drawn
    nominated = data.draw(st.lists(pods("nominated", ("default", "other")), max_size=1))
    cluster = told(world, placed, random.shuffle)
    for each in nominated:
        cluster.nominate(each, "n1")
    there = data.draw(some(*world.nodes))
    gone = [p for p in world.pods.get(there.metadata.name, []) if data.draw(st.booleans())]
    for name, (plugin, _) in RULES.items():
        if refused_by_others(name, world, incoming):
            continue
        rule, where = Rule(plugin, incoming, cluster), there.metadata.name
        view = cluster.hypothetical_view(np.array([cluster.columns.row(where)]))
        for sign, changed, come in ((-1, gone, []), (+1, nominated, nominated)):
            for each in changed:
                view.change(np.array([cluster.pods.slot(each.uid)]), sign)
            want = expected(name, world, incoming, there, gone, come)
            assert (name, rule.judge(view, where)) == (name, want)


def expected(
    name: str, world: World, incoming: Pod, there: Node, gone: list[Pod], come: list[Pod]
) -> tuple[str, ...] | Refused:
    if name == "restrictions":
        return oracle.restrictions(world, incoming, there, gone, come)
    return RULES[name][1](world.without(there.metadata.name, gone, come), incoming, there)


@given(drawn=worlds(), later=worlds(), random=st.randoms(use_true_random=False))
def test_rules_agree_with_the_oracle_after_random_changes(drawn, later, random):
    (world, placed, _), (then, others, incoming) = drawn, later
    cluster = told(world, placed, random.shuffle)
    rules = {name: Rule(plugin, incoming, cluster) for name, (plugin, _) in RULES.items()}
    wanted = {(type(each), each.metadata.key) for each in then.items}
    changes: list[Any] = [("write", each) for each in then.items]
    changes += [
        ("erase", each) for each in world.items if (type(each), each.metadata.key) not in wanted
    ]
    changes += [("write node", each) for each in then.nodes]
    changes += [("place", each) for each in others]
    kept = {each.uid for _, each in others}
    changes += [("remove", each) for _, each in placed if each.uid not in kept]
    random.shuffle(changes)
    for what, each in changes:
        change(cluster, what, each)
    cluster.check()

    for name, rule in rules.items():
        if not refused_by_others(name, then, incoming):
            rule.prepare()
            for each in then.nodes:
                said = rule.judge(cluster.nodes(), each.metadata.name)
                assert (name, said) == (name, RULES[name][1](then, incoming, each))


def change(cluster: Cluster, what: str, each: Any) -> None:
    match what:
        case "write":
            cluster.volumes.write(each)
        case "erase":
            cluster.volumes.erase(type(each).__name__, each.metadata.key)
        case "write node":
            cluster.write_node(each)
        case "place":
            where, placed = each
            cluster.place(placed, where)
        case "remove":
            cluster.remove(each.uid)


@given(drawn=worlds())
def test_restoring_assumed_state_leaves_no_difference(drawn):
    world, placed, _ = drawn
    cluster = told(world, placed, lambda _: None)
    before = {name: cluster.volumes.candidates(find(world, name)) for name in CLAIMS}
    assumed = []
    for name in VOLUMES:
        found = cluster.volumes.volumes.observed(name)
        reference = claim("c0").build().metadata
        spec = replace(
            found.spec,
            claim_ref=replace(volume("x").for_claim("c0", reference.uid).object.spec.claim_ref),
        )
        assumed.append(replace(found, spec=spec))
        cluster.volumes.assume(assumed[-1])
        cluster.check()
    for each in assumed:
        cluster.volumes.restore(each)
        cluster.check()

    assert {name: cluster.volumes.candidates(find(world, name)) for name in CLAIMS} == before


def find(world: World, name: str) -> PersistentVolumeClaim:
    found: PersistentVolumeClaim | None = world.find(PersistentVolumeClaim, f"default/{name}")
    built: PersistentVolumeClaim = claim(name).build()
    return found or built
