"""What the writer asks again, and what it takes for an answer."""

import json

import pytest

from scheduler.model.effects import Evict, PodRef
from tests.kube.fixtures import bind, evict, ref, writes
from tests.support.fake_api import Fault, pod


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(403, "refused", id="403"),
        pytest.param(422, "refused", id="422"),
        pytest.param(400, "refused", id="400"),
    ],
)
async def test_a_refused_request_is_not_retried(api, write, outcomes, status, want):
    api.store.put("pods", pod("a"))
    api.inject(Fault("POST", "/binding", status=status))

    await write(bind(api))

    assert outcomes.kinds() == [want]
    assert len(api.requests) == 1


async def test_a_missing_right_is_named(api, write, outcomes):
    api.store.put("pods", pod("a"))
    api.forbidden.add(("create", "pods/binding"))

    await write(bind(api))

    assert outcomes.kinds() == ["forbidden"]
    assert outcomes[0].failure.message.startswith("cannot create pods/binding: pods is forbidden")


@pytest.mark.parametrize(
    ("status", "said", "want"),
    [
        pytest.param(
            403,
            {
                "message": 'pods "a" is forbidden: unable to create new content',
                "details": {"causes": [{"reason": "NamespaceTerminating"}]},
            },
            "gone",
            id="its namespace is being deleted",
        ),
        pytest.param(
            409,
            {"message": 'admission webhook "w" denied the request: no'},
            "refused",
            id="a webhook with the status of a conflict",
        ),
        pytest.param(
            404,
            {"message": 'admission webhook "w" denied the request: no'},
            "refused",
            id="a webhook with the status of a pod that is gone",
        ),
    ],
)
async def test_what_denies_a_binding_is_told_apart(api, write, outcomes, status, said, want):
    api.store.put("pods", pod("a"))
    body = json.dumps({"kind": "Status", **said}).encode()
    api.inject(Fault("POST", "/binding", status=status, body=body))

    await write(bind(api))

    assert outcomes.kinds() == [want]
    assert len(api.requests) == 1


NAME = "metadata.uid"


@pytest.mark.parametrize(
    ("status", "message", "want"),
    [
        pytest.param(
            409,
            f'Operation cannot be fulfilled on pods "{NAME}": the object has been modified',
            "done",
            id="a conflict",
        ),
        pytest.param(
            429,
            'admission webhook "w" denied the request: later, UID in precondition: x',
            "done",
            id="a webhook that quotes",
        ),
        pytest.param(
            403, f'pods "{NAME}" is forbidden: User "u" cannot', "forbidden", id="a missing right"
        ),
    ],
)
async def test_no_name_and_no_webhook_make_a_victim_pass_for_one_that_was_replaced(
    api, write, outcomes, status, message, want
):
    api.store.put("pods", pod(NAME, node="n1"))
    body = json.dumps({"kind": "Status", "message": message}).encode()
    api.inject(Fault("PATCH", "/status", status=status, body=body))
    effect = Evict(ref(api, NAME), "n1", PodRef("default", "high", "u"), "preemptive-scheduler", 3)

    await write(effect, patience=5)

    assert outcomes.kinds() == [want]
    assert ("delete pods" in writes(api)) is (want == "done")


async def test_a_webhook_that_denies_as_if_something_existed_has_not_let_the_victim_go(
    api, write, outcomes
):
    api.store.put("pods", pod("a", node="n1"))
    message = 'admission webhook "w" denied the request: no'
    said = {"kind": "Status", "reason": "AlreadyExists", "message": message}
    api.inject(Fault("DELETE", "/pods/a", status=409, body=json.dumps(said).encode()))

    await write(evict(api))

    assert outcomes.kinds() == ["refused"]


async def test_a_server_that_requests_more_than_the_time_limit_is_unavailable(api, write, outcomes):
    api.store.put("pods", pod("a"))
    api.inject(Fault("POST", "/binding", times=9, status=429, headers={"Retry-After": "30"}))

    await write(bind(api), patience=5)

    assert outcomes.kinds() == ["unavailable"]
    assert len(api.requests) == 1


@pytest.mark.parametrize("status", [401, 429, 500, 503])
async def test_retries_end_after_the_time_limit(api, write, outcomes, status):
    api.store.put("pods", pod("a"))
    api.inject(Fault("POST", "/binding", times=1000, status=status))

    await write(bind(api), patience=0.25)

    assert outcomes.kinds() == ["unavailable"]
    assert len(writes(api)) >= 2


async def test_nothing_is_written_without_leadership(api, write, outcomes):
    api.store.put("pods", pod("a"))

    await write(bind(api), leads=lambda: False)

    assert outcomes.kinds() == ["abandoned"]
    assert api.requests == []
