"""The writer carries out each kind of effect."""

import pytest

from scheduler.model.effects import ClearNomination, Nominate, SetCondition
from scheduler.model.events import EffectDone, FailureKind
from scheduler.model.plan_record import CONDITION
from tests.kube.fixtures import bind, evict, ref, until, writes
from tests.support.fake_api import Fault, pod

# Bind


async def test_binds_a_pod(api, write, outcomes):
    api.store.put("pods", pod("a"))
    effect = bind(api)

    await write(effect)

    assert outcomes == [EffectDone(effect)]
    assert api.store.get("pods", "default/a")["spec"]["nodeName"] == "n1"
    assert api.requests[0].body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "default", "name": "a", "uid": effect.pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault("POST", "/binding", lose=True), id="connection cut"),
        pytest.param(Fault("POST", "/binding", status=200, body=b"<html>"), id="html"),
        pytest.param(Fault("POST", "/binding", status=500), id="500"),
        pytest.param(Fault("POST", "/binding", cut=True), id="never arrived"),
    ],
)
async def test_an_answer_that_is_lost_is_found_out(api, write, outcomes, fault):
    api.store.put("pods", pod("a"))
    api.inject(fault)
    api.inject(Fault("GET", "/pods/a", times=2, status=503))
    effect = bind(api)

    await write(effect)

    assert outcomes == [EffectDone(effect)]
    assert api.store.get("pods", "default/a")["spec"]["nodeName"] == "n1"
    assert writes(api).count("create pods/binding") == (1 if fault.lose else 2)


async def test_a_pod_that_another_one_bound_is_a_conflict(api, write, outcomes):
    api.store.put("pods", pod("a", node="n2"))

    await write(bind(api))

    assert outcomes.kinds() == ["conflict"]
    assert 'already assigned to node "n2"' in outcomes[0].failure.message


async def test_a_pod_that_is_being_deleted_is_a_conflict(api, write, outcomes):
    each = pod("a")
    each["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.store.put("pods", each)

    await write(bind(api))

    assert outcomes.kinds() == ["conflict"]
    assert "is being deleted" in outcomes[0].failure.message
    assert writes(api) == ["create pods/binding"]


async def test_another_pod_of_the_same_name_is_not_bound(api, write, outcomes):
    api.store.put("pods", pod("a"))
    effect = bind(api)
    api.store.put("pods", pod("a"), uid="another")

    await write(effect)

    assert outcomes.kinds() == ["gone"]
    assert "nodeName" not in api.store.get("pods", "default/a")["spec"]


async def test_a_binding_without_an_answer_is_looked_up_after_the_time_limit(api, write, outcomes):
    api.store.put("pods", pod("a"))
    api.inject(Fault("POST", "/binding", lose=True))
    api.inject(Fault("GET", "/pods/a", times=40, status=503))

    await write(bind(api), patience=0.001)

    assert outcomes.kinds() == ["done"]


# Status


async def test_a_nomination_is_one_patch(api, write, outcomes):
    ready = {"type": "Ready", "status": "False"}
    api.store.put("pods", pod("a", conditions=[ready]))

    await write(Nominate(ref(api), "n1", "0/1 nodes are available", 7, plan='{"version":1}'))

    assert outcomes.kinds() == ["done"]
    status = api.store.get("pods", "default/a")["status"]
    assert status["nominatedNodeName"] == "n1"
    assert status["conditions"] == [
        ready,
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available",
            "observedGeneration": 7,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
        {
            "type": CONDITION,
            "status": "True",
            "reason": "Planned",
            "message": '{"version":1}',
            "observedGeneration": 7,
        },
    ]
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    "effect",
    [
        pytest.param(lambda own: Nominate(own, "n1", "no capacity", 7), id="another plan"),
        pytest.param(ClearNomination, id="the nomination is taken back"),
        pytest.param(
            lambda own: SetCondition(own, "Unschedulable", "no", 7, clear_nomination=True),
            id="the pod is rejected",
        ),
    ],
)
async def test_the_plan_is_written_with_the_nomination(api, write, effect):
    planned = {"type": CONDITION, "status": "True", "message": "{}"}
    api.store.put("pods", pod("a", conditions=[planned]))

    await write(effect(ref(api)))

    conditions = api.store.get("pods", "default/a")["status"]["conditions"]
    assert CONDITION not in {each["type"] for each in conditions}


