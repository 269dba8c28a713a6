"""Pods that wait until others are deleted, each kind because of another filter.

Source: kube-scheduler v1.36.3 test/integration/scheduler_perf/event_handling,
EventHandlingPodDelete. Pods with host ports are distributed so that they do not conflict.
"""

from typing import Any, Final

from deploy.tools.bench.templates import (
    HOSTNAME,
    Json,
    Template,
    claiming,
    pod,
    with_container,
    with_port,
)
from deploy.tools.bench.workloads import Batch, Nodes, Workload, deleting

__all__ = ["pod_delete"]

_PORTS: Final = 12
_VOLUMES: Final = 20
#: Deletions per second of each of the two kinds of blocking pods.
_PER_SECOND: Final = 100

_CROWD: Final = "blockertopologyportsresources"
_OWNERS: Final = "blockeraffinity"
_BLUE: Final = {"topology": "blue"}
_GREEN: Final = {"color": "green"}


def pod_delete(nodes: int, blockers: int, pods: int) -> Workload:
    """Return the workload: the number of blocking pods and of waiting pods of each kind."""
    crowd = Batch(
        name="blocker",
        namespace=_CROWD,
        count=blockers,
        template=_crowd(nodes),
        per_node=1,
        volume="csi",
    )
    owners = Batch(
        name="blocker",
        namespace=_OWNERS,
        count=blockers,
        template=_plain({**_GREEN, "type": "blocker"}, terminationGracePeriodSeconds=0),
        per_node=1,
        volume="csi",
        access="ReadWriteOncePod",
    )
    room = {"cpu": "0.2", "memory": "1Gi"}
    waiting = (
        Batch(name="spread", namespace=_CROWD, count=pods, template=_spread(11)),
        Batch(name="claim", namespace=_OWNERS, count=blockers, template=_claiming(owners)),
        Batch(name="port", namespace="nodeports", count=pods, template=_with_port),
        Batch(name="room", namespace="noderesources", count=pods, template=_plain(requests=room)),
        Batch(
            name="volume",
            namespace="nodevolumelimits",
            count=blockers,
            template=_plain(),
            volume="csi",
        ),
        Batch(name="company", namespace="interpodaffinity", count=pods, template=_away()),
    )
    return Workload(
        nodes=(Nodes(nodes),),
        existing=(crowd, owners),
        measured=waiting,
        csi=_VOLUMES,
        churns=tuple(deleting(each, _PER_SECOND, after="attempted") for each in (crowd, owners)),
    )


def _port(index: int) -> int:
    return 8000 + index % _PORTS


def _plain(
    labels: dict[str, str] | None = None, requests: dict[str, str] | None = None, **spec: Any
) -> Template:
    """Return a template of pods with one container, with or without requests."""

    def made(index: int) -> Json:
        each = pod(None, labels or {"type": "unsched"}, **spec)(index)
        if requests is None:
            return each
        return with_container(each, resources={"requests": requests})

    return made


def _with_port(index: int) -> Json:
    return with_port(_plain()(index), _port(index))


def _even(most: int) -> Json:
    """Return the constraint that limits the blue pods of a node."""
    return {
        "maxSkew": most,
        "minDomains": 10_000,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": _BLUE},
    }


def _crowd(nodes: int) -> Template:
    """Return a template of pods that use up resources, ports and the spread constraint."""
    plain = _plain(
        {**_BLUE, "type": "blocker"},
        {"cpu": "0.35", "memory": "3Gi"},
        topologySpreadConstraints=[_even(10)],
        terminationGracePeriodSeconds=0,
    )
    return lambda index: with_port(plain(index), _port(index // nodes + index % nodes))


def _spread(most: int) -> Template:
    return _plain({**_BLUE, "type": "unsched"}, topologySpreadConstraints=[_even(most)])


def _claiming(owners: Batch) -> Template:
    """Return a template of pods that use the ReadWriteOncePod claim of another pod."""
    return lambda index: _plain(volumes=claiming(owners.claim(index)))(index)


def _away() -> Template:
    """Return a template of pods with anti-affinity to green pods of the owners."""
    term = {
        "labelSelector": {"matchLabels": _GREEN},
        "topologyKey": HOSTNAME,
        "namespaces": [_OWNERS],
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return _plain({**_GREEN, "type": "unsched"}, affinity={"podAntiAffinity": rule})
