"""A new leader reads what is persisted as if a stranger had written it.

The tenants' part is in `test_hostile_tenant_live`. Here an administrator, or a broken controller,
writes into the status of a preemptor and into the ledger.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Final

import pytest

from deploy.tools.controlplane.api import ApiError
from scheduler.model.plan_record import CONDITION, VERSION, PlanRecord, encode, fingerprint
from tests.integration.objects import HANGS, Json, condition, is_gone, is_nominated, pod
from tests.integration.scene import Scene

pytestmark = pytest.mark.cluster

CONFIG_MAPS: Final = "/api/v1/namespaces/preemptive-scheduler/configmaps"
LEDGER: Final = "preemptive-scheduler-ledger"
#: The most that the API server takes in one ConfigMap is 1 MiB.
LARGE: Final = 900_000
HUGE: Final = 10**400

#: Of a node that is not ready for pods yet.
CLOSED: Final = {"key": "example.com/closed", "value": "yes", "effect": "NoSchedule"}

#: Texts of the ledger that no scheduler writes.
DAMAGED: Final = {
    "nested without end": "[" * 100_000,
    "values of other types": json.dumps(
        {
            "version": 1,
            "names": ["x", 1, None, {"a": []}],
            "preemptions": "all",
            "wasted": [[None, {}, [], "x", -1], ["x"], 0, [1, "u", True, 0, 1]],
            "pauses": [[0, 0, "x", "y"], [0, 1, 2, 3]],
            "evictions": [[0, 0, 0, 0, 0, 0, 0]],
            "fruitless": [[[], [], [], [], [], []]],
        }
    ),
    "numbers beyond all bounds": (
        '{"version": 1, "names": ["Pod/x/y", "z"], '
        f'"wasted": [[{HUGE}, "u", 0, 1, {HUGE}], [1e999, "u", 0, 1, -{HUGE}]], '
        f'"pauses": [[0, 1, {HUGE}, 1e308], [-{HUGE}, {HUGE}, 1, 1]], '
        f'"evictions": [[-1e308, "u", 0, 0, 0, [0], {HUGE}]]}}'
    ),
    "900 KB of noise": "x" * LARGE,
    "900 KB of entries": json.dumps(
        {"version": 1, "names": ["Pod/x/y", "z"], "wasted": [[1e15, "u", 0, 1, 1]] * 24_000}
    ),
}


@pytest.fixture
def ledger(scene: Scene) -> Iterator[str]:
    """The path of the ledger's ConfigMap; there is none before and after the test."""
    forget(scene)
    yield f"{CONFIG_MAPS}/{LEDGER}"
    forget(scene)


def forget(scene: Scene) -> None:
    with contextlib.suppress(ApiError):  # there is none
        scene.api.delete(f"{CONFIG_MAPS}/{LEDGER}")


def write_status(scene: Scene, name: str, node: str, *conditions: Json) -> None:
    """Write a nomination and conditions into the status of a pod, as an administrator may."""
    status = {"nominatedNodeName": node, "conditions": list(conditions)}
    scene.api.patch(f"{scene.path(name)}/status", {"status": status}, "strategic")


def forged(scene: Scene, preemptor: str, node: str, begun: float, *victims: str) -> Json:
    """Return the condition of a plan to evict some pods of the scene."""
    own = scene.pod(preemptor)["metadata"]["uid"]
    marks = [fingerprint(own, scene.pod(each)["metadata"]["uid"]) for each in victims]
    record = PlanRecord(VERSION, node, begun, tuple(marks))
    return {
        "type": CONDITION,
        "status": "True",
        "reason": "Preempting",
        "message": encode(record),
    }


@pytest.mark.parametrize("begun", [-1e308, 1e308])
def test_a_forged_plan_evicts_no_pod_that_its_preemptor_may_not_evict(scene, schedulers, begun):
    first, second = scene.nodes(2, cpu="4")
    # On the first node the preemptor needs the capacity of one that it may not evict.
    scene.run(
        pod("higher", "2", "high", on=first),
        pod("equal", "1", "middle", on=first),
        pod("lower", "1", "low", on=first),
        pod("elsewhere", "4", "high", on=second),
    )
    scene.create(pod("mid", "3", "middle"))
    victims = ("higher", "equal", "lower", "elsewhere")
    write_status(scene, "mid", first, forged(scene, "mid", first, begun, *victims))

    restarted = schedulers.start()

    scene.wait("mid", is_nominated(""))
    restarted.wait_ready()
    assert condition(scene.pod("mid"), CONDITION) == {}
    assert scene.history().doomed() == []
    # A preemption within the rules goes on as if there had been no forgery.
    third = scene.node(cpu="4", taints=(CLOSED,))
    scene.run(pod("other", "4", "low", on=third, tolerations=[{"operator": "Exists"}]))
    scene.patch_node(third, {"spec": {"taints": None}})
    assert scene.wait_running("mid") == {"mid": third}
    assert scene.history().doomed() == scene.history().evicted() == ["other"]


def test_forged_victims_are_left_out_of_a_plan_that_goes_on(scene, schedulers):
    node = scene.node(cpu="4")
    scene.run(
        pod("higher", "2", "high", on=node),
        pod("lower", "2", "low", on=node, annotations=HANGS),
    )
    scheduler = schedulers.start()
    scene.create(pod("mid", "2", "middle"))
    scene.wait("mid", is_nominated(node))
    scheduler.wait_log("victim_evicted")
    scheduler.kill()
    write_status(scene, "mid", node, forged(scene, "mid", node, 1e308, "higher", "lower"))

    restarted = schedulers.start()

    restarted.wait_log("pod_unschedulable", pod=f"{scene.namespace}/mid")
    scene.let_go("lower")
    assert scene.wait_running("mid") == {"mid": node}
    restarted.wait_ready()
    assert scene.history().doomed() == ["lower"]


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_ledger_stops_neither_the_scheduler_nor_preemption(
    scene, schedulers, ledger, text
):
    node = scene.node(cpu="2")
    scene.run(pod("low", "2", "low", on=node))
    scene.api.post(CONFIG_MAPS, {"metadata": {"name": LEDGER}, "data": {"ledger.json": text}})
    assert scene.api.get(ledger)["data"]["ledger.json"] == text

    scheduler = schedulers.start()
    scheduler.wait_ready()
    scene.create(pod("high", "2", "high"))

    assert scene.wait_running("high") == {"high": node}
    assert scene.history().evicted() == scene.history().doomed() == ["low"]
    scheduler.wait_ready()


def test_a_ledger_that_must_not_be_changed_does_not_stop_preemption(scene, schedulers, ledger):
    node = scene.node(cpu="2")
    scene.run(pod("low", "2", "low", on=node))
    frozen = {
        "metadata": {"name": LEDGER},
        "immutable": True,
        "binaryData": {"ledger.json": "AA=="},
    }
    scene.api.post(CONFIG_MAPS, frozen)

    scheduler = schedulers.start()
    scheduler.wait_ready()
    scene.create(pod("high", "2", "high"))

    assert scene.wait_running("high") == {"high": node}
    assert scene.history().evicted() == ["low"]
    assert scene.api.get(ledger)["immutable"] is True
    scene.wait("low", is_gone)
