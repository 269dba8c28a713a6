"""Our side: the code of `plan --explain`, in this process."""

import copy
import json
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

import msgspec

from scheduler.config import load
from scheduler.config.settings import Settings
from scheduler.model import decisions
from scheduler.model.api.devices import EXTENDED_RESOURCE_CLAIM, ResourceClaim
from scheduler.model.decisions import Failed, Gated, Placed, Preempting, Unschedulable
from scheduler.model.releases import REFERENCES, Reference
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim.what_if_cluster import WhatIfCluster, WhatIfOptions
from tests.oracle import allocations
from tests.oracle.generate import Cluster
from tests.oracle.generating.dice import Object
from tests.oracle.verdicts import Answer, Attempt, Found
from tests.support.typed import typed

__all__ = ["candidates", "decide"]

_DEFAULTS: Final = {name: load.defaults(server=reference) for name, reference in REFERENCES.items()}
#: In the year 2027; kube-scheduler's side has the time of the host. Clusters have times that are
#: long before or after both.
_NOW: Final = 1_800_000_000.0


def decide(cluster: Cluster, reference: str) -> Answer:
    """Decide a cluster as a release does; an exception is an answer, too."""
    try:
        return _decide(cluster, REFERENCES[reference])
    except Exception:  # noqa: BLE001 - whatever goes wrong is what is looked for
        return Answer((), error=traceback.format_exc())


def candidates(cluster: Cluster, reference: str) -> dict[str, frozenset[str] | None]:
    """Return the victims on each node for the pending pod, `None` where evictions do not help.

    A plan has one node, so the pod is planned for on each node alone.

    Raises:
        Exception: Whatever goes wrong.
    """
    nodes = [each["metadata"]["name"] for each in cluster.objects if each["kind"] == "Node"]
    found: dict[str, frozenset[str] | None] = dict.fromkeys(nodes)
    chosen = _decide(cluster, REFERENCES[reference]).attempts[0]
    if chosen.decision != "Preempting":
        return found
    for node in nodes:
        alone = replace(cluster, objects=[_only_on(node, each) for each in cluster.objects])
        attempt = chosen
        if node != chosen.node:
            attempt = _decide(alone, REFERENCES[reference]).attempts[0]
        if attempt.decision == "Preempting":
            found[node] = frozenset(attempt.victims)
    return found


def _only_on(node: str, item: Object) -> Object:
    """Return an object, a pending pod with an affinity for a single node."""
    if item["kind"] != "Pod" or "nodeName" in item["spec"]:
        return item
    pod = copy.deepcopy(item)
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    pod["spec"]["affinity"] = affinity
    return pod


def _decide(cluster: Cluster, reference: Reference) -> Answer:
    settings = _settings(cluster.config, reference)
    backoff = PodBackoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds)
    objects = typed(cluster.objects)
    options = WhatIfOptions(explain=True, now=_NOW)
    planner = WhatIfCluster(objects, registry.profiles(settings), backoff, options)
    attempts = [_attempt(each, planner) for each in planner.attempts()]
    if cluster.settle:
        attempts += [_attempt(each, planner) for each in planner.settle()]
    final = planner.final() if cluster.settle else {}
    return Answer(tuple(_told_once(attempts)), final)


def _told_once(attempts: Iterable[Attempt]) -> Iterator[Attempt]:
    """Yield attempts without errors that follow another error of the same pod."""
    failed: dict[str, bool] = {}
    for attempt in attempts:
        fails = attempt.decision == "Error"
        if not (fails and failed.get(attempt.pod)):
            yield attempt
        failed[attempt.pod] = fails


def _settings(config: Object | None, reference: Reference) -> Settings:
    if config is None:
        return _DEFAULTS[reference.name]
    return _parsed(json.dumps(config), reference)


@lru_cache(maxsize=16)
def _parsed(config: str, reference: Reference) -> Settings:
    return load.parse(config, source="config", server=reference)


def _attempt(decided: decisions.Attempt, planner: WhatIfCluster) -> Attempt:
    decision, node, message = "", None, ""
    victims: tuple[str, ...] = ()
    violations, spares, claims = 0, False, planner.claims
    match decided.decision:
        case Placed(chosen):
            decision, node = "Scheduled", chosen
        case Preempting(chosen, leaving, violations, message):
            decision, node = "Preempting", chosen
            victims = tuple(each.key for each in leaving)
            found = [planner.pods.get(each.uid) for each in leaving]
            spares = any(pod is not None and not pod.terminating for pod in found)
        case Unschedulable(message):
            decision = "Unschedulable"
        case Gated(message):
            decision = "Gated"
        case Failed(message):
            decision = "Error"
    nodes = {each.name: Found(each.rejection, each.scores, each.vetoes) for each in decided.trace}
    return Attempt(
        pod=decided.pod.key,
        decision=decision,
        node=node,
        victims=victims,
        violations=violations,
        message=message,
        rejectors=decided.plugins,
        nodes=nodes,
        spares=spares,
        claims=allocations.normal({claim.key: _claim(claim) for claim in claims}),
        mappings=tuple(
            (each.container_name, each.resource_name, each.request_name)
            for each in claims.mappings.get(decided.pod.uid, ())
        ),
    )


def _claim(claim: ResourceClaim) -> Object:
    state: Object = {"reservedFor": [consumer.uid for consumer in claim.status.reserved_for]}
    if claim.status.allocation is not None:
        state["allocation"] = msgspec.to_builtins(claim.status.allocation)
    if EXTENDED_RESOURCE_CLAIM in claim.metadata.annotations:
        state["requests"] = msgspec.to_builtins(claim.spec.devices.requests)
    return state
