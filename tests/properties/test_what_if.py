"""`POST /api/v1/plan` answers what the live machine would decide next."""

import json
from itertools import islice
from typing import Any

import pytest

from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.decisions import Attempt, Preempting, summary
from scheduler.model.rest.what_if import SimulatedPod, WhatIfAnswer, WhatIfRequest
from scheduler.observe.pages.snapshot import snapshot
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.service import what_if_feed
from scheduler.service.clock import Clock
from scheduler.service.recording import copied
from scheduler.service.what_if_feed import Received
from scheduler.sim.manifests import Manifests
from scheduler.sim.what_if import what_if
from scheduler.sim.what_if_cluster import State, WhatIfCluster, WhatIfOptions
from tests.oracle import generate
from tests.support.cluster import profiles
from tests.support.typed import typed

#: After all pods of the random clusters were created.
NOW = 1_800_000_000.0
FAMILIES = (
    "budgets", "dra-claims", "everything", "gates", "nominated", "pod-affinity", "preemption",
    "replicas", "spread", "taints", "volumes",
)  # fmt: skip
#: Pods of a request, and decisions of the live scheduler before it.
ASKED, STEPS = 3, 2


async def received(machine: Machine) -> State:
    """Pass the state of a machine on, as to the process that decides."""

    copy = await copied(machine, Clock().perf)
    found = Received()
    for part in what_if_feed.parts(State((), load.defaults(), NOW), copy):
        found.take(part)
    return found.state()


def as_printed(item: SimulatedPod) -> dict[str, Any]:
    return {
        "decision": item.decision,
        "node": item.node or None,
        "victims": [f"{each.pod.namespace}/{each.pod.name}" for each in item.victims],
        "pdbViolations": item.pdb_violations,
        "message": item.message,
    }


def as_decided(attempt: Attempt) -> dict[str, Any]:
    decision, node, message = summary(attempt.decision)
    found = attempt.decision if isinstance(attempt.decision, Preempting) else None
    return {
        "decision": decision,
        "node": node or None,
        "victims": [] if found is None else [victim.key for victim in found.victims],
        "pdbViolations": 0 if found is None else found.violations,
        "message": message,
    }


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(6))
async def test_the_answer_is_what_the_live_machine_decides_next(family: str, seed: int):
    objects = generate.cluster(family, seed).objects
    waiting = [
        each for each in objects if each["kind"] == "Pod" and not each["spec"].get("nodeName")
    ]
    asked = waiting[:ASKED]
    for each in asked:
        each["metadata"]["creationTimestamp"] = times.stamp(NOW)
    rest = [each for each in objects if not any(each is one for one in asked)]
    live = WhatIfCluster(typed(rest), profiles(), PodBackoff(), WhatIfOptions(now=NOW))
    list(islice(live.attempts(), STEPS))
    # Pods that were rejected are woken, and back off.
    running = [
        pod.uid for pod in live.pods.values() if pod.spec.node_name and pod.uid not in live.first
    ]
    for uid in running[:: seed + 1]:
        live.remove(uid)

    state = await received(live.machine)
    answer: WhatIfAnswer = what_if(state, WhatIfRequest(objects=tuple(asked)))

    live.apply(typed(asked))
    list(live.attempts())
    assert answer.items
    by_key = {attempt.pod.key: attempt for attempt in live.first.values()}
    for item in answer.items:
        key = f"{item.pod.namespace}/{item.pod.name}"
        assert as_printed(item) == as_decided(by_key[key]), key


@pytest.mark.parametrize("seed", range(10))
async def test_the_objects_are_those_of_the_snapshot(seed: int):
    found = typed(generate.cluster("everything", seed).objects)
    live = WhatIfCluster(found, profiles(), PodBackoff(), WhatIfOptions(now=NOW))
    list(islice(live.attempts(), STEPS))

    text = b"".join([part async for part in snapshot(live.machine, NOW)])
    want = typed(json.loads(text)["items"])
    state = await received(live.machine)
    options = WhatIfOptions(now=NOW, adopts=False)
    copy = WhatIfCluster(Manifests(), profiles(), PodBackoff(), options, state.snapshot)
    there = copy.manifests()

    assert {pod.uid: pod for pod in there.pods} == {pod.uid: pod for pod in want.pods}
    for name in ("nodes", "pdbs", "workloads", "storage", "devices", "device_classes"):
        assert getattr(there, name) == getattr(want, name), name
