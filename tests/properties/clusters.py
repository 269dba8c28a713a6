"""Small random clusters, and a pod that comes to them."""

from hypothesis import strategies as st

from scheduler.model.effects import Bind, Nominate
from tests.properties.world import PROFILES
from tests.support.builders import NodeBuilder, PdbBuilder, PodBuilder, node, pdb, pod
from tests.support.cluster import Cluster

cpus = st.sampled_from(["0", "1", "2", "3", "4"])
priorities = st.sampled_from([-1, 0, 1, 2, 5])
ports = st.sampled_from([0, 0, 0, 80, 81])
apps = st.sampled_from(["", "", "web", "db"])


@st.composite
def pods(draw: st.DrawFn, name: str) -> PodBuilder:
    """Draw a pod that asks for little."""
    builder = pod(name).cpu(draw(cpus)).priority(draw(priorities))
    if port := draw(ports):
        builder = builder.port(port, address=draw(st.sampled_from(["", "10.0.0.1"])))
    if app := draw(apps):
        builder = builder.label("app", app)
    if draw(st.integers(0, 9)) == 0:
        builder = builder.requests({"example.com/gpu": "1"})
    return builder


@st.composite
def running(draw: st.DrawFn, name: str, where: str) -> PodBuilder:
    """Draw a pod on a node."""
    builder = draw(pods(name)).on(where).started(draw(st.integers(0, 5)))
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return builder.terminating()
    if kind == 1:
        return builder.preempted()
    return builder.not_started() if kind == 2 else builder


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeBuilder:
    """Draw a small node."""
    builder = node(name).cpu(draw(st.sampled_from(["2", "4", "6"]))).pods(draw(st.integers(1, 5)))
    kind = draw(st.integers(0, 11))
    if kind == 0:
        return builder.cordoned()
    if kind == 1:
        return builder.taint("t")
    return builder.has({"example.com/gpu": "2"}) if kind < 6 else builder


@st.composite
def budgets(draw: st.DrawFn, name: str) -> PdbBuilder:
    """Draw a budget over one of the two applications."""
    builder = pdb(name).allows(draw(st.integers(-1, 3)))
    builder = builder.selects(app=draw(st.sampled_from(["web", "db"])))
    return builder.disrupted(*draw(st.lists(st.sampled_from(["n0-0", "n1-1", "n0-2"]))))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[object], PodBuilder]:
    """Draw a cluster and a pod that comes to it."""
    objects: list[object] = []
    names = [f"n{number}" for number in range(draw(st.integers(1, 4)))]
    for name in names:
        objects.append(draw(nodes(name)))
        objects += [
            draw(running(f"{name}-{number}", name)) for number in range(draw(st.integers(0, 5)))
        ]
    objects += [draw(budgets(f"b{number}")) for number in range(draw(st.integers(0, 2)))]
    for number in range(draw(st.integers(0, 3))):
        nominee = draw(pods(f"nominee-{number}")).scheduler("other")
        objects.append(nominee.nominated(draw(st.sampled_from([*names, "elsewhere"]))))
    incoming = draw(pods("p")).priority(draw(st.sampled_from([0, 1, 2, 5, 9])))
    if draw(st.integers(0, 3)) == 0:
        incoming = incoming.nominated(draw(st.sampled_from(names)))
    if draw(st.integers(0, 9)) == 0:
        incoming = incoming.tolerates("t", operator="Exists").never_preempts()
    return draw(st.permutations(objects)), incoming


def built(objects: list[object]) -> Cluster:
    """Return a cluster in which no effect is carried out."""
    cluster = Cluster(using=PROFILES)
    cluster.hold(Bind, Nominate)
    cluster.add(*objects)
    return cluster
