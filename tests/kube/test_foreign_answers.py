"""A proxy answers in place of the API server; the scheduler concludes nothing from that."""

import asyncio
import json

import pytest

from scheduler.kube.errors import (
    ApiError,
    Conflict,
    Denied,
    Forbidden,
    MissingRight,
    NamespaceTerminating,
    NotFound,
    NotServed,
    ServerUnavailable,
    TooManyRequests,
    Unreachable,
    refusal,
)
from scheduler.kube.watch import informer as informer_module
from scheduler.kube.watch.discovery import is_served
from scheduler.kube.watch.informer import Informer
from scheduler.kube.watch.resources import DEVICE_CLASSES, PDBS, PODS
from tests.kube.fixtures import bind, until
from tests.support.fake_api import Fault, pod

HTML = b"<html>404 Not Found</html>"
PLAIN = b"404 page not found\n"
STATUS = b'{"kind":"Status","reason":"NotFound","message":"gone"}'
BUDGET = {"metadata": {"name": "b", "namespace": "ns"}}


# What a refusal is


@pytest.mark.parametrize(
    ("status", "body", "want"),
    [
        (404, STATUS, NotFound),
        (404, HTML, NotServed),
        (404, PLAIN, NotServed),
        (404, b'{"reason":"NotFound"}', NotServed),
        (403, b'{"kind":"Status"}', Forbidden),
        (403, b"<html>", Unreachable),
        (409, b'{"kind":"Status"}', Conflict),
        (409, b"", Unreachable),
        (301, b"", Unreachable),
        (401, b"Log in", Unreachable),
        (408, b"", Unreachable),
        (413, b"<html>", Unreachable),
        (421, b"", Unreachable),
        (429, b"Too many requests, please try again later.\n", TooManyRequests),
        (500, b"This request caused apiserver to panic", ServerUnavailable),
        (502, b"<html>", ServerUnavailable),
    ],
)
def test_a_refusal_without_a_status_says_nothing_about_the_object(status, body, want):
    error = refusal(status, {}, body, "create", "pods/binding")

    assert type(error) is want
    if isinstance(error, Unreachable):
        assert error.sent


BINDS = 'User "system:serviceaccount:s:s" cannot create resource "pods/binding" in API group ""'
TERMINATING = [{"reason": "NamespaceTerminating", "message": "namespace ns is being terminated"}]


@pytest.mark.parametrize(
    ("status", "message", "causes", "want"),
    [
        pytest.param(
            403, f'pods "p" is forbidden: {BINDS} in the namespace "ns"', [], MissingRight,
            id="RBAC",
        ),
        pytest.param(
            403, f"poddisruptionbudgets.policy is forbidden: {BINDS}: no opinion", [],
            MissingRight, id="an authorizer with a reason, for a list",
        ),
        pytest.param(
            403, 'forbidden: User "x" cannot get path "/version"', [], MissingRight, id="a path"
        ),
        pytest.param(
            403, 'pods "p" is forbidden: unable to create new content in namespace ns because it is'
            " being terminated", TERMINATING, NamespaceTerminating, id="a namespace that goes",
        ),
        pytest.param(
            403, 'events "e" is forbidden: exceeded quota: q, requested: count/events=1, used:'
            " count/events=1, limited: count/events=1", [], Forbidden, id="a quota",
        ),
        pytest.param(
            403, 'pods "p" is forbidden: not yet ready to handle request', [], TooManyRequests,
            id="a server that has just started",
        ),
        *(
            pytest.param(
                status, f'admission webhook "w" denied the request: {said}', causes, want,
                id=f"a webhook that says {status} {said[:12]}",
            )
            for status, said, causes, want in (
                (403, "no", [], Denied),
                (403, f'pods "p" is forbidden: {BINDS}', [], Denied),
                (403, "no", TERMINATING, Denied),
                (404, 'pods "p" not found', [], Denied),
                (409, "UID in precondition", [], Denied),
                (429, "later", [], TooManyRequests),
                (500, "broken", [], ServerUnavailable),
            )
        ),
        *(
            pytest.param(
                status, "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'v' with binding 'b'"
                f" denied request: {said}", [], Denied, id=f"a policy that says {status}",
            )
            for status, said in ((403, BINDS), (422, "failed expression: object.metadata.uid"))
        ),
        pytest.param(
            422, 'ResourceClaim.resource.k8s.io "c" is invalid: status.allocation: Forbidden:'
            ' changing status.allocation or status.reservedFor requires'
            ' resource="resourceclaims/binding", verb="patch" permission:'
            ' resourceclaims.resource.k8s.io is forbidden: User "u"',
            [], MissingRight, id="a right that no request names",
        ),
        pytest.param(
            422, 'ResourceClaim.resource.k8s.io "c" is invalid: spec: Invalid value: "changing'
            ' status.allocation or status.reservedFor requires resource="', [], ApiError,
            id="the words for such a right in another place",
        ),
        pytest.param(
            403, f'pods "p" is forbidden: it is said that {BINDS}', [], Forbidden,
            id="the words of RBAC in another place",
        ),
        pytest.param(403, "", "causes that are no list", Forbidden, id="unreadable causes"),
    ],
)  # fmt: skip
async def test_a_refusal_is_told_by_what_the_api_server_itself_writes(
    status, message, causes, want
):
    answer = {"kind": "Status", "message": message, "details": {"kind": "pods", "causes": causes}}
    error = refusal(status, {}, json.dumps(answer).encode(), "create", "pods/binding")

    assert type(error) is want


