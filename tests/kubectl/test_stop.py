"""`stop` and `resume`: what they write, what they wait for, and what they say."""

from typing import Any

import pytest

from scheduler.kubectl.errors import CommandError
from tests.kubectl.test_commands import check
from tests.kubectl.test_transport import api, config  # noqa: F401 - fixtures
from tests.support.api_server_stand_in import ApiServerStandIn

STOP = "emergency-stop"
SINCE = "2026-05-04T10:00:00Z"
RULES = {"victimMinRuntime": "10m"}


def stopped(generation: int, status: str = "True") -> dict[str, Any]:
    """Return the status of a stop."""
    said = {
        "type": "Stopped",
        "status": status,
        "observedGeneration": generation,
        "lastTransitionTime": SINCE,
    }
    return {"observedGeneration": generation, "conditions": [said]}


def policy(spec: dict[str, Any], name: str = STOP, **metadata: Any) -> dict[str, Any]:
    facts = {"name": name, "uid": "u", "generation": 4, "resourceVersion": "7", **metadata}
    return {"metadata": facts, "spec": spec}


@pytest.fixture
def policies(api: ApiServerStandIn) -> dict[str, dict[str, Any]]:  # noqa: F811
    """The policies of a cluster whose scheduler confirms a stop at once."""
    assert api.policies is not None
    api.confirm = stopped
    return api.policies


async def test_a_stop_is_written_and_confirmed(run, policies, config):  # noqa: F811
    printed = await run("stop", "--reason", "incident 4711", KUBECONFIG=config)

    assert printed.code == 0
    check("stop", printed.text)
    assert policies[STOP]["spec"] == {"stop": True, "stopReason": "incident 4711"}


async def test_a_stop_that_ends_is_said(run, policies, config):  # noqa: F811
    policies[STOP] = policy({"stop": True, "mode": "Enforce", "foreignVictims": "Always"})

    printed = await run("resume", KUBECONFIG=config)

    assert printed.code == 0
    check("resume", printed.text)
    assert policies == {}


async def test_without_a_stop_there_is_nothing_to_resume(
    run, policies, config  # noqa: F811
):  # fmt: skip
    policies["other"] = policy(RULES, "other")

    printed = await run("resume", KUBECONFIG=config)

    assert printed == (0, "Preemption is not stopped.\n")
    assert policies == {"other": policy(RULES, "other")}


async def test_rules_of_a_policy_of_that_name_survive_stop_and_resume(
    run, policies, config  # noqa: F811
):  # fmt: skip
    policies[STOP] = policy(RULES)

    await run("stop", "--reason", "x", KUBECONFIG=config)
    assert policies[STOP]["spec"] == {**RULES, "stop": True, "stopReason": "x"}
    printed = await run("resume", KUBECONFIG=config)

    assert policies[STOP]["spec"] == RULES
    assert "stops it no longer" in printed.text


async def test_a_policy_that_another_one_protects_from_deletion_stops_no_longer(
    run, policies, config  # noqa: F811
):  # fmt: skip
    policies[STOP] = policy({"stop": True}, finalizers=["example.com/hold"])

    await run("resume", KUBECONFIG=config)

    assert policies[STOP]["spec"] == {}


async def test_a_second_stop_keeps_the_reason(run, policies, config):  # noqa: F811
    await run("stop", "--reason", "x", KUBECONFIG=config)

    printed = await run("stop", KUBECONFIG=config)

    assert "  reason     x\n" in printed.text


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(lambda _: {}, id="no scheduler runs"),
        pytest.param(lambda generation: stopped(generation - 1), id="of an earlier generation"),
        pytest.param(lambda generation: stopped(generation, "False"), id="evictions go on"),
    ],
)
async def test_a_stop_that_nobody_confirms_is_an_error_with_the_next_step(
    run, api, policies, config, status  # noqa: F811
):  # fmt: skip
    api.confirm = status

    with pytest.raises(CommandError) as error:
        await run("stop", "--timeout", "0.5", "--scheduler-namespace", "ours", KUBECONFIG=config)

    assert str(error.value) == (
        "no scheduler has confirmed within 0.5 s that preemption is stopped"
    )
    assert "kubectl get lease,pods -n ours" in error.value.advice
    assert policies[STOP]["spec"] == {"stop": True}


@pytest.mark.parametrize("command", ["stop", "resume"])
async def test_a_missing_right_is_named(
    run, api, config, command  # noqa: F811
):  # fmt: skip
    api.refused["preemptionpolicies"] = 403

    with pytest.raises(CommandError, match="is forbidden") as error:
        await run(command, KUBECONFIG=config)

    assert "resources: [preemptionpolicies]" in error.value.advice
    assert "preemptive-scheduler-policies-edit" in error.value.advice


async def test_a_missing_definition_is_said(
    run, api, config  # noqa: F811
):  # fmt: skip
    api.policies = None

    with pytest.raises(CommandError, match="does not know PreemptionPolicies") as error:
        await run("stop", KUBECONFIG=config)

    assert "crds/preemption-policies.yaml" in error.value.advice


async def test_without_the_definition_there_is_nothing_to_resume(
    run, api, config  # noqa: F811
):  # fmt: skip
    api.policies = None

    assert await run("resume", KUBECONFIG=config) == (0, "Preemption is not stopped.\n")


@pytest.mark.parametrize("command", ["stop", "resume"])
async def test_an_address_of_a_scheduler_is_no_way_to_write(run, url, command):
    with pytest.raises(CommandError, match="asks the API server of the kubeconfig"):
        await run(command, "--server", url)


async def test_a_stop_by_another_policy_is_said(run, policies, config):  # noqa: F811
    policies[STOP] = policy({"stop": True})
    policies["by-hand"] = policy({"stop": True}, "by-hand")

    with pytest.raises(CommandError, match="still stopped, by PreemptionPolicy by-hand"):
        await run("resume", KUBECONFIG=config)

    assert set(policies) == {"by-hand"}
