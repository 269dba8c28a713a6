"""What a command says when the scheduler refuses, does not know a pod, or does not answer."""

import pytest

from scheduler.kube.errors import Forbidden
from scheduler.kubectl import server_check
from scheduler.kubectl.errors import CommandError


@pytest.mark.parametrize(
    ("argv", "path", "where"),
    [
        pytest.param(["why", "api-0"], "/api/v1/pods/", "in that namespace", id="a pod"),
        pytest.param(
            ["record", "-o", "x"], "/api/v1/recording", "in all namespaces", id="a recording"
        ),
    ],
)
async def test_a_missing_right_on_pods_is_said_as_such(run, url, scheduler, argv, path, where):
    scheduler.switches.forbidden[path] = 'this needs the permission verb "get", resource "pods"'

    with pytest.raises(CommandError) as error:
        await run(*argv, "--server", url)
    assert error.value.advice.startswith(f"this rule is missing {where}:")
    assert 'resources: ["pods"]' in error.value.advice


@pytest.mark.parametrize(
    ("code", "problem", "advice"),
    [
        pytest.param(401, "does not accept the credentials", "--token-file FILE", id="401"),
        pytest.param(
            403,
            'User "jane" cannot get path "/preemptive-scheduler/api/v1/policies"',
            '"/preemptive-scheduler/api/v1/*"]\n    verbs: ["get"]',
            id="403",
        ),
        pytest.param(429, "too many plans at once", "try again in 1 s", id="429"),
        pytest.param(503, "not synced: pods", "try again", id="503"),
    ],
)
async def test_a_refusal_says_what_to_do(run, url, scheduler, code, problem, advice):
    scheduler.switches.failures["/api/v1"] = code

    with pytest.raises(CommandError) as error:
        await run("policies", "--server", url)

    assert problem in str(error.value)
    assert "cannot get /api/v1" not in str(error.value)
    assert advice in error.value.advice


async def test_a_plan_that_is_forbidden_names_the_verb(run, url, scheduler):
    scheduler.switches.failures["/api/v1/plan"] = 403

    with pytest.raises(CommandError) as error:
        await run("plan", "--drain", "node-0002", "--server", url)
    assert 'verbs: ["post"]' in error.value.advice
    assert "bind the ClusterRole preemptive-scheduler-viewer" in error.value.advice


async def test_another_server_is_noticed(run, url, scheduler):
    with pytest.raises(CommandError, match="the server does not know") as error:
        await run("policies", "--server", f"{url}/elsewhere")
    assert "older than the plugin" in error.value.advice


async def test_a_server_that_is_gone_is_said(run):
    with pytest.raises(CommandError, match="cannot be reached") as error:
        await run("policies", "--server", "http://127.0.0.1:1")
    assert "at that address" in error.value.advice


async def test_a_recording_that_is_refused_leaves_no_file(run, url, scheduler, tmp_path):
    scheduler.switches.failures["/api/v1/recording"] = 503

    with pytest.raises(CommandError, match="not synced"):
        await run("record", "-o", str(tmp_path / "x.rec"), "--server", url)
    assert [each.name for each in tmp_path.iterdir()] == []


async def test_a_pod_that_is_not_known_is_said(run, url):
    with pytest.raises(CommandError, match="prod/web") as error:
        await run("why", "web", "-n", "prod", "--server", url)
    assert "kubectl get pod web -n prod" in error.value.advice


@pytest.mark.parametrize(
    ("argv", "asked"),
    [
        (["web"], "/api/v1/pods/default/web"),
        (["pod/web", "-n", "prod"], "/api/v1/pods/prod/web"),
        (["prod/web"], "/api/v1/pods/prod/web"),
        (["Deploy/web"], "/api/v1/find?namespace=default&owner=deploy%2Fweb"),
        (["-l", "app=web"], "/api/v1/find?namespace=default&labelSelector=app%3Dweb"),
        (
            ["11111111-1111-4111-8111-111111111111"],
            "/api/v1/find?uid=11111111-1111-4111-8111-111111111111",
        ),
    ],
)
async def test_a_pod_is_named_in_the_ways_of_kubectl(run, url, scheduler, argv, asked):
    with pytest.raises(CommandError):
        await run("why", *argv, "--server", url)
    assert scheduler.requests[0] == f"GET {asked}"


@pytest.mark.parametrize("argv", [[], ["a/b/c"], ["deploy/"], ["web", "-l", "app=web"]])
async def test_an_argument_that_names_no_pod_is_refused(run, url, argv):
    with pytest.raises(CommandError, match=r"not a pod|name one pod"):
        await run("why", *argv, "--server", url)


@pytest.mark.parametrize(
    ("name", "message", "is_refusal"),
    [
        ("new", 'namespaces "new" not found', False),
        ("new", 'pods "w" is forbidden: no PriorityClass with name new was found', False),
        ("new", 'namespaces "other" not found', True),
        ("restricted", 'pods "w" is forbidden: violates PodSecurity "restricted:latest"', True),
        ("pods", 'pods "w" is forbidden: exceeded quota: q, requested: pods=1', True),
    ],
)
def test_only_what_the_files_create_may_be_missing(name, message, is_refusal):
    check = server_check._Check(
        None, "default", [{"kind": "Namespace", "metadata": {"name": name}}]
    )

    assert bool(check._refusal(Forbidden(403, "Forbidden", message))) is is_refusal
    assert bool(check.warnings()) is not is_refusal
