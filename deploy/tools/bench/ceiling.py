"""A scheduler without logic: the upper bound that API server, etcd and this machine allow.

    python -m deploy.tools.bench.ceiling KUBECONFIG NAMESPACE...

It binds the pending pods of the namespaces to the nodes, round-robin. With `--victims` it makes the
calls of a preemption for each pod, each on another node: nomination and condition, then condition
and deletion of each victim, then the binding. With `--claims` it writes the nominated node, and
finalizer and allocation of the claims of each pod, before its binding.

The calls of one pod are made in order, those of different pods concurrently. Events are written
when all pods are bound, so no scheduler can be faster, neither until the last binding nor until the
last event.
"""

import argparse
import asyncio
import signal
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, cycle
from pathlib import Path
from typing import Any, Final, TypeAlias

import uvloop

from deploy.tools.bench import devices
from deploy.tools.bench.calls import Call, connected, delete, merge, post, send_all
from deploy.tools.bench.workloads import SCHEDULER, pods_path
from deploy.tools.controlplane.api import ApiClient

Json: TypeAlias = dict[str, Any]

_EVENT_TIME: Final = "2026-01-01T00:00:00.000000Z"

#: Numbers that make names of events unique.
_numbers: Final = count()


@dataclass(frozen=True)
class Placement:
    """The node of a pod, and its victims."""

    pod: Json
    node: str
    victims: Sequence[Json]
    #: The claims that get a device of the node, and the index of the first device.
    claims: Sequence[Json] = ()
    device: int = 0


def binding(plan: Placement) -> list[Call]:
    """Return the call that binds a pod."""
    metadata = {"name": plan.pod["metadata"]["name"]}
    body = {"metadata": metadata, "target": {"kind": "Node", "name": plan.node}}
    return [post(f"{_path(plan.pod)}/binding", body)]


def allocation(plan: Placement) -> list[Call]:
    """Return the calls that give devices to the claims of a pod, and of the binding."""
    calls: list[Call] = []
    for index, claim in enumerate(plan.claims):
        calls += devices.claim_writes(plan.pod, claim, plan.node, plan.device - index)
    return calls + binding(plan)


def preemption(plan: Placement) -> list[Call]:
    """Return the calls of a preemption and of the binding."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    conditions = [{**condition, "message": "no room"}]
    status = {"nominatedNodeName": plan.node, "conditions": conditions}
    calls = [merge(f"{_path(plan.pod)}/status", {"status": status})]
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    for victim in plan.victims:
        calls += [
            merge(f"{_path(victim)}/status", {"status": {"conditions": [target]}}),
            delete(_path(victim), {"preconditions": {"uid": victim["metadata"]["uid"]}}),
        ]
    return calls + binding(plan)


def events(plan: Placement) -> list[Call]:
    """Return the calls that write the Events."""
    pod, node = plan.pod, plan.node
    title = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    note = f"Successfully assigned {title} to {node}"
    calls = [
        _event(victim, "Preempted", "Normal", "Preempting", f"Preempted on node {node}")
        for victim in plan.victims
    ]
    if calls:
        calls.append(_event(pod, "FailedScheduling", "Warning", "Scheduling", "no room"))
    return [*calls, _event(pod, "Scheduled", "Normal", "Binding", note)]


def placements(
    waiting: Sequence[Json], nodes: Sequence[str], running: Mapping[str, list[Json]], victims: int
) -> list[Placement]:
    """Return a placement for each pending pod."""
    return [
        Placement(pod, node, running.get(node, ())[:victims])
        for pod, node in zip(waiting, cycle(nodes))
    ]


def with_claims(
    planned: Sequence[Placement], claims: Sequence[Json], nodes: int
) -> list[Placement]:
    """Return the placements with the claims of the pods; the last devices of nodes come first."""
    by_owner: dict[str, list[Json]] = defaultdict(list)
    for claim in claims:
        for owner in claim["metadata"].get("ownerReferences") or ():
            by_owner[owner["uid"]].append(claim)
    return [
        replace(
            each,
            claims=by_owner[each.pod["metadata"]["uid"]],
            device=devices.DEVICES - 1 - index // nodes,
        )
        for index, each in enumerate(planned)
    ]


def calls(plan: Placement) -> list[Call]:
    """Return all calls of a placement but those for Events."""
    if plan.victims:
        return preemption(plan)
    return allocation(plan)


async def schedule(kubeconfig: Path, planned: Sequence[Placement]) -> None:
    """Execute all calls."""
    async with connected(kubeconfig) as http:
        await send_all(http, map(calls, planned))
        await send_all(http, map(events, planned))


def main() -> None:
    """Bind the pending pods, and then wait for the end, as a scheduler does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("namespaces", nargs="+")
    parser.add_argument("--victims", type=int, default=0)
    parser.add_argument("--claims", action="store_true")
    options = parser.parse_args()
    with ApiClient.from_kubeconfig(options.kubeconfig) as api:
        nodes = [node["metadata"]["name"] for node in api.items("/api/v1/nodes")]
        waiting = []
        for namespace in options.namespaces:
            waiting += api.items(pods_path(namespace), fieldSelector="spec.nodeName=")
        running: dict[str, list[Json]] = defaultdict(list)
        if options.victims:
            for pod in api.items("/api/v1/pods", fieldSelector="spec.nodeName!="):
                running[pod["spec"].get("nodeName", "")].append(pod)
        planned = placements(waiting, nodes, running, options.victims)
        if options.claims:
            for namespace in options.namespaces:
                claims = api.items(devices.claims_path(namespace))
                planned = with_claims(planned, claims, len(nodes))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(schedule(options.kubeconfig, planned))
    signal.pause()


def _path(pod: Json) -> str:
    return f"{pods_path(pod['metadata']['namespace'])}/{pod['metadata']['name']}"


def _event(pod: Json, reason: str, kind: str, action: str, note: str) -> Call:
    metadata = pod["metadata"]
    namespace = metadata["namespace"]
    body = {
        "metadata": {"name": f"{metadata['name']}.{next(_numbers):016x}", "namespace": namespace},
        "eventTime": _EVENT_TIME,
        "reportingController": SCHEDULER,
        "reportingInstance": "ceiling",
        "action": action,
        "reason": reason,
        "type": kind,
        "note": note,
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": namespace,
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }
    return post(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body)


if __name__ == "__main__":
    main()