@pytest.mark.parametrize(
    ("headers", "details", "want"),
    [
        ({}, b'{"retryAfterSeconds":7}', 7.0),
        ({"retry-after": "2"}, b'{"retryAfterSeconds":7}', 2.0),
        ({}, b'{"retryAfterSeconds":7000}', 60.0),
        ({}, b'{"retryAfterSeconds":-1}', None),
        ({}, b'{"retryAfterSeconds":"soon"}', None),
        ({}, b"null", None),
        ({}, b"{}", None),
    ],
)
def test_a_status_can_contain_how_long_to_wait(headers, details, want):
    error = refusal(429, headers, b'{"kind":"Status","details":%s}' % details, "get", "pods")

    assert isinstance(error, TooManyRequests)
    assert error.retry_after == want


# Writes


@pytest.mark.parametrize("status", [301, 307, 400, 404, 408, 413, 421, 425, 499])
async def test_a_binding_that_was_executed_is_found_out(api, write, outcomes, status):
    api.store.put("pods", pod("a"))
    api.inject(Fault("POST", "/binding", status=status, body=HTML))
    effect = bind(api)
    bound = {**pod("a", node="n1")}
    bound["metadata"]["uid"] = effect.pod.uid
    api.store.put("pods", bound)

    await write(effect)

    assert outcomes.kinds() == ["done"]
    assert [each.verb for each in api.requests] == ["create", "get"]


@pytest.mark.parametrize("body", [HTML, STATUS, PLAIN], ids=["a page", "a Status", "plain text"])
async def test_a_pod_that_is_reported_missing_but_exists_is_bound(api, write, outcomes, body):
    api.store.put("pods", pod("a"))
    api.inject(Fault("POST", "/binding", status=404, body=body))

    await write(bind(api))

    assert outcomes.kinds() == ["done"]
    assert [each.verb for each in api.requests] == ["create", "get", "create"]


@pytest.mark.parametrize("body", [b"{}", b'{"kind":"Status","status":"Success"}'])
async def test_a_success_that_is_not_an_api_servers_binds_nothing(api, write, outcomes, body):
    api.store.put("pods", pod("a"))
    api.inject(Fault("POST", "/binding", status=200, body=body))

    await write(bind(api))

    assert outcomes.kinds() == ["done"]
    assert api.store.get("pods", "default/a")["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize("body", [b"{}", b'{"kind":"Status","metadata":{}}'])
async def test_a_pod_that_is_looked_up_is_not_replaced_by_something_else(
    api, write, outcomes, body
):
    api.store.put("pods", pod("a"))
    api.inject(Fault("POST", "/binding", status=503))
    api.inject(Fault("GET", "/pods/a", status=200, body=body))

    await write(bind(api))

    assert outcomes.kinds() == ["done"]


async def test_a_deleted_pod_is_reported_as_gone(api, write, outcomes):
    api.store.put("pods", pod("a"))
    effect = bind(api)
    api.store.remove("pods", "default/a")

    await write(effect)

    assert outcomes.kinds() == ["gone"]


# Lists and watches


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(404, HTML, id="404 page"),
        pytest.param(404, PLAIN, id="404 in plain text"),
        pytest.param(403, b"<html>", id="403 page"),
        pytest.param(200, b"<html>", id="200 page"),
        pytest.param(200, b'{"kind":"Status","metadata":{}}', id="Status"),
        pytest.param(200, b'{"kind":"APIResourceList","metadata":{},"resources":[]}', id="other"),
        pytest.param(
            200, b'{"kind":"Table","metadata":{"resourceVersion":"900"},"rows":[]}', id="table"
        ),
        pytest.param(
            200, b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[]}', id="list"
        ),
        pytest.param(
            200, b'{"kind":"PodDisruptionBudgetList","metadata":{},"items":[]}', id="no version"
        ),
        pytest.param(200, b'{"metadata":{"resourceVersion":"9"},"items":[]}', id="no kind"),
    ],
)
async def test_no_object_is_removed_because_of_it(api, view, start, waits, status, body):
    api.store.put("poddisruptionbudgets", BUDGET)
    informer = await start(PDBS)
    await until(lambda: api.watches == 1)

    api.proxied["poddisruptionbudgets"] = (status, body)
    api.expire_watches()
    await until(lambda: len(waits.slept) > 12)

    assert informer.health().problem
    assert informer.health().objects == 1
    assert len(view.events) == 1
    api.proxied.clear()
    await until(lambda: informer.health().problem == "")


