"""Computes what would happen if objects were applied to a cluster: a pure function.

If other pods are pending, the cluster is simulated twice: as it is, and with the objects. So what
would happen anyway is not reported as a consequence. Both go on with a copy of the machine of the
live scheduler: with its ledger, back-offs, order of the queue and preemptions under way. Extenders
are not called.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from scheduler.config.field_errors import suggestion
from scheduler.config.settings import Settings
from scheduler.model import times
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Node, Pod, PodDisruptionBudget
from scheduler.model.api.selectors import SelectorError, parse_selector
from scheduler.model.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.model.decisions import Detail
from scheduler.model.rest.what_if import WhatIfAnswer, WhatIfRequest
from scheduler.observe.logs.escape import printable, shortened
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim import workloads
from scheduler.sim.expanded import Expanded
from scheduler.sim.hiding import About
from scheduler.sim.manifests import ManifestError, Manifests, collect
from scheduler.sim.what_if_answer import AnswerBuilder
from scheduler.sim.what_if_cluster import State, WhatIfCluster, WhatIfOptions

__all__ = [
    "MAX_OBJECTS", "adopted", "cordoned", "decided", "foreign_scheduler", "run", "scheduler_names",
    "what_if", "with_drained",
]  # fmt: skip

#: The most objects of a request.
MAX_OBJECTS: Final = 10_000
#: What no name of a node has.
_LABELS: Final = re.compile(r"[=!(,]")
#: The longest name of a scheduler that a message repeats.
_LONGEST_NAME: Final = 80


def what_if(state: State, request: WhatIfRequest) -> WhatIfAnswer:
    """Return what would happen; see `decided`."""
    return decided(state, request)[0]


def decided(state: State, request: WhatIfRequest) -> tuple[WhatIfAnswer, About]:
    """Return what would happen, and of each warning the namespaces that it tells about.

    Raises:
        ManifestError: The objects are invalid, or name what does not exist.
        TooManyPodsError: There are too many new pods.
    """
    names = scheduler_names(state.settings, request)
    places = ((f"objects[{index}]", each) for index, each in enumerate(request.objects))
    created = times.stamp(state.now)
    namespace = request.namespace or "default"
    after = _cluster(state, request, detail=Detail.COUNTS)
    existing = after.manifests()
    expanded = workloads.expand(places, existing, created, namespace, MAX_OBJECTS, strict=True)
    given = collect(expanded.documents, Manifests())
    request = with_drained((*existing.nodes, *given.nodes), request)
    pods = [*_created(given.pods, created)]
    if request.scheduler_name:
        pods = [adopted(pod, names, request.scheduler_name) for pod in pods]
    foreign = {pod.uid: problem for pod in pods if (problem := foreign_scheduler(pod, names))}
    applied, former = _applied(existing, replace(given, pods=pods), expanded, request.drain)
    if state.has_extenders:
        expanded.warnings.append(
            "extenders are not called; in the cluster they may change the result"
        )
    asked = {pod.uid for pod in pods}
    after.apply(applied, former)
    foreign = {uid: problem for uid, problem in foreign.items() if uid in after.pods}
    after.drain(request.drain)
    run(after, request)
    replacements = (each.replacement for each in after.displaced().values())
    made = {pod.uid for pod in replacements if pod is not None}
    others = [each.uid for each in after.pending if each.uid not in asked and each.uid not in made]
    before = run(_cluster(state, request), request) if others else None
    answer = AnswerBuilder(state.now, request, expanded, after, before, foreign).answer(
        asked, others
    )
    return answer, expanded.about


def with_drained(nodes: Iterable[Node], request: WhatIfRequest) -> WhatIfRequest:
    """Return a request that names each node to drain, where it has labels of nodes.

    Raises:
        ManifestError: Labels are malformed, or no node has them.
    """
    labels = {node.metadata.name: node.metadata.labels for node in nodes}
    names: list[str] = []
    for asked in request.drain:
        if not _LABELS.search(asked):
            names.append(asked)
            continue
        try:
            selector = parse_selector(asked)
        except SelectorError as error:
            raise ManifestError(f"drain: {error}") from error
        found = sorted(name for name, own in labels.items() if selector.matches(own))
        if not found:
            raise ManifestError(f"drain: no node has the labels {asked}")
        names += found
    return msgspec.structs.replace(request, drain=tuple(dict.fromkeys(names)))


def scheduler_names(settings: Settings, request: WhatIfRequest) -> list[str]:
    """Return the names of all profiles.

    Raises:
        ManifestError: The request names another one.
    """
    names = [profile.scheduler_name for profile in settings.profiles]
    if request.scheduler_name and request.scheduler_name not in names:
        raise ManifestError(
            f"schedulerName: no profile of this scheduler is called {request.scheduler_name!r};"
            f" known: {', '.join(names)}"
        )
    return names


def _cluster(
    state: State, request: WhatIfRequest, *, detail: Detail = Detail.NONE
) -> WhatIfCluster:
    """Return the cluster as it is."""
    settings = replace(state.settings, extenders=())
    backoff = PodBackoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds)
    options = WhatIfOptions(
        request.scheduler_name,
        now=state.now,
        detail=detail,
        evict_only=state.evict_only,
        adopts=False,
        recreates=True,
    )
    return WhatIfCluster(Manifests(), registry.profiles(settings), backoff, options, state.snapshot)


def run(cluster: WhatIfCluster, request: WhatIfRequest) -> WhatIfCluster:
    """Schedule the pending pods of a cluster, and return it."""
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
        near = suggestion(missing[0], (node.metadata.name for node in found))
        raise ManifestError(f"drain: there is no node {missing[0]!r}{near}")
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


def adopted(pod: Pod, names: Collection[str], wanted: str) -> Pod:
    """Return a pod that another scheduler would schedule, with one of ours."""
    spec = pod.spec
    if spec.scheduler_name in names or spec.node_name:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, scheduler_name=wanted))


def foreign_scheduler(pod: Pod, names: Collection[str]) -> str:
    """Return which other scheduler schedules a pod, in words; empty if one of ours does."""
    given = pod.spec.scheduler_name
    if given in names or pod.spec.node_name or pod.terminal:
        return ""
    near = suggestion(given, names)
    if near:
        return f"scheduler {_quoted(given)}{near}"
    return f"scheduler {_quoted(given)}; spec.schedulerName must be {' or '.join(sorted(names))}"


def _quoted(name: str) -> str:
    return f'"{shortened(printable(name), _LONGEST_NAME)}"'


# What changes -------------------------------------------------------------------------------------


def _applied(
    existing: Manifests, given: Manifests, expanded: Expanded, drained: Sequence[str]
) -> tuple[Manifests, list[Pod]]:
    """Return what changes when objects are applied and nodes cordoned, and the replaced pods."""
    pods, former = _pods(existing, given, expanded)
    applied = replace(
        given,
        pods=pods,
        nodes=_nodes(existing, given, drained),
        pdbs=_pdbs(existing, given, expanded),
        storage=_new(existing.storage, given.storage, PersistentVolume | PersistentVolumeClaim),
        devices=_new(existing.devices, given.devices, ResourceClaim),
    )
    return applied, former


def _nodes(existing: Manifests, given: Manifests, drained: Sequence[str]) -> list[Node]:
    """Return the nodes that change; one without a status keeps the status that it has."""
    known = {node.metadata.name: node for node in existing.nodes}
    nodes = dict(known)
    for node in given.nodes:
        name, status = node.metadata.name, node.status
        if name in known and not status.allocatable:
            status = known[name].status
        nodes[name] = msgspec.structs.replace(node, status=status)
    cordons = cordoned(nodes.values(), drained)
    return [node for node in cordons if node is not known.get(node.metadata.name)]


def _pods(existing: Manifests, given: Manifests, expanded: Expanded) -> tuple[list[Pod], list[Pod]]:
    """Return the new pods, and the pending ones that they replace; one on a node is kept."""
    new = {pod.key: pod for pod in given.pods}
    former = []
    kept: list[str] = []
    for pod in existing.pods:
        if pod.key not in new or pod.terminal or pod.terminating:
            continue
        if pod.spec.node_name:
            kept.append(pod.metadata.namespace)
            del new[pod.key]
        else:
            former.append(pod)
    if kept:
        text = f"{len(kept)} of the given pods are on nodes already; they are kept as they are"
        expanded.warn_about(text, *kept)
    return [*new.values()], former


def _pdbs(existing: Manifests, given: Manifests, expanded: Expanded) -> list[PodDisruptionBudget]:
    """Return the disruption budgets that change; one that exists keeps its status."""
    pdbs = {pdb.metadata.key: pdb for pdb in existing.pdbs}
    changed = []
    for pdb in given.pdbs:
        known = pdbs.get(pdb.metadata.key)
        status = pdb.status if known is None else known.status
        changed.append(msgspec.structs.replace(pdb, status=status))
        if (
            known is None
            and not pdb.status.observed_generation
            and not pdb.status.disruptions_allowed
        ):
            text = f"PodDisruptionBudget {pdb.metadata.key} is new, so it allows no disruption yet"
            expanded.warn_about(text, pdb.metadata.namespace)
    return changed


def _new(existing: list, given: list, kinds: object) -> list:  # type: ignore[type-arg]
    """Return the given objects; of some kinds, those that exist are kept as they are."""
    known = {(type(each), each.metadata.key) for each in existing if isinstance(each, kinds)}  # type: ignore[arg-type]
    return [each for each in given if (type(each), each.metadata.key) not in known]
