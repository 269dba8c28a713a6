"""The history of preemptions survives the leader, and what is read of it may be anything."""

import base64
import contextlib
import json
from typing import Any, Final

import pytest
import zstandard

from deploy.tools.controlplane.api import ApiError
from tests.integration.objects import Json, pod
from tests.integration.scene import Scene
from tests.integration.test_leadership import ELECTION, forget_lease
from tests.support.live import Scheduler

pytestmark = pytest.mark.cluster

FOLDER: Final = "/api/v1/namespaces/preemptive-scheduler/configmaps"
PART: Final = f"{FOLDER}/preemptive-scheduler-history-0"
KEY: Final = "history.json.zst"
READ: Final = "/api/v1/preemptions"


#: What else may be in the ConfigMap, by what it was.
STRANGE: Final = {
    "noise": base64.b64encode(b"x" * 700_000).decode(),
    "a small text that becomes a large one": base64.b64encode(
        zstandard.compress(b"[" * (64 << 20))
    ).decode(),
    "nested without end": base64.b64encode(
        zstandard.compress(b'{"version":1,"items":' + b"[" * 100_000)
    ).decode(),
}


def preempt(scene: Scene, number: int = 0) -> str:
    """Have a pod preempted; return the name of its preemptor."""
    node = scene.node(cpu="2")
    scene.run(pod(f"low-{number}", "2", "low", on=node))
    high = f"high-{number}"
    scene.create(pod(high, "2", "high", selector={"kubernetes.io/hostname": node}))
    scene.wait_running(high)
    return high


def kept(found: Json | None) -> list[Json]:
    """Return the preemptions in a ConfigMap of the history."""
    text = ((found or {}).get("binaryData") or {}).get(KEY, "")
    if text in ("", *STRANGE.values()):
        return []
    content = zstandard.ZstdDecompressor().decompress(base64.b64decode(text))
    return [each for each in json.loads(content)["items"] if isinstance(each, dict)]


def wait_kept(scene: Scene, *preemptors: str, **fields: str) -> Json:
    """Wait until the preemptions for some pods are written down; return the last one."""

    def are_there(found: Json | None) -> bool:
        by_name = {each["preemptor"]["name"]: each for each in kept(found)}
        has_all = by_name.keys() >= {*preemptors}
        return has_all and all(fields.items() <= by_name[each].items() for each in preemptors)

    return next(
        each
        for each in kept(scene.api.wait_for(PART, are_there))
        if each["preemptor"]["name"] == preemptors[-1]
    )


def shown(scheduler: Scheduler, token: str) -> dict[str, Json]:
    """Return the preemptions that a scheduler shows, by preemptor."""
    status, text = scheduler.get(READ, token)
    assert status == 200, text
    items = json.loads(text).get("items", ())
    return {each["preemptor"]["name"]: each for each in items}


def reported(scheduler: Scheduler, token: str) -> str:
    """Return what a scheduler says that preemption cost."""
    status, text = scheduler.get("/api/v1/report", token)
    assert status == 200, text
    return str(json.loads(text)["verdict"])


@pytest.fixture
def reader(token: Any, grant: Any, namespace: str, plane: Any) -> str:
    """The token of somebody who may read pages, and pods of the namespace of the test."""
    grant("reader", "/preemptive-scheduler/api/v1/*")
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    plane.api.post(f"{rbac}/roles", {"metadata": {"name": "pods"}, "rules": rules})
    binding = {
        "metadata": {"name": "pods"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "pods"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
    }
    plane.api.post(f"{rbac}/rolebindings", binding)
    made: str = token("reader")
    return made


def test_a_new_leader_answers_with_the_preemptions_of_the_one_that_was_killed(
    scene, plane, schedulers, reader
):
    forget_lease(plane)
    leader = schedulers.start(config=ELECTION)
    leader.wait_log("became_leader")
    standby = schedulers.start(config=ELECTION)
    high = preempt(scene)
    wait_kept(scene, high, outcome="bound")
    before = shown(leader, reader)

    leader.kill()
    standby.wait_log("became_leader")
    second = preempt(scene, 1)

    after = shown(standby, reader)
    assert set(after) == {high, second}
    same = {"id", "node", "decidedAt", "outcome", "criteria", "candidates", "cost"}
    for field in same:
        assert after[high].get(field) == before[high].get(field), field
    assert after[high]["victims"][0]["pod"]["name"] == "low-0"
    assert after[second]["id"] != after[high]["id"]
    assert ", 2 pods were evicted for 2 pods of 1 namespace" in reported(standby, reader)


def forged(namespace: str) -> str:
    """Return a history with entries that no scheduler writes."""
    who = {"namespace": namespace, "name": "forged", "uid": "u", "priority": 1}
    good = {"id": "f-1", "node": "n", "preemptor": who, "decidedAt": 4e9, "endedAt": 1.0}
    now = {**good, "decidedAt": 1.0, "endedAt": 2.0}
    items: list[Any] = [
        good,
        now,
        {**now, "preemptor": {**who, "namespace": ""}},
        {**now, "node": "\x1b[2J"},
        {**now, "victims": [{"pod": who}] * 100_000},
        [],
        None,
    ]
    text = json.dumps({"version": 1, "items": items}).encode()
    return base64.b64encode(zstandard.compress(text)).decode()


@pytest.mark.parametrize("case", [*STRANGE, "entries that are not valid"])
def test_a_history_that_something_else_has_written_changes_nothing(scene, schedulers, reader, case):
    content = STRANGE.get(case) or forged(scene.namespace)
    scene.api.post(
        FOLDER,
        {
            "metadata": {"name": PART.rpartition("/")[2]},
            "data": {"another": "x" * 1000},
            "binaryData": {KEY: content},
        },
    )

    scheduler = schedulers.start()
    high = preempt(scene)

    assert set(shown(scheduler, reader)) == {high}
    scheduler.wait_log("history_damaged")
    wait_kept(scene, high)
    scheduler.wait_ready()


def test_preemption_goes_on_where_the_history_must_not_be_written(scene, schedulers, reader):
    frozen = {"metadata": {"name": PART.rpartition("/")[2]}, "immutable": True}
    scene.api.post(FOLDER, frozen)
    try:
        scheduler = schedulers.start()
        high = preempt(scene)

        assert "history" in scheduler.wait_log("history_not_written")["problem"]
        assert set(shown(scheduler, reader)) == {high}
        scheduler.wait_ready()
    finally:
        with contextlib.suppress(ApiError):
            scene.api.delete(PART)