# A resource that the API server does not have


async def test_known_objects_are_removed_when_their_resource_is_missing_for_minutes(
    api, view, start, waits, monkeypatch
):
    monkeypatch.setattr(informer_module, "ABSENT_AGREED_SECONDS", 0.2)
    api.store.put("poddisruptionbudgets", BUDGET)
    informer = await start(PDBS)
    await until(lambda: api.watches == 1)

    api.absent.add("poddisruptionbudgets")
    api.close_watches()
    begun = asyncio.get_running_loop().time()
    await until(lambda: informer.health().objects == 0)

    assert asyncio.get_running_loop().time() - begun >= 0.2
    assert [each for each in waits.slept if each >= 5][:3] == [5.0, 30.0, 30.0]
    assert len(view.events) == 2
    assert informer.health().problem == ""


async def test_known_objects_stay_while_servers_with_and_without_their_resource_answer(
    api, view, client, waits, monkeypatch
):
    """As while the control plane is upgraded: one answer in four has the resource."""
    monkeypatch.setattr(informer_module, "ABSENT_AGREED_SECONDS", 1.0)
    api.store.put("poddisruptionbudgets", BUDGET)
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        api.absent = set() if len(waited) % 4 == 0 else {"poddisruptionbudgets"}
        await asyncio.sleep(0.005)

    sleeper = waits.sleeper
    object.__setattr__(sleeper, "sleep", sleep)
    informer = Informer(PDBS, client, view.take, sleeper)
    running = asyncio.create_task(informer.run())
    await until(lambda: api.watches == 1)
    begun = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() - begun < 1.5 or waited.count(5.0) < 4:
        api.expire_watches()
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert len(view.events) == 1


@pytest.mark.parametrize(
    ("pages", "want"),
    [
        pytest.param({}, True, id="served"),
        pytest.param({"/apis$": {"kind": "APIGroupList", "groups": []}}, False, id="no group"),
        pytest.param(
            {"/apis/policy/v1$": {"kind": "APIResourceList", "resources": []}}, False, id="no kind"
        ),
        pytest.param({"/apis/policy/v1$": None}, False, id="no version"),
        pytest.param({"/apis$": None}, Unreachable, id="404 for all groups"),
        pytest.param({"/apis$": {"kind": "Status"}}, Unreachable, id="foreign groups"),
        pytest.param({"/apis$": {}}, Unreachable, id="groups without a kind"),
        pytest.param({"/apis/policy/v1$": {"kind": "List"}}, Unreachable, id="foreign resources"),
    ],
)
async def test_discovery_shows_which_resources_are_served(api, client, pages, want):
    for pattern, page in pages.items():
        body = PLAIN if page is None else json.dumps(page).encode()
        api.proxied[pattern] = (404 if page is None else 200, body)

    if isinstance(want, bool):
        assert await is_served(client, PDBS.path) is want
    else:
        with pytest.raises(want):
            await is_served(client, PDBS.path)


async def test_what_is_needed_stays_a_problem(api, start, waits):
    api.absent.add("pods")

    informer = await start(PODS, synced=False)
    await until(lambda: len(waits.slept) > 2)

    assert "cannot list pods" in informer.health().problem


async def test_a_resource_that_is_not_served_is_no_problem(api, start, waits, heard):
    api.absent.add("deviceclasses")

    informer = await start(DEVICE_CLASSES)
    await until(lambda: len(waits.slept) > 5)

    assert informer.health().problem == ""
    assert heard.interruptions == []
    assert heard.restarts == 0
    assert set(waits.slept) == {30.0}
    assert informer.health().silent_seconds < 1
