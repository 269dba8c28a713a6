"""Pods that care about other pods, and a cluster with its plain-loop twin that changes at random.

near(pod("a"), term(ZONE, app="x"))            required affinity
away(pod("a"), term(ZONE, app="x"), weight=5)  preferred anti-affinity
spread(pod("a"), constraint(ZONE, app="x"))    a topology spread constraint
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import (
    Affinity,
    LabelSelector,
    LabelsSpec,
    Node,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Requirement,
    Service,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from scheduler.state.cluster import Cluster
from scheduler.state.views.node_view import HypotheticalView
from tests.support.builders import PodBuilder, namespace, node, pod
from tests.support.oracle_affinity import World

__all__ = [
    "HOSTNAME",
    "ZONE",
    "Twin",
    "away",
    "changes",
    "constraint",
    "hypothetical_views",
    "labels",
    "near",
    "pods",
    "reasons",
    "service",
    "spread",
    "term",
]

Builder = PodBuilder
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def labels(*expressions: Requirement, **equal: str) -> LabelSelector:
    """Return a label selector."""
    return LabelSelector(equal, list(expressions))


def term(
    topology_key: str,
    *expressions: Requirement,
    namespaces: Sequence[str] = (),
    among: LabelSelector | None = None,
    **equal: str,
) -> PodAffinityTerm:
    """Return a term about pods with some labels; `among` selects their namespaces."""
    return PodAffinityTerm(labels(*expressions, **equal), list(namespaces), topology_key, among)


def near(given: PodBuilder, *terms: PodAffinityTerm, weight: int = 0) -> PodBuilder:
    """Add pod affinity: required, or preferred with a weight."""
    return _with_terms(given, "pod_affinity", terms, weight)


def away(given: PodBuilder, *terms: PodAffinityTerm, weight: int = 0) -> PodBuilder:
    """Add pod anti-affinity: required, or preferred with a weight."""
    return _with_terms(given, "pod_anti_affinity", terms, weight)


def _with_terms(
    given: PodBuilder, kind: str, terms: Sequence[PodAffinityTerm], weight: int
) -> PodBuilder:
    affinity = given.build().spec.affinity or Affinity()
    have = getattr(affinity, kind) or PodAffinity()
    if weight:
        more = [WeightedPodAffinityTerm(weight, each) for each in terms]
        have = replace(have, preferred=[*have.preferred, *more])
    else:
        have = replace(have, required=[*have.required, *terms])
    return given.spec(affinity=replace(affinity, **{kind: have}))


def constraint(
    topology_key: str, *, skew: int = 1, soft: bool = False, **more: Any
) -> TopologySpreadConstraint:
    """Return a spread constraint; what is no field of it is a label of the pods it counts."""
    fields = {key: more.pop(key) for key in list(more) if key in _FIELDS}
    fields.setdefault("label_selector", labels(**more))
    action = "ScheduleAnyway" if soft else "DoNotSchedule"
    return TopologySpreadConstraint(skew, topology_key, action, **fields)


_FIELDS = (
    "label_selector",
    "match_label_keys",
    "min_domains",
    "node_affinity_policy",
    "node_taints_policy",
)


def spread(given: PodBuilder, *constraints: TopologySpreadConstraint) -> PodBuilder:
    """Add spread constraints."""
    have = given.build().spec.topology_spread_constraints
    return given.spec(topology_spread_constraints=[*have, *constraints])


def service(name: str, **equal: str) -> Service:
    """Return a service that selects pods by labels."""
    return Service(ObjectMeta(name=name, namespace="default"), LabelsSpec(equal))


@dataclass
class Twin:
    """The cluster, and the same as plain lists."""

    cluster: Cluster = field(default_factory=Cluster)
    world: World = field(default_factory=World)

    def node(self, made: Node) -> None:
        self.cluster.write_node(made)
        self.world.nodes[made.metadata.name] = made

    def no_node(self, name: str) -> None:
        self.cluster.erase_node(name)
        self.world.nodes.pop(name, None)

    def place(self, made: Pod, name: str) -> None:
        self.cluster.place(made, name)
        self.world.pods.pop(made.uid, None)
        self.world.pods[made.uid] = (made, name)

    def remove(self, uid: str) -> None:
        self.cluster.remove(uid)
        self.world.pods.pop(uid, None)

    def nominate(self, made: Pod, name: str) -> None:
        self.cluster.nominate(made, name)
        self.world.pods.pop(made.uid, None)

    def namespace(self, name: str, **its_labels: str) -> None:
        self.cluster.write_namespace(namespace(name, **its_labels))
        self.world.namespaces[name] = its_labels

    def no_namespace(self, name: str) -> None:
        self.cluster.erase_namespace(name)
        self.world.namespaces.pop(name, None)

    def rows(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the rows of the nodes that exist, in no particular order of names."""
        return np.flatnonzero(self.cluster.columns.exists())

    def nodes(self, rows: Sequence[int]) -> list[Node]:
        return [self.world.nodes[self.cluster.columns.names[row]] for row in rows]


