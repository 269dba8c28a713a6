"""The way to the leader: its Lease, the port-forward, credentials and certificates."""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from scheduler.kubectl.connection import demo_files
from scheduler.kubectl.errors import CommandError
from tests.support.api_server_stand_in import TOKEN, ApiServerStandIn, lease
from tests.support.api_stand_in import StandIn, serving
from tests.support.certificates import Authority

NAME = "preemptive-scheduler"
POD = f"{NAME}-6d4cf56db6-x7x9k"
HOLDER = f"{POD}_3b7c0a51-9a0c-4b1e-8f5e-6f6f2b0a8c11"


def tls(authority: Authority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(authority.folder / "server.crt", authority.folder / "server.key")
    return context


@pytest.fixture
async def api(authority: Authority, scheduler: StandIn) -> AsyncIterator[ApiServerStandIn]:
    """An API server whose Lease names a pod that forwards to the scheduler."""
    async with serving(scheduler, context=tls(authority)) as url:
        api = ApiServerStandIn(int(url.rpartition(":")[2]))
        api.leases[NAME, NAME] = lease(NAME, HOLDER)
        async with api.serving(authority):
            yield api


@pytest.fixture
def config(api: ApiServerStandIn, authority: Authority, tmp_path: Path) -> str:
    return str(api.write_kubeconfig(tmp_path / "config", authority, namespace="prod"))


@contextlib.contextmanager
def refused(problem: str, *advice: str):
    with pytest.raises(CommandError) as error:
        yield
    assert problem in str(error.value)
    for part in advice:
        assert part in error.value.advice


async def test_the_leader_is_asked_with_the_users_token(run, api, scheduler, config):
    printed = await run("version", KUBECONFIG=config)

    assert "scheduler  0.1.0" in printed.text
    assert api.forwarded == [f"/api/v1/namespaces/{NAME}/pods/{POD}/portforward"]
    assert scheduler.authorizations == [f"Bearer {TOKEN}"]


async def test_a_flag_chooses_another_namespace(run, scheduler, config):
    await run("why", "-n", "batch", "worker-1", KUBECONFIG=config)

    assert scheduler.requests == ["GET /api/v1/pods/batch/worker-1"]


async def test_a_client_certificate_is_shown_to_the_scheduler(
    run, api, scheduler, authority, tmp_path
):
    content = api.kubeconfig(authority)
    content["users"][0]["user"] |= {
        "client-certificate": str(authority.client_certificate),
        "client-key": str(authority.client_key),
    }
    path = tmp_path / "certificate"
    path.write_text(yaml.safe_dump(content))

    await run("version", "--kubeconfig", str(path))

    assert scheduler.certificates == ["client"]


async def test_the_certificate_of_the_scheduler_is_verified_on_request(run, authority, config):
    flags = ["--certificate-authority", str(authority.certificate)]

    printed = await run("version", *flags, "--tls-server-name", "kubernetes", KUBECONFIG=config)

    assert printed.code == 0


async def test_a_scheduler_with_another_certificate_is_refused(run, authority, scheduler, config):
    flags = ["--certificate-authority", str(authority.certificate)]  # the name is another one

    with refused("is not trusted", "--tls-server-name"):
        await run("version", *flags, KUBECONFIG=config)

    assert scheduler.authorizations == []


async def test_large_answers_and_streams_pass(run, scheduler, config, tmp_path):
    printed = await run("record", "-o", str(tmp_path / "a.rec"), KUBECONFIG=config)

    assert printed.code == 0
    assert (tmp_path / "a.rec").read_bytes() == b"recording\x00" * 4096
    assert (tmp_path / "a.rec").stat().st_mode & 0o777 == 0o600


async def test_the_only_lease_with_the_labels_of_the_chart_is_found(run, api, config):
    api.leases = {
        ("sched", "release-preemptive-scheduler"): lease("release-preemptive-scheduler", HOLDER)
    }

    await run("version", "--scheduler-namespace", "sched", KUBECONFIG=config)

    assert api.forwarded == [f"/api/v1/namespaces/sched/pods/{POD}/portforward"]


async def test_one_of_several_schedulers_must_be_chosen(run, api, config):
    api.leases = {(NAME, name): lease(name, HOLDER) for name in ("a", "b")}

    with refused("several schedulers: a, b", "--scheduler-lease"):
        await run("version", KUBECONFIG=config)
    assert (await run("version", "--scheduler-lease", "b", KUBECONFIG=config)).code == 0


async def test_without_a_lease_the_only_pod_is_asked(run, api, config):
    api.leases = {}
    api.pods = [{"metadata": {"name": "single"}, "status": {"phase": "Running"}}]

    await run("version", KUBECONFIG=config)

    assert api.forwarded == [f"/api/v1/namespaces/{NAME}/pods/single/portforward"]


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param({"spec": {"nodeName": "n"}}, "it is on node n already", id="bound"),
        pytest.param(
            {"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}},
            "it has ended, as Succeeded", id="ended",
        ),
        pytest.param({"spec": {}}, "spec.schedulerName is default-scheduler", id="another"),
        pytest.param({"spec": {"schedulerName": NAME}}, "try again", id="new"),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "deleted", id="deleted"
        ),
        pytest.param(None, "it does not exist", id="none"),
    ],
)  # fmt: skip
async def test_it_is_said_why_a_pod_is_not_in_the_queue(run, api, config, found, reason):
    if found is not None:
        api.pods = [{**found, "metadata": {"name": "web", **found.get("metadata", {})}}]

    with refused(reason):
        await run("why", "web", KUBECONFIG=config)