async def test_a_patch_contains_only_the_fields_that_the_scheduler_owns(api, write):
    api.store.put("pods", pod("a"))
    effect = SetCondition(ref(api), "SchedulerError", "why", 1, clear_nomination=True)

    await write(effect)

    body = api.requests[0].body
    assert body["metadata"] == {"uid": effect.pod.uid}
    assert body["status"]["nominatedNodeName"] is None
    assert [each["type"] for each in body["status"]["conditions"]] == ["PodScheduled", CONDITION]
    assert set(body) == {"metadata", "status"}
    assert set(body["status"]) == {"conditions", "nominatedNodeName"}


async def test_the_transition_time_is_written_once(api, write, outcomes):
    api.store.put("pods", pod("a"))

    writer = await write(SetCondition(ref(api), "Unschedulable", "one", 1))
    writer.submit(SetCondition(ref(api), "Unschedulable", "two", 2))
    await until(lambda: len(outcomes) == 2)

    first, second = (each.body["status"]["conditions"][0] for each in api.requests)
    assert "lastTransitionTime" in first
    assert "lastTransitionTime" not in second


async def test_a_conflicting_patch_is_tried_again(api, write, outcomes):
    api.store.put("pods", pod("a", nominatedNodeName="n1"))
    api.inject(
        Fault("PATCH", "/status", status=409, body=b'{"kind":"Status","message":"object modified"}')
    )

    await write(ClearNomination(ref(api)))

    assert outcomes.kinds() == ["done"]
    assert "nominatedNodeName" not in api.store.get("pods", "default/a")["status"]


# Evict


async def test_a_victim_gets_its_condition_and_is_deleted(api, write, outcomes):
    api.store.put("pods", pod("a", node="n1"))
    effect = evict(api)

    await write(effect)

    assert outcomes == [EffectDone(effect)]
    victim = api.store.get("pods", "default/a")
    assert victim["metadata"]["deletionTimestamp"]
    assert victim["status"]["conditions"] == [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "preemptive-scheduler: preempting to accommodate a higher priority pod",
            "observedGeneration": 3,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    assert writes(api) == ["patch pods/status", "delete pods"]
    assert api.requests[1].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": effect.victim.uid},
    }


@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "deleted"])
@pytest.mark.parametrize("after", [0, 1], ids=["before the patch", "before the delete"])
async def test_a_victim_that_is_already_deleted_counts_as_evicted(
    api, write, outcomes, after, replaced
):
    api.store.put("pods", pod("a", node="n1"))
    effect = evict(api)

    def vanish() -> bool:
        if len(api.requests) == after and api.store.has("pods", "default/a"):
            api.store.remove("pods", "default/a")
            if replaced:
                api.store.put("pods", pod("a"), uid="another")
        return True

    await write(effect, leads=vanish)

    assert outcomes == [EffectDone(effect, changed=False)]
    assert len(api.requests) == after + 1
    if replaced:
        assert "deletionTimestamp" not in api.store.get("pods", "default/a")["metadata"]


async def test_a_victim_without_its_condition_is_not_deleted(api, write, outcomes):
    api.store.put("pods", pod("a", node="n1"))
    api.forbidden.add(("patch", "pods/status"))

    await write(evict(api))

    assert outcomes.kinds() == ["forbidden"]
    assert writes(api) == ["patch pods/status"]


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_an_eviction_whose_answer_is_lost_is_repeated(api, write, outcomes, method):
    api.store.put("pods", pod("a", node="n1"))
    api.inject(Fault(method, "/pods/a", lose=True))

    await write(evict(api))

    assert outcomes.kinds() == ["done"]
    assert api.store.get("pods", "default/a")["metadata"]["deletionTimestamp"]


async def test_leadership_is_asked_for_again_before_the_delete(api, write, outcomes):
    api.store.put("pods", pod("a", node="n1"))
    answers = [True, False]

    await write(evict(api), leads=lambda: answers.pop(0))

    assert outcomes.kinds() == [FailureKind.ABANDONED]
    assert writes(api) == ["patch pods/status"]
