"""Computes what would happen if objects were applied to a cluster: a pure function.

If other pods are pending, the cluster is simulated twice: as it is, and with the objects. So what
would happen anyway is not reported as a consequence. Both run the machine of the live scheduler.

The ledger, policies and time are those of the given state, and extenders are not called.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from scheduler.model import times
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Node, Pod, PodDisruptionBudget
from scheduler.model.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.model.decisions import Detail
from scheduler.model.rest.what_if import WhatIfAnswer, WhatIfRequest
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim import workloads
from scheduler.sim.expanded import Expanded
from scheduler.sim.hiding import About
from scheduler.sim.manifests import ManifestError, Manifests, collect
from scheduler.sim.what_if_answer import AnswerBuilder
from scheduler.sim.what_if_cluster import State, WhatIfCluster, WhatIfOptions

__all__ = ["MAX_OBJECTS", "cordoned", "decided", "what_if"]

#: The most objects of a request.
MAX_OBJECTS: Final = 10_000


def what_if(state: State, request: WhatIfRequest) -> WhatIfAnswer:
    """Return what would happen; see `decided`."""
    return decided(state, request)[0]


def decided(state: State, request: WhatIfRequest) -> tuple[WhatIfAnswer, About]:
    """Return what would happen, and of each warning the namespaces that it tells about.

    Raises:
        ManifestError: The objects are invalid, or name what does not exist.
        TooManyPodsError: There are too many new pods.
    """
    names = [profile.scheduler_name for profile in state.settings.profiles]
    if request.scheduler_name and request.scheduler_name not in names:
        raise ManifestError(
            f"schedulerName: no profile of this scheduler is called {request.scheduler_name!r};"
            f" known: {', '.join(names)}"
        )
    places = ((f"objects[{index}]", each) for index, each in enumerate(request.objects))
    created = times.stamp(state.now)
    namespace = request.namespace or "default"
    expanded = workloads.expand(places, state.manifests, created, namespace, MAX_OBJECTS)
    given = collect(expanded.documents, Manifests())
    adopted = _adopted(_created(given.pods, created), names, request.scheduler_name)
    merged = _Merge(state.manifests, replace(given, pods=adopted), expanded).run()
    merged.nodes = cordoned(merged.nodes, request.drain)
    if state.has_extenders:
        expanded.warnings.append(
            "extenders are not called; in the cluster they may change the result"
        )
    asked = {pod.uid for pod in adopted}
    after = _simulated(state, merged, request, request.drain, detail=Detail.COUNTS)
    replacements = (each.replacement for each in after.displaced().values())
    made = {pod.uid for pod in replacements if pod is not None}
    others = [each.uid for each in after.pending if each.uid not in asked and each.uid not in made]
    before = _simulated(state, state.manifests, request, ()) if others else None
    answer = AnswerBuilder(state, request, expanded, after, before).answer(asked, others)
    return answer, expanded.about


def _simulated(
    state: State,
    manifests: Manifests,
    request: WhatIfRequest,
    drained: Iterable[str],
    *,
    detail: Detail = Detail.NONE,
) -> WhatIfCluster:
    """Return a cluster after its pending pods were scheduled."""
    settings = replace(state.settings, extenders=())
    backoff = PodBackoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds)
    options = WhatIfOptions(
        request.scheduler_name,
        now=state.now,
        detail=detail,
        evict_only=state.evict_only,
        adopts=False,
        recreates=True,
        ledger=state.ledger,
    )
    cluster = WhatIfCluster(manifests, registry.profiles(settings), backoff, options)
    for node in drained:
        cluster.drain(node)
    deque(cluster.attempts(), maxlen=0)
    if request.settle:
        deque(cluster.settle(), maxlen=0)
    return cluster


def cordoned(nodes: Iterable[Node], names: Sequence[str]) -> list[Node]:
    """Return nodes of which those with some names are unschedulable.

    Raises:
        ManifestError: There is no node of a name.
    """
    found = list(nodes)
    missing = sorted(set(names) - {node.metadata.name for node in found})
    if missing:
        raise ManifestError(f"drain: there is no node {missing[0]!r}")
    wanted = frozenset(names)
    return [
        msgspec.structs.replace(
            node, spec=msgspec.structs.replace(node.spec, unschedulable=True)
        )
        if node.metadata.name in wanted
        else node
        for node in found
    ]  # fmt: skip


def _created(pods: Iterable[Pod], created: str) -> Iterator[Pod]:
    """Yield pods, each with a creation time: new pods wait behind those that are pending."""
    for pod in pods:
        metadata = pod.metadata
        moment = metadata.creation_timestamp or created
        stamped = msgspec.structs.replace(metadata, creation_timestamp=moment)
        yield msgspec.structs.replace(pod, metadata=stamped)


def _adopted(pods: Iterable[Pod], names: Sequence[str], wanted: str) -> list[Pod]:
    """Return pods, each with a profile: that of its name, else the wanted or the first one."""
    other = wanted or names[0]
    return [
        pod
        if pod.spec.scheduler_name in names
        else msgspec.structs.replace(
            pod, spec=msgspec.structs.replace(pod.spec, scheduler_name=other)
        )
        for pod in pods
    ]


# What there is, with the given objects ------------------------------------------------------------


class _Merge:
    """The objects of a cluster after others were applied."""

    def __init__(self, state: Manifests, given: Manifests, expanded: Expanded) -> None:
        self._state = state
        self._given = given
        self._expanded = expanded

    def run(self) -> Manifests:
        """Return the merged objects: first those of the state, so that the given ones count."""
        state, given = self._state, self._given
        return Manifests(
            pods=self._pods(),
            nodes=self._nodes(),
            namespaces=[*state.namespaces, *given.namespaces],
            pdbs=self._pdbs(),
            workloads=[*state.workloads, *given.workloads],
            storage=_kept(state.storage, given.storage, PersistentVolume | PersistentVolumeClaim),
            device_classes=[*state.device_classes, *given.device_classes],
            devices=_kept(state.devices, given.devices, ResourceClaim),
            policies=[*state.policies, *given.policies],
            reference=state.reference,
        )

    def _nodes(self) -> list[Node]:
        """Return the nodes; one without a status keeps the status that it has."""
        nodes = {node.metadata.name: node for node in self._state.nodes}
        for node in self._given.nodes:
            name = node.metadata.name
            known = nodes.get(name)
            keeps_status = known is not None and not node.status.allocatable
            status = known.status if known is not None and keeps_status else node.status
            nodes[name] = msgspec.structs.replace(node, status=status)
        return list(nodes.values())

    def _pods(self) -> list[Pod]:
        """Return the pods; a pending one is replaced, one on a node is kept."""
        given = {pod.key: pod for pod in self._given.pods}
        pods = []
        kept: list[str] = []
        for pod in self._state.pods:
            if pod.key not in given or pod.terminal or pod.terminating:
                pods.append(pod)
            elif pod.spec.node_name:
                kept.append(pod.metadata.namespace)
                del given[pod.key]
                pods.append(pod)
        if kept:
            text = f"{len(kept)} of the given pods are on nodes already; they are kept as they are"
            self._expanded.warn_about(text, *kept)
        return [*pods, *given.values()]

    def _pdbs(self) -> list[PodDisruptionBudget]:
        """Return the disruption budgets; one that exists keeps its status."""
        pdbs = {pdb.metadata.key: pdb for pdb in self._state.pdbs}
        for pdb in self._given.pdbs:
            known = pdbs.get(pdb.metadata.key)
            status = pdb.status if known is None else known.status
            pdbs[pdb.metadata.key] = msgspec.structs.replace(pdb, status=status)
            if (
                known is None
                and not pdb.status.observed_generation
                and not pdb.status.disruptions_allowed
            ):
                text = (
                    f"PodDisruptionBudget {pdb.metadata.key} is new, so it allows no disruption yet"
                )
                self._expanded.warn_about(text, pdb.metadata.namespace)
        return list(pdbs.values())


def _kept(state: list, given: list, kinds: object) -> list:  # type: ignore[type-arg]
    """Return two lists of objects; of some kinds, those that exist are kept as they are."""
    known = {(type(each), each.metadata.key) for each in state if isinstance(each, kinds)}  # type: ignore[arg-type]
    return [*state, *(each for each in given if (type(each), each.metadata.key) not in known)]
