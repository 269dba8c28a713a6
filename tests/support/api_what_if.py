"""Answers to `POST /api/v1/plan` that look true, for tests of clients."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from scheduler.model.rest.common import PodView
from scheduler.model.rest.what_if import (
    DisplacedPod,
    DrainBlocker,
    SimulatedPod,
    ViolatedBudget,
    WhatIfAnswer,
    WhatIfRequest,
)
from scheduler.sim import known_kinds
from scheduler.sim.manifests import ManifestError, flattened
from scheduler.sim.what_if_verdict import with_verdict
from tests.support.stand_in_documents import World, at

__all__ = ["answer_what_if", "what_if_request"]


def answer_what_if(world: World, asked: WhatIfRequest) -> WhatIfAnswer:
    """Return an answer that depends on the objects: priority above 0 preempts, others wait or fit.

    Raises:
        ManifestError: An object is malformed.
    """
    items, displaced, warnings, blockers = [], [], [], []
    for number, given in enumerate(asked.objects):
        for place, item in flattened(given, f"objects[{number}]"):
            problem = known_kinds.problem_of_metadata(item)
            if problem:
                raise ManifestError(f"{place}: {item['kind']}: {problem}")
            unknown = known_kinds.unknown(item["kind"], item["apiVersion"])
            if unknown:
                warnings.append(f"{place}: {unknown}")
            else:
                items += _planned(world, item, asked)
    if not asked.settle:
        warnings.append("victims are not re-created: settle is false")
    for node in asked.drain:
        if node not in world.nodes:
            raise ValueError(f"drain: node {node!r} does not exist")
        kept, *drained = world.node(node).pods[:5]
        blockers.append(DrainBlocker(node, kept, ("prod/api",)))
        displaced += [
            DisplacedPod(pod, node, "drain", recreated=pod.owner is not None) for pod in drained
        ]
    displaced += [
        DisplacedPod(victim.pod, each.node, replacement=victim.replacement)
        for each in items
        for victim in each.victims
    ]
    violated = Counter(
        budget
        for each in items
        for victim in each.victims
        if victim.violates_pdb
        for budget in victim.budgets
    )
    return with_verdict(WhatIfAnswer(
        at=at(0),
        reference="v1.37",
        evicts=bool(displaced),
        evictions=len(displaced),
        budgets=tuple(
            ViolatedBudget(*budget.split("/"), victims=victims)
            for budget, victims in violated.items()
        ),
        drain=asked.drain,
        blockers=tuple(blockers),
        items=tuple(items),
        displaced=tuple(displaced),
        others=(SimulatedPod(PodView("team-b", "web-3", "u"), "Unschedulable", message="0/12 nodes"
                           " are available: 12 Insufficient cpu."),) if displaced else (),
        warnings=tuple(warnings),
    ))  # fmt: skip


def _planned(world: World, item: Mapping[str, Any], asked: WhatIfRequest) -> list[SimulatedPod]:
    kind, metadata, spec = item["kind"], item["metadata"], item.get("spec") or {}
    if kind in {"Node", "PriorityClass", "PreemptionPolicy"}:
        return []
    template = (spec.get("template") or {}).get("spec") or spec
    priority = int(template.get("priority") or 0)
    count = min(20, int(spec.get("replicas") or 1)) if kind != "Pod" else 1
    source = "" if kind == "Pod" else f"{kind}/{metadata['name']}"
    namespace = metadata.get("namespace") or asked.namespace
    planned = []
    for number in range(count):
        name = metadata["name"] if kind == "Pod" else f"{metadata['name']}-{number}"
        pod = PodView(namespace, name, f"plan-{number}", priority=priority, requests={"cpu": 500})
        planned.append(_decided(world, pod, source, number))
    return planned


def _decided(world: World, pod: PodView, source: str, number: int) -> SimulatedPod:
    if pod.priority > 0 and number % 2 == 0:
        like = world.explanation(
            next(k for k, v in world.pending.items() if v.pod.priority > 1_000)
        )
        found = world.possible(1 + number)
        return SimulatedPod(
            pod, "Preempting", source, found.node, found.node,
            message=like.message, verdicts=like.verdicts,
            victims=found.victims, pdb_violations=found.pdb_violations,
            devices=found.devices,
            criteria=found.criteria, candidates=found.candidates,
            candidates_total=found.candidates_total,
            criterion=found.criterion, policies=like.policies,
        )  # fmt: skip
    if number == 3:
        like = world.explanation(next(iter(world.pending)))
        return SimulatedPod(
            pod, "Unschedulable", source, message=like.message, verdicts=like.verdicts
        )
    node = list(world.nodes)[number % len(world.nodes)]
    return SimulatedPod(pod, "Scheduled", source, node, node)


def what_if_request(body: bytes, content_type: str) -> WhatIfRequest:
    """Return what a body asks.

    Raises:
        ValueError, msgspec.MsgspecError, yaml.YAMLError: It asks nothing.
    """
    documents = [each for each in yaml.safe_load_all(body) if each]
    if not documents or not all(isinstance(each, dict) for each in documents):
        raise ValueError("the body has no objects")
    if content_type == "application/json" and "kind" not in documents[0]:
        return msgspec.convert(documents[0], WhatIfRequest)
    return WhatIfRequest(objects=tuple(documents))
