"""`POST /api/v1/plan` answers what `plan -f` says of the snapshot of the same moment."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.main import main
from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.rest.what_if import SimulatedPod, WhatIfAnswer, WhatIfRequest
from scheduler.observe.pages.snapshot import snapshot
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.service import what_if_feed
from scheduler.service.what_if_feed import Received
from scheduler.sim.what_if import what_if
from scheduler.sim.what_if_cluster import WhatIfCluster, WhatIfOptions
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


async def received(machine: Machine) -> Received:
    """Pass the state of a machine on, as to the process that decides."""
    found = Received()
    async for part in what_if_feed.parts(machine, load.defaults(), lambda: NOW, evict_only=False):
        found.take(part)
    return found


def planned(capsys: pytest.CaptureFixture[str], *files: Path) -> dict[str, Any]:
    """Return the first result of each pod by `plan -f`."""
    named = [argument for file in files for argument in ("-f", str(file))]
    assert main(["plan", *named, "-o", "json", "--at", times.stamp(NOW), "--settle"]) == 0
    found: dict[str, Any] = {}
    for result in json.loads(capsys.readouterr().out)["results"]:
        found.setdefault(result["pod"], result)
    return found


def as_printed(item: SimulatedPod) -> dict[str, Any]:
    return {
        "decision": item.decision,
        "node": item.node or None,
        "victims": [f"{each.pod.namespace}/{each.pod.name}" for each in item.victims],
        "pdbViolations": item.pdb_violations,
        "message": item.message,
    }


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(6))
async def test_the_answer_is_that_of_plan_on_the_snapshot(
    family: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    objects = generate.cluster(family, seed).objects
    waiting = [
        each for each in objects if each["kind"] == "Pod" and not each["spec"].get("nodeName")
    ]
    asked = waiting[:ASKED]
    for each in asked:
        each["metadata"]["creationTimestamp"] = times.stamp(NOW)
    rest = [each for each in objects if not any(each is one for one in asked)]
    live = WhatIfCluster(typed(rest), profiles(), PodBackoff(), WhatIfOptions())
    list(islice(live.attempts(), STEPS))
    machine = live.machine

    (tmp_path / "snapshot.json").write_bytes(
        b"".join([part async for part in snapshot(machine, NOW)])
    )
    (tmp_path / "asked.json").write_text(json.dumps({"kind": "List", "items": asked}))
    want = planned(capsys, tmp_path / "snapshot.json", tmp_path / "asked.json")
    state = (await received(machine)).state()
    answer: WhatIfAnswer = what_if(state, WhatIfRequest(objects=tuple(asked)))

    assert answer.items
    for item in answer.items:
        key = f"{item.pod.namespace}/{item.pod.name}"
        expected = {name: want[key][name] for name in as_printed(item)}
        assert as_printed(item) == expected, key


@pytest.mark.parametrize("seed", range(10))
async def test_what_arrives_is_the_state_of_the_snapshot(seed: int, tmp_path: Path):
    live = WhatIfCluster(
        typed(generate.cluster("everything", seed).objects),
        profiles(),
        PodBackoff(),
        WhatIfOptions(),
    )
    list(islice(live.attempts(), STEPS))

    text = b"".join([part async for part in snapshot(live.machine, NOW)])
    want = typed(json.loads(text)["items"])
    found = (await received(live.machine)).manifests

    for name in ("pods", "nodes", "pdbs", "workloads", "storage", "devices", "device_classes"):
        assert getattr(found, name) == getattr(want, name), name