def reasons(codes: Sequence[int], verdicts: Verdicts) -> list[str]:
    """Return the reason of each code, empty where the pod fits."""
    return ["".join(verdicts[int(code)].reasons) for code in codes]


Judge = Callable[[Node, list[tuple[Pod, int]]], Any]


def hypothetical_views(
    twin: Twin,
) -> Iterator[tuple[HypotheticalView, list[list[tuple[Pod, int]]]]]:
    """Yield one hypothesis again and again as it grows, with the changes made to each row.

    On every row all pods are removed one by one, one nominated pod is added, and then the first
    pod again.
    """
    rows, cluster = twin.rows(), twin.cluster
    there = cluster.hypothetical_view(rows)
    done: list[list[tuple[Pod, int]]] = [[] for _ in rows]
    leaving = [list(cluster.pods.on_row(int(row))) for row in rows]
    layers = [([slots[k] if k < len(slots) else -1 for slots in leaving], -1) for k in range(3)]
    claims = [claim.slot for claim in cluster.nominations]
    if claims:
        layers.append(([claims[place % len(claims)] for place in range(len(rows))], +1))
    layers.append(([slots[0] if slots else -1 for slots in leaving], +1))
    for slots, sign in layers:
        there.change(np.array(slots, dtype=np.int64), sign)
        for place, slot in enumerate(slots):
            if slot >= 0:
                done[place].append((cluster.pods.pod(slot), sign))
        yield there, done


# Random changes ---------------------------------------------------------------------------------

_ZONES = st.sampled_from([None, None, "a", "b", "c", ""])
_NAMES = st.sampled_from([f"n{number}" for number in range(6)])
_UIDS = st.sampled_from([f"p{number}" for number in range(9)])
_SPACES = st.sampled_from(["default", "blue", "red"])
_APPS = st.sampled_from([None, "x", "x", "y"])
_EXPRESSIONS = st.sampled_from(
    [
        (),
        (Requirement("app", "In", ["x"]),),
        (Requirement("app", "NotIn", ["x"]),),
        (Requirement("app", "Exists", []),),
        (Requirement("app", "DoesNotExist", []),),
    ]
)


@st.composite
def _terms(draw: st.DrawFn) -> PodAffinityTerm:
    selector = draw(st.none() | st.builds(lambda each: labels(*each), _EXPRESSIONS))
    team = st.sampled_from(
        [
            labels(),
            labels(team="t1"),
            labels(Requirement("team", "NotIn", ["t1"])),
            labels(Requirement("team", "Exists", [])),
        ]
    )
    return PodAffinityTerm(
        label_selector=selector,
        namespaces=draw(st.lists(_SPACES, max_size=2)),
        topology_key=draw(st.sampled_from([ZONE, HOSTNAME])),
        namespace_selector=draw(st.none() | team),
    )


@st.composite
def pods(draw: st.DrawFn, uid: str | None = None) -> Pod:
    """Draw a pod, with any kind of affinity or none."""
    made = pod(draw(_UIDS) if uid is None else uid).namespace(draw(_SPACES))
    made = made.uid(made.build().metadata.name)
    app = draw(_APPS)
    if app is not None:
        made = made.label("app", app)
    for add in draw(st.lists(st.sampled_from([near, away]), max_size=2)):
        weight = draw(st.sampled_from([0, 0, 3, 100]))
        made = add(made, *draw(st.lists(_terms(), min_size=1, max_size=2)), weight=weight)
    if draw(st.integers(0, 4)) == 0:
        made = made.terminating()
    return made.build()


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """Draw a node, with or without each label."""
    made = node(draw(_NAMES))
    for key, values in ((ZONE, _ZONES), (HOSTNAME, st.sampled_from([None, "h1", "h2", "h3"]))):
        value = draw(values)
        if value is not None:
            made = made.label(key, value)
    if draw(st.booleans()):
        made = made.label("disk", "ssd")
    if draw(st.integers(0, 3)) == 0:
        made = made.taint("own", effect=draw(st.sampled_from(["NoSchedule", "PreferNoSchedule"])))
    return made.build()


def _namespaces() -> st.SearchStrategy[tuple[str, dict[str, str]]]:
    return st.tuples(_SPACES, st.sampled_from([{}, {"team": "t1"}, {"team": "t2"}]))


def changes() -> st.SearchStrategy[list[Callable[[Twin], None]]]:
    """Draw changes of a cluster, in order."""
    return st.lists(
        st.one_of(
            nodes().map(lambda made: lambda twin: twin.node(made)),
            st.tuples(pods(), _NAMES).map(lambda each: lambda twin: twin.place(*each)),
            st.tuples(pods(), _NAMES).map(lambda each: lambda twin: twin.place(*each)),
            st.tuples(pods(), _NAMES).map(lambda each: lambda twin: twin.nominate(*each)),
            _UIDS.map(lambda uid: lambda twin: twin.remove(uid)),
            _NAMES.map(lambda name: lambda twin: twin.no_node(name)),
            _namespaces().map(lambda each: lambda twin: twin.namespace(each[0], **each[1])),
            _SPACES.map(lambda name: lambda twin: twin.no_namespace(name)),
        ),
        min_size=4,
        max_size=20,
    )
