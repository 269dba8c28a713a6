"""`policies history` and `policies undo`: what they print, and what they do not trust."""

from typing import Any

import pytest
import yaml

from scheduler.config import policies as reader
from scheduler.kubectl.errors import CommandError
from tests.kubectl.test_commands import check
from tests.kubectl.test_transport import api, config  # noqa: F401 - fixtures
from tests.support.api_server_stand_in import ApiServerStandIn

TEAM = {"preemptors": {"namespaceSelector": {"matchLabels": {"team": "a"}}}}
THREE = {**TEAM, "budgets": [{"maxVictims": 10, "window": "1h", "scope": "Cluster"}]}
FIVE = {**TEAM, "budgets": [{"maxVictims": 20, "window": "1h", "scope": "Cluster"}]}
SIX = {**FIVE, "victimMinRuntime": "10m", "mode": "Audit"}
TIMES = {3: "2026-05-01T10:00:00Z", 5: "2026-05-03T09:00:00Z", 6: "2026-05-04T09:58:00Z"}


def kept(**specs: Any) -> list[dict[str, Any]]:
    """Return generations, newest first; names are `g` and the number."""
    numbers = sorted(((int(name[1:]), spec) for name, spec in specs.items()), reverse=True)
    return [{"generation": n, "time": TIMES[n], "spec": spec} for n, spec in numbers]


@pytest.fixture
def team(api: ApiServerStandIn) -> dict[str, Any]:  # noqa: F811
    """A policy whose sixth generation is in force; the fourth one was refused."""
    metadata = {
        "name": "team-a",
        "generation": 6,
        "labels": {"owner": "platform"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "note": "two\nlines",
        },
    }
    policy: dict[str, Any] = {"metadata": metadata, "spec": SIX}
    policy["status"] = {"history": kept(g3=THREE, g5=FIVE, g6=SIX)}
    api.confirm = lambda _: policy["status"]
    api.policies = {"team-a": policy}
    return policy


async def test_the_accepted_generations_are_listed_with_what_changed(
    run, team, config  # noqa: F811
):  # fmt: skip
    printed = await run("policies", "history", "team-a", KUBECONFIG=config)

    assert printed.code == 0
    check("policies-history", printed.text)


async def test_undo_prints_the_generation_before_and_changes_nothing(
    run, team, api, config  # noqa: F811
):  # fmt: skip
    printed = await run("policies", "undo", "team-a", KUBECONFIG=config)

    check("policies-undo", printed.text)
    assert yaml.safe_load(printed.text) == {
        "apiVersion": reader.API_VERSION,
        "kind": reader.KIND,
        "metadata": {
            "name": "team-a",
            "labels": {"owner": "platform"},
            "annotations": {"note": "two\nlines"},
        },
        "spec": FIVE,
    }
    assert team["spec"] == SIX


@pytest.mark.parametrize(
    ("generation", "spec", "kept", "wanted"),
    [
        pytest.param(7, {"maxVictims": 1}, kept(g3=THREE, g5=FIVE, g6=SIX), SIX, id="refused"),
        pytest.param(6, SIX, kept(g3=THREE, g6=SIX), THREE, id="refused ones between two"),
        pytest.param(6, THREE, kept(g3=THREE, g5=FIVE, g6=THREE), FIVE, id="undone before"),
        pytest.param(5, FIVE, kept(g3=THREE, g5=FIVE, g6=SIX), THREE, id="from the future"),
    ],
)
async def test_the_generation_before_is_the_last_accepted_one_that_differs(
    run, team, config, generation, spec, kept, wanted  # noqa: F811
):  # fmt: skip
    team["metadata"]["generation"] = generation
    team["spec"], team["status"] = spec, {"history": kept}

    printed = await run("policies", "undo", "team-a", "-o", "yaml", KUBECONFIG=config)

    assert "#" not in printed.text
    assert yaml.safe_load(printed.text)["spec"] == wanted


async def test_a_refused_generation_is_said_first(run, team, config):  # noqa: F811
    team["metadata"]["generation"] = 7
    team["status"]["conditions"] = [
        {
            "type": "Accepted",
            "status": "False",
            "observedGeneration": 7,
            "message": "generation 6 is in force: spec.x: unknown field\x1b[2J",
        }
    ]

    printed = await run("policies", "history", "team-a", KUBECONFIG=config)

    first, second, *_ = printed.text.splitlines()
    assert first == "Generation 7 of PreemptionPolicy team-a is not accepted:"
    assert second == "  generation 6 is in force: spec.x: unknown field\\x1b[2J"


@pytest.mark.parametrize(
    ("argv", "status", "problem"),
    [
        pytest.param(["undo", "team-a"], {}, "no generation .* before 6 is kept", id="none"),
        pytest.param(["undo", "team-a"], {"history": kept(g6=SIX)}, "before 6 is kept", id="one"),
        pytest.param(
            ["undo", "team-a"],
            {"history": kept(g5={"maxVictims": "\x1b[2J"}, g6=SIX)},
            r"generation 5 is no valid policy: spec.maxVictims: unknown field",
            id="written by a stranger",
        ),
        pytest.param(["undo", "other"], {}, 'there is no PreemptionPolicy "other"', id="missing"),
        pytest.param(["undo", "../pods"], {}, "not the name of a policy", id="no name"),
        pytest.param(["history"], {}, "the name of the policy is missing", id="nothing"),
    ],
)
async def test_problems_are_errors_with_the_next_step(
    run, team, config, argv, status, problem  # noqa: F811
):  # fmt: skip
    team["status"] = status

    with pytest.raises(CommandError, match=problem) as error:
        await run("policies", *argv, KUBECONFIG=config)
    assert error.value.advice
    assert "\x1b" not in str(error.value)


async def test_the_generations_are_a_document(run, team, config):  # noqa: F811
    printed = await run("policies", "history", "team-a", "-o", "yaml", KUBECONFIG=config)

    assert yaml.safe_load(printed.text) == {
        "name": "team-a",
        "items": kept(g3=THREE, g5=FIVE, g6=SIX),
    }


async def test_a_policy_with_a_thousand_changes_shows_a_few(run, team, config):  # noqa: F811
    values = [f"v{number}" for number in range(900)]
    large = {"victims": {"podSelector": {"matchExpressions": [
        {"key": "a", "operator": "In", "values": values}]}}}  # fmt: skip
    team["spec"], team["status"] = large, {"history": kept(g5=FIVE, g6=large)}

    printed = await run("policies", "history", "team-a", KUBECONFIG=config)

    assert len(printed.text.splitlines()) < 15
    assert "more" in printed.text
