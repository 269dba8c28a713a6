"""Metrics and debug pages of a running scheduler: which users see them, and what they say."""

import json
import operator
import threading

import pytest

from tests.integration.access import EVERYWHERE, RBAC, until_status
from tests.integration.event_stream import Follower, NodeList
from tests.integration.objects import pod
from tests.support.control_plane import followed

pytestmark = pytest.mark.cluster

PAGES = (
    "/metrics", "/configz", "/flagz", "/statusz", "/debug/queue", "/debug/nodes", "/debug/snapshot",
)  # fmt: skip


def test_pages_are_shown_to_users_that_the_api_server_allows(schedulers, token, grant):
    reader, stranger = token("reader"), token("stranger")
    grant("reader", "/metrics", "/configz", "/flagz", "/statusz", "/debug/*")
    scheduler = schedulers.start(
        *EVERYWHERE, "--authorization-webhook-cache-unauthorized-ttl", "0s"
    )
    until_status(scheduler, "/metrics", reader, 200)

    for path in PAGES:
        assert scheduler.get(path, reader)[0] == 200, path
        status, text = scheduler.get(path, stranger)
        assert (status, json.loads(text)["reason"]) == (403, "Forbidden"), path
        for invalid in ("", "not-a-token", altered(reader)):
            status, text = scheduler.get(path, invalid)
            assert (status, json.loads(text)["message"]) == (401, "Unauthorized"), path
    for path in ("/healthz", "/livez", "/readyz"):
        assert scheduler.get(path) == (200, "ok")
    log = scheduler.log_text()
    assert reader not in log
    assert stranger not in log


def altered(token: str) -> str:
    """Return a token with another signature; its last character has bits that are ignored."""
    other = "A" if token[-20] != "A" else "B"
    return f"{token[:-20]}{other}{token[-19:]}"


def test_a_right_is_valid_for_its_path_only_and_ends_when_it_is_revoked(
    plane, namespace, schedulers, token, grant
):
    reader = token("reader")
    grant("reader", "/metrics")
    scheduler = schedulers.start(
        *EVERYWHERE,
        "--authorization-webhook-cache-authorized-ttl", "0s",
        "--authorization-webhook-cache-unauthorized-ttl", "0s",
    )  # fmt: skip
    until_status(scheduler, "/metrics", reader, 200)

    status, text = scheduler.get("/debug/queue", reader)
    plane.api.patch(f"{RBAC}/clusterroles/{namespace}-reader", {"rules": []})

    assert status == 403
    name = f"system:serviceaccount:{namespace}:reader"
    assert json.loads(text)["message"] == (
        f'forbidden: User "{name}" cannot get path "/debug/queue"'
    )
    until_status(scheduler, "/metrics", reader, 403)


def test_an_open_watch_ends_when_its_right_is_revoked(plane, namespace, schedulers, token, grant):
    reader = token("reader")
    grant("reader", "/preemptive-scheduler/api/v1/*")
    scheduler = schedulers.start(*EVERYWHERE)
    until_status(scheduler, "/api/v1/nodes", reader, 200)
    watch = Follower(scheduler, "/api/v1/nodes?watch=1", NodeList(), token=reader)

    plane.api.patch(f"{RBAC}/clusterroles/{namespace}-reader", {"rules": []})

    assert watch.ended()
    assert scheduler.get("/api/v1/nodes", reader)[0] == 403
    watch.close()


def test_no_user_is_admitted_while_the_api_server_is_unavailable(schedulers, token, grant, proxy):
    reader = token("reader")
    grant("reader", "/metrics")
    scheduler = schedulers.start(
        *EVERYWHERE,
        "--authentication-token-webhook-cache-ttl", "0s",
        kubeconfig=proxy.kubeconfig,
    )  # fmt: skip
    until_status(scheduler, "/metrics", reader, 200)

    proxy.refuse("POST", "/tokenreviews", 500)
    status, text = scheduler.get("/metrics", reader)

    assert (status, json.loads(text)["reason"]) == (503, "ServiceUnavailable")
    assert scheduler.get("/healthz") == (200, "ok")


def test_the_release_of_the_api_server_decides(scheduler):
    version = followed().version

    assert f"Decides as: kube-scheduler {version}" in scheduler.get("/statusz")[1]
    assert f'scheduler_reference_info{{reference="{version}"}} 1' in scheduler.get("/metrics")[1]


def test_what_is_known_is_what_the_api_server_has(scene, schedulers):
    scene.nodes(2)
    scheduler = schedulers.start("--compare-cache-period", "500ms")
    scene.create(*(pod(f"p{i}") for i in range(4)))
    scene.wait_running(*(f"p{i}" for i in range(4)))

    resources = ("pods", "nodes", "namespaces", "poddisruptionbudgets", "storageclasses")

    def equal_comparisons() -> list[float]:
        name = "scheduler_cache_comparisons_total"
        return [scheduler.metric(name, result="same", resource=each) for each in resources]

    # While an object changes, a comparison has another result.
    before, pause = equal_comparisons(), threading.Event()
    for _ in range(300):
        increased = list(map(operator.gt, equal_comparisons(), before))
        if all(increased):
            break
        pause.wait(0.1)

    assert all(increased), dict(zip(resources, increased, strict=True))
    assert scheduler.metric("scheduler_cache_drift") == 0
    assert scheduler.logged("cache_drift") == []
    assert scheduler.logged("cache_not_compared") == []


def test_no_user_is_admitted_without_the_right_to_create_reviews(plane, schedulers, token, grant):
    reader = token("reader")
    grant("reader", "/metrics")
    powerless = plane.service_account_kubeconfig("default", "default")
    scheduler = schedulers.start(*EVERYWHERE, kubeconfig=powerless, ready=False)
    scheduler.wait_log("watch_interrupted")

    status, text = scheduler.get("/metrics", reader)

    assert (status, json.loads(text)["reason"]) == (503, "ServiceUnavailable")
    told = scheduler.wait_log("authorization_unavailable")
    assert "cannot create tokenreviews" in told["problem"]
    assert "tokenreviews" not in text
