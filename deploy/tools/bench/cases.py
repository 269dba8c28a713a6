"""The workloads by name, in full and small size.

Names are those of kube-scheduler's benchmark without the word Scheduling. To add one, write a
function from sizes to a `Workload`, and add a line to CASES.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from deploy.tools.bench import devices, event_handling, templates
from deploy.tools.bench.calls import post
from deploy.tools.bench.templates import (
    HOSTNAME,
    TEAM,
    ZONE,
    Template,
    pod_affinity_pod,
    zoned_node,
)
from deploy.tools.bench.workloads import (
    Batch,
    Churn,
    Nodes,
    Workload,
    changing,
    creating,
    deleting,
    recreating,
)

__all__ = ["CASES", "CORE", "TARGETED", "Size", "UnknownWorkload", "chosen", "workload"]

Size: TypeAlias = Literal["small", "full"]
#: Number of nodes, existing pods and measured pods.
Sizes: TypeAlias = tuple[int, int, int]
Build: TypeAlias = Callable[[int, int, int], Workload]

_MOONS: Final = zoned_node("moon-1", "moon-2", "moon-3")
_ZONE1: Final = zoned_node("zone1")

#: Length of idle runs.
_IDLE_SECONDS: Final = {"small": 20.0, "full": 120.0}
#: Changes of pods per second during idle runs.
_IDLE_CHANGES: Final = {"Idle": 10.0, "Quiet": 0.0}


class UnknownWorkload(ValueError):
    """There is no workload with that name."""


@dataclass(frozen=True)
class Case:
    """A workload in two sizes."""

    build: Build
    full: Sizes
    small: Sizes
    #: The case of kube-scheduler's benchmark; empty: `Scheduling` followed by the name.
    source: str = ""


def _existing(
    count: int, template: Template, namespace: str = "existing", per_node: int = 1
) -> Batch:
    return Batch(
        name=f"existing-{namespace}",
        namespace=namespace,
        count=count,
        template=template,
        per_node=per_node,
    )


def _measured(count: int, template: Template, namespace: str = "measured") -> Batch:
    return Batch(name="pod", namespace=namespace, count=count, template=template)


def _simple(measured: Template, node: Template = templates.plain_node) -> Build:
    """Return a builder: plain pods exist, pods of one template are measured."""

    def build(nodes: int, existing: int, pods: int) -> Workload:
        return Workload(
            nodes=(Nodes(nodes, node),),
            existing=(_existing(existing, templates.pod()),),
            measured=(_measured(pods, measured),),
        )

    return build


def _pod_affinity(
    template: Template, node: Template = templates.plain_node, per_node: int = 1
) -> Build:
    """Return a builder: pods with affinity exist in one namespace, are measured in another."""

    def build(nodes: int, existing: int, pods: int) -> Workload:
        return Workload(
            nodes=(Nodes(nodes, node),),
            existing=(_existing(existing, template, "sched-0", per_node),),
            measured=(_measured(pods, template, "sched-1"),),
        )

    return build


def _team(template: Template, node: Template = templates.plain_node) -> Build:
    """Return a builder: the same with pods in a hundred namespaces, found by a selector."""

    def build(nodes: int, existing: int, pods: int) -> Workload:
        spaces = [f"init-ns-{index}" for index in range(100)]
        each = existing // len(spaces)
        return Workload(
            nodes=(Nodes(nodes, node),),
            existing=tuple(_existing(each, template, space) for space in spaces),
            measured=(_measured(pods, template, "measure-ns-0"),),
            namespaces=dict.fromkeys([*spaces, "measure-ns-0"], TEAM),
        )

    return build


def _volumes(kind: Literal["csi", "aws"], *, limited: bool) -> Build:
    def build(nodes: int, existing: int, pods: int) -> Workload:
        return Workload(
            nodes=(Nodes(nodes),),
            existing=(
                Batch(name="old", namespace="existing", count=existing, per_node=1, volume=kind),
            ),
            measured=(Batch(name="pod", namespace="measured", count=pods, volume=kind),),
            csi=templates.CSI_LIMIT if limited else 0,
        )

    return build


def _mixed(nodes: int, existing: int, pods: int) -> Workload:
    """Five kinds of pods exist, plain pods are measured; `existing` counts each kind."""
    kinds: dict[str, Template] = {
        "plain": templates.pod(),
        "affinity": pod_affinity_pod("podAffinity", "blue", ZONE, required=True),
        "anti": pod_affinity_pod("podAntiAffinity", "green", HOSTNAME, required=True),
        "preferred": pod_affinity_pod("podAffinity", "red", HOSTNAME, required=False),
        "preferred-anti": pod_affinity_pod("podAntiAffinity", "yellow", HOSTNAME, required=False),
    }
    return Workload(
        nodes=(Nodes(nodes, _ZONE1),),
        existing=tuple(
            Batch(name=name, namespace="sched-0", count=existing, template=each, per_node=1)
            for name, each in kinds.items()
        ),
        measured=(_measured(pods, templates.pod()),),
    )


def _default_spreading(nodes: int, existing: int, pods: int) -> Workload:
    service = templates.service("service-ns", {"app": "scheduler-perf"})
    return Workload(
        nodes=(Nodes(nodes, _MOONS),),
        existing=(_existing(existing, templates.pod()),),
        measured=(_measured(pods, templates.labelled_pod, "service-ns"),),
        objects=([post("/api/v1/namespaces/service-ns/services", service)],),
    )


def _churned(churn: Churn) -> Build:
    def build(nodes: int, existing: int, pods: int) -> Workload:
        return Workload(
            nodes=(Nodes(nodes),),
            existing=(_existing(existing, templates.pod()),),
            measured=(_measured(pods, templates.pod()),),
            churns=(churn,),
        )

    return build


def _gated(_: int, existing: int, pods: int) -> Workload:
    """One node, while gated pods wait and 50 running pods per second are deleted."""
    running = _existing(existing, templates.light_pod, per_node=existing)
    gated = Batch(
        name="gated", namespace="gated", count=existing // 2, template=templates.gated_pod
    )
    return Workload(
        nodes=(Nodes(1, templates.named_node),),
        existing=(running, gated),
        measured=(_measured(pods, templates.light_pod),),
        churns=(deleting(running, per_second=50, after="start"),),
    )


def _preemption(nodes: int, existing: int, pods: int) -> Workload:
    return Workload(
        nodes=(Nodes(nodes),),
        existing=(_existing(existing, templates.low_priority_pod),),
        measured=(_measured(pods, templates.high_priority_pod),),
        kind="preemption",
        limit_seconds=1800.0,
        victims_per_pod=3,
    )


def _preemption_async(nodes: int, existing: int, pods: int) -> Workload:
    """Small pods are measured; every 200 ms a pod that preempts is created."""
    return Workload(
        nodes=(Nodes(nodes),),
        existing=(_existing(existing, templates.low_priority_pod),),
        measured=(_measured(pods, templates.pod()),),
        churns=(creating(templates.high_priority_pod, 0.2),),
    )


def _pinned(nodes: int, _: int, pods: int) -> Workload:
    return Workload(
        nodes=(Nodes(1, templates.named_node), Nodes(nodes)),
        measured=(_measured(pods, templates.pinned_pod()),),
    )


def _idle(seconds: float, *, per_second: float) -> Build:
    def build(nodes: int, existing: int, _: int) -> Workload:
        running = _existing(existing, templates.pod())
        return Workload(
            nodes=(Nodes(nodes),),
            existing=(running,),
            measured=(),
            churns=(changing(running, per_second=per_second),) if per_second else (),
            kind="idle",
            limit_seconds=seconds,
        )

    return build


_SPREAD, _SPREAD_SOFTLY = (
    _simple(templates.spread_pod(each), _MOONS) for each in ("DoNotSchedule", "ScheduleAnyway")
)
_ANTI_AFFINITY: Final = pod_affinity_pod("podAntiAffinity", "green", HOSTNAME, required=True)
_AFFINITY: Final = pod_affinity_pod("podAffinity", "blue", ZONE, required=True)
_PREFERRED_AFFINITY: Final = pod_affinity_pod("podAffinity", "red", HOSTNAME, required=False)
_PREFERRED_ANTI_AFFINITY: Final = pod_affinity_pod(
    "podAntiAffinity", "yellow", HOSTNAME, required=False
)
_TEAM_ANTI_AFFINITY: Final = pod_affinity_pod(
    "podAntiAffinity", "green", HOSTNAME, required=True, team=True
)
_TEAM_AFFINITY: Final = pod_affinity_pod("podAffinity", "blue", ZONE, required=True, team=True)

#: 40 plain pods fill a node: pods with preferred affinity would have been placed like that.
_FULL: Final = 40

CASES: Final[Mapping[str, Case]] = {
    "Basic": Case(_simple(templates.pod()), (5000, 1000, 10000), (200, 40, 900)),
    "PodAntiAffinity": Case(_pod_affinity(_ANTI_AFFINITY), (5000, 1000, 2000), (1000, 200, 600)),
    "PodAffinity": Case(_pod_affinity(_AFFINITY, _ZONE1), (5000, 5000, 5000), (200, 200, 600)),
    "PreferredPodAffinity": Case(
        _pod_affinity(_PREFERRED_AFFINITY, per_node=_FULL), (5000, 5000, 5000), (200, 200, 600)
    ),
    "PreferredPodAntiAffinity": Case(
        _pod_affinity(_PREFERRED_ANTI_AFFINITY), (5000, 5000, 5000), (200, 200, 600)
    ),
    "RequiredPodAntiAffinityWithNSSelector": Case(
        _team(_TEAM_ANTI_AFFINITY), (6000, 4000, 2000), (700, 200, 500)
    ),
    "RequiredPodAffinityWithNSSelector": Case(
        _team(_TEAM_AFFINITY, _ZONE1), (5000, 5000, 2000), (200, 200, 500)
    ),
    "NodeAffinity": Case(
        _simple(templates.node_affinity_pod(), _ZONE1), (5000, 5000, 10000), (200, 200, 600)
    ),
    "TopologySpreading": Case(
        _SPREAD, (5000, 5000, 5000), (200, 200, 900), source="TopologySpreading"
    ),
    "PreferredTopologySpreading": Case(
        _SPREAD_SOFTLY, (5000, 5000, 5000), (200, 200, 600), source="PreferredTopologySpreading"
    ),
    "DefaultTopologySpreading": Case(
        _default_spreading, (5000, 5000, 10000), (200, 200, 600), source="DefaultTopologySpreading"
    ),
    "MixedSchedulingBasePod": Case(
        _mixed, (5000, 2000, 5000), (200, 80, 600), source="MixedSchedulingBasePod"
    ),
    "Secrets": Case(_simple(templates.secret_pod), (5000, 1000, 10000), (200, 40, 600)),
    "CSIPVs": Case(_volumes("csi", limited=True), (5000, 5000, 5000), (200, 200, 400)),
    "InTreePVs": Case(_volumes("aws", limited=False), (5000, 1000, 2000), (200, 40, 400)),
    "Unschedulable": Case(
        _churned(creating(templates.large_cpu_pod, 0.2)),
        (5000, 100, 10000),
        (200, 20, 900),
        source="Unschedulable",
    ),
    "MixedChurn": Case(
        _churned(recreating(1.0)),
        (5000, 0, 10000),
        (200, 0, 900),
        source="SchedulingWithMixedChurn",
    ),
    "GatedPods": Case(_gated, (1, 20000, 20000), (1, 400, 900), source="SchedulingWhileGated"),
    "PreemptionBasic": Case(
        _preemption, (1000, 4000, 1000), (100, 400, 100), source="PreemptionBasic"
    ),
    "PreemptionLarge": Case(
        _preemption, (5000, 20000, 5000), (200, 800, 200), source="PreemptionBasic"
    ),
    "PreemptionAsync": Case(
        _preemption_async, (5000, 20000, 5000), (200, 800, 600), source="PreemptionAsync"
    ),
    "EventHandling": Case(
        event_handling.pod_delete, (50, 480, 500), (4, 36, 40), source="EventHandlingPodDelete"
    ),
    "ResourceClaimTemplate": Case(
        devices.resource_claim_template,
        (5000, 2500, 2500),
        (100, 200, 300),
        source="SchedulingWithResourceClaimTemplate",
    ),
    "ResourceClaimTemplate500Nodes": Case(
        devices.resource_claim_template,
        (500, 2500, 2500),
        (50, 200, 200),
        source="SchedulingWithResourceClaimTemplate",
    ),
    "ExtendedResource": Case(
        devices.extended_resource, (500, 2500, 2500), (50, 200, 200), source="ExtendedResource"
    ),
    "Pinned": Case(_pinned, (15000, 0, 30000), (300, 0, 900), source="SchedulingDaemonset"),
    "ColdStart": Case(
        _simple(templates.pod()), (15000, 150000, 5000), (300, 3000, 300), source="none"
    ),
    **{
        name: Case(
            _idle(_IDLE_SECONDS["full"], per_second=rate),
            (5000, 15000, 0),
            (200, 600, 0),
            source="none",
        )
        for name, rate in _IDLE_CHANGES.items()
    },
}

#: The default workloads of the small size.
CORE: Final = ("Basic", "PodAntiAffinity", "TopologySpreading", "PreemptionBasic")

#: The workloads with a target in `targets`; the longest one is last.
TARGETED: Final = (
    "Basic",
    "ColdStart",
    "PreemptionBasic",
    "TopologySpreading",
    "PodAntiAffinity",
    "PodAffinity",
    "PreferredPodAntiAffinity",
    "RequiredPodAntiAffinityWithNSSelector",
    "RequiredPodAffinityWithNSSelector",
    "Unschedulable",
    "MixedChurn",
    "EventHandling",
    "ResourceClaimTemplate",
    "Idle",
    "Quiet",
    "PreemptionLarge",
)


def workload(name: str, size: Size) -> Workload:
    """Return a workload in a size."""
    case = CASES[name]
    build = case.build
    if name in _IDLE_CHANGES:
        build = _idle(_IDLE_SECONDS[size], per_second=_IDLE_CHANGES[name])
    made = build(*(case.full if size == "full" else case.small))
    return dataclasses.replace(made, name=name, source=case.source or f"Scheduling{name}")


def chosen(text: str, size: Size) -> list[str]:
    """Return the names of workloads in a list that is separated by commas or blanks.

    `all` is all of them, `core` the most important ones, `targets` those with a target. An empty
    list is `core` in the small size and `all` in the full size.

    Raises:
        UnknownWorkload: a name is unknown.
    """
    names = text.replace(",", " ").split() or ["core" if size == "small" else "all"]
    known = {name.lower(): name for name in CASES}
    found: dict[str, None] = {}
    for name in names:
        if name == "all":
            found |= dict.fromkeys(CASES)
        elif name == "core":
            found |= dict.fromkeys(CORE)
        elif name == "targets":
            found |= dict.fromkeys(TARGETED)
        elif name.lower().removeprefix("scheduling") in known:
            found[known[name.lower().removeprefix("scheduling")]] = None
        else:
            raise UnknownWorkload(f"no workload {name}; there are {', '.join(CASES)}")
    return list(found)