async def test_the_new_leader_is_asked_after_the_old_one_has_gone(run, api, scheduler, config):
    """The Lease is read again, once, when its holder does not answer."""
    good, api.forward_to = api.forward_to, 1

    async def lead() -> None:
        while len(api.forwarded) < 1:
            await asyncio.sleep(0.01)
        api.forward_to = good

    leading = asyncio.create_task(lead())
    printed = await run("version", KUBECONFIG=config)
    await leading

    assert printed.code == 0


async def test_without_a_kubeconfig_it_is_said(run):
    with refused("there is no kubeconfig", "--kubeconfig"):
        await run("version")


@pytest.fixture
def demo(url, api, authority, tmp_path) -> Path:
    """The kubeconfig of a demonstration, whose address is in the file beside it."""
    server, kubeconfig = demo_files({"HOME": str(tmp_path)})
    server.parent.mkdir(parents=True)
    server.write_text(f"{url}\n")
    return api.write_kubeconfig(kubeconfig, authority, namespace="prod")


async def test_without_a_kubeconfig_the_demonstration_is_asked(run, api, demo, scheduler):
    assert (await run("why", "api-0")).code == 0
    assert scheduler.requests == ["GET /api/v1/pods/prod/api-0"]
    assert api.forwarded == []


@pytest.mark.parametrize("flag", [False, True])
async def test_the_kubeconfig_of_the_demonstration_leads_to_its_scheduler(run, api, demo, flag):
    path = os.path.relpath(demo)
    named = ("--kubeconfig", path) if flag else ()

    printed = await run("version", *named, **({} if flag else {"KUBECONFIG": path}))

    assert printed.code == 0
    assert api.forwarded == []


@pytest.mark.parametrize("flags", [(), ("--server", "https://127.0.0.1:1")])
async def test_a_context_that_does_not_exist_is_an_error_with_an_address_too(run, demo, flags):
    with refused("no-such-context", "get-contexts"):
        await run("version", "--context", "no-such-context", *flags, KUBECONFIG=str(demo))


@pytest.mark.parametrize("flag", [False, True])
async def test_a_kubeconfig_that_is_named_and_missing_is_not_the_demonstration(run, demo, flag):
    named = ("--kubeconfig", "/nonexistent") if flag else ()

    with refused("there is no kubeconfig: /nonexistent", "--kubeconfig"):
        await run("version", *named, **({} if flag else {"KUBECONFIG": "/nonexistent"}))


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ("http://example.com", "only sent over https"),
        ("http://127.0.0.1:1", "only sent over https"),
        ("https://127.0.0.1:1", "whose certificate is verified"),
        ("https://localhost:1", "whose certificate is verified"),
        ("https://[::1]:1", "whose certificate is verified"),
    ],
)
async def test_a_token_is_only_sent_to_a_server_that_proves_who_it_is(
    run, tmp_path, server, problem
):
    (tmp_path / "token").write_text("secret")

    with refused(problem):
        await run("version", "--server", server, "--token-file", str(tmp_path / "token"))


#: What an API server has or refuses, and the problem with its advice.
REFUSALS = {
    "the holder is no name of a pod": (
        {"leases": {(NAME, NAME): lease(NAME, "../../secrets?x_1")}},
        ["is not a pod", "--server"],
    ),
    "it is not installed": (
        {"leases": {}},
        ["is not installed in namespace", "helm install", "--scheduler-namespace", "--server"],
    ),
    "no replica leads": (
        {"leases": {(NAME, NAME): lease(NAME, "")}},
        ["no replica leads", "kubectl get pods"],
    ),
    "an expired token": ({"token": "another"}, ["Unauthorized", "log in again"]),
    "no right to the Lease": (
        {"refused": {"leases": 403}},
        ["forbidden", 'resources: ["leases"]', "verbs:"],
    ),
    "no right to the port-forward": (
        {"refused": {"portforward": 403}},
        ["forbidden", 'resources: ["pods/portforward"]', "verbs:"],
    ),
    "an error of the kubelet is printed": (
        {"forward_error": "error forwarding port 10259: connection refused"},
        ["connection refused", "look at its pods"],
    ),
}


@pytest.mark.parametrize(("state", "words"), REFUSALS.values(), ids=REFUSALS)
async def test_a_way_that_is_closed_is_named_with_advice(run, api, scheduler, config, state, words):
    for name, value in state.items():
        setattr(api, name, value)

    with refused(*words):
        await run("version", KUBECONFIG=config)

    assert scheduler.authorizations == []


async def test_a_pod_that_the_user_may_not_get_may_be_anything(run, api, config):
    api.refused["pods"] = 403

    with refused("prod/web", "kubectl get pod web -n prod"):
        await run("why", "web", KUBECONFIG=config)
