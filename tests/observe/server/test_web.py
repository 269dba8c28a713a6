import asyncio
import dataclasses
import gzip
import json

import pytest

from scheduler.observe.server import access
from scheduler.observe.server.access import (
    ALLOWED,
    UNAUTHENTICATED,
    AccessDecision,
    AccessVerdict,
    Caller,
    unavailable,
)
from scheduler.observe.server.listen import Listen

PLAIN = Listen(plain=True)


@pytest.mark.parametrize("listen", [PLAIN, Listen()], ids=["plain", "self-signed TLS"])
async def test_health_is_served_to_every_client(serve, listen):
    served = await serve(access.deny_all, listen)

    assert await served.get("/healthz") == (200, "ok")
    assert await served.get("/livez?verbose") == (200, "[+]ping ok\nlivez check passed\n")
    assert await served.get("/livez/ping") == (200, "ok")


async def test_readiness_that_fails_has_a_reason(serve):
    served = await serve(access.deny_all)

    assert await served.get("/readyz") == (
        500,
        "[+]ping ok\n[-]informer-sync failed: pods not listed\nreadyz check failed\n",
    )
    assert await served.get("/readyz/informer-sync") == (
        500,
        "internal server error: pods not listed\n",
    )
    assert await served.get("/readyz?exclude=informer-sync") == (200, "ok")


@pytest.mark.parametrize("path", ["/", "/readyz/unknown", "/healthz/ping/x", "/debug", "/metricsx"])
async def test_other_paths_are_not_found(serve, path):
    served = await serve()

    status, _ = await served.get(path)

    assert status == 404


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/configz", "/debug/pod"])
async def test_nothing_can_be_written(serve, path):
    served = await serve()

    assert await served.post(path) == 405


async def test_metrics_are_prometheus_text(serve):
    served = await serve()

    status, text = await served.get("/metrics")
    headers = await served.headers("/metrics")

    assert status == 200
    assert "# TYPE scheduler_schedule_attempts_total counter\n" in text
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")


async def test_metrics_are_compressed_for_clients_that_accept_it(serve):
    served = await serve()

    answer = await served.raw(
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n",
    )

    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Content-Encoding: gzip" in head
    assert gzip.decompress(body).startswith(b"# HELP scheduler_")


async def test_the_configuration_is_json(serve):
    served = await serve()

    assert await served.get("/configz") == (200, '{"componentconfig":{"parallelism":16}}')


@pytest.mark.parametrize(("path", "text"), [("/statusz", "what runs\n"), ("/flagz", "its flags\n")])
async def test_version_and_flags_are_served_as_text(serve, path, text):
    served = await serve()

    assert await served.get(path) == (200, text)
    assert (await served.headers(path))["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("path", "kind", "more"),
    [("/statusz", "Statusz", {"uptimeSeconds": 7}), ("/flagz", "Flagz", {"flags": {"v": "2"}})],
)
async def test_version_and_flags_are_served_as_objects(serve, path, kind, more):
    served = await serve()
    accept = {"Accept": f"application/json;g=config.k8s.io;v=v1beta1;as={kind}"}

    status, text = await served.get(path, headers=accept)
    headers = await served.headers(path, headers=accept)
    refused, _ = await served.get(path, headers={"Accept": "application/xml"})
    old = {"Accept": accept["Accept"].replace("v1beta1", "v1alpha1")}

    assert status == 200
    assert json.loads(text) == {
        "kind": kind,
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "it"},
        **more,
    }
    assert headers["Content-Type"] == "application/json"
    assert "Warning" not in headers
    assert "deprecated" in (await served.headers(path, headers=old))["Warning"]
    assert refused == 406


async def test_a_process_whose_loop_does_not_run_is_not_alive_and_says_so(serve):
    pages = dataclasses.replace(serve.pages, livez={"loop": lambda: "it has not run for 312 s"})
    served = await serve(access.deny_all, pages=pages)

    assert await served.get("/livez") == (
        500,
        "[+]ping ok\n[-]loop failed: it has not run for 312 s\nlivez check failed\n",
    )


async def test_a_client_over_its_rate_gets_the_time_to_retry_after(serve):
    async def authorize(caller: Caller) -> AccessDecision:
        return AccessDecision(AccessVerdict.THROTTLED, "too many")

    served = await serve(authorize)
    status, text = await served.get("/metrics")

    assert (status, json.loads(text)["reason"]) == (429, "TooManyRequests")
    assert (await served.headers("/metrics"))["Retry-After"] == "1"


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/debug/pod?pod=shop/web", (200, '{"pod":"shop/web","attempts":3}')),
        ("/debug/pod?pod=shop/db", (404, "no such pod\n")),
        ("/debug/pod", (400, "say which pod: ?pod=<namespace>/<name>\n")),
        ("/debug/text", (200, "plain")),
        ("/debug/pods/shop/web", (200, '{"pod":"shop/web","more":""}')),
        ("/debug/pods/shop/web?more=1&name=db", (200, '{"pod":"shop/web","more":"1"}')),
        ("/debug/parts", (200, "[1,2]")),
    ],
)
async def test_debug_pages_answer_to_their_query(serve, path, want):
    served = await serve()

    assert await served.get(path) == want


guarded = pytest.mark.parametrize(
    "path",
    ["/metrics", "/configz", "/flagz", "/statusz", "/debug/pod?pod=shop/web", "/debug/parts"],
)


@guarded
@pytest.mark.parametrize(
    ("judgement", "want"),
    [
        (UNAUTHENTICATED, (401, "Unauthorized", "Unauthorized")),
        (
            AccessDecision(AccessVerdict.FORBIDDEN, "forbidden: <b>"),
            (403, "Forbidden", "forbidden: <b>"),
        ),
        (unavailable(), (503, "ServiceUnavailable", unavailable().message)),
    ],
    ids=["unauthenticated", "forbidden", "unavailable"],
)
async def test_a_refused_client_gets_the_status_of_an_api_server_and_no_details(
    serve, path, judgement, want
):
    async def authorize(caller: Caller) -> AccessDecision:
        return judgement

    served = await serve(authorize)
    status, text = await served.get(path)

    code, reason, message = want
    assert status == code
    assert json.loads(text) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    assert (await served.headers(path))["Content-Type"].startswith("application/json")


async def test_no_client_is_admitted_while_the_reviewer_does_not_answer(serve):
    async def authorize(caller: Caller) -> AccessDecision:
        await asyncio.Event().wait()
        return ALLOWED

    served = await serve(authorize, Listen(plain=True, review_seconds=0.05))

    status, text = await served.get("/metrics")

    assert status == 503
    assert json.loads(text)["reason"] == "ServiceUnavailable"


async def test_the_reviewer_gets_what_a_review_needs(serve):
    seen: list[Caller] = []

    async def authorize(caller: Caller) -> AccessDecision:
        seen.append(caller)
        return ALLOWED

    served = await serve(authorize)
    await served.get("/debug/text?x=1", headers={"Authorization": "Bearer abc"})

    (caller,) = seen
    assert (caller.verb, caller.path, caller.peer) == ("get", "/debug/text", "127.0.0.1")
    assert caller.headers["authorization"] == "Bearer abc"


async def test_health_is_served_without_a_review(serve):
    async def authorize(caller: Caller) -> AccessDecision:
        raise AssertionError

    served = await serve(authorize)

    assert (await served.get("/healthz"))[0] == 200
