"""The golden scenarios: small clusters, and what is decided on them."""

import json
from typing import Any, Final

import pytest

from scheduler.config import load
from scheduler.model.decisions import Attempt, Failed, Gated, Placed, Preempting, Unschedulable
from scheduler.model.releases import V1_36, V1_37, Reference
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim.what_if_cluster import WhatIfCluster, WhatIfOptions
from tests.scenarios.loading import OTHERWISE, Scenario, config_of, files, scenarios_of
from tests.scenarios.notation import objects_of, qualified
from tests.support.typed import typed

RESULT_KEYS: Final = {
    "at", "evicts", "evicts_one_of", "evicts_count", "evicts_from", "violations", "stays", "says",
    "seen", "refused", "scores", "fails",
}  # fmt: skip
#: The keys of a result for which an attempt is explained.
EXPLAINED: Final = {"seen", "refused", "scores"}

SCENARIOS: Final = {
    name: scenario for path in files() for name, scenario in scenarios_of(path).items()
}


class Played:
    """A scenario that was planned."""

    def __init__(self, scenario: Scenario, reference: Reference) -> None:
        explain = any(EXPLAINED & set(_spelled(each)) for each in scenario["expect"].values())
        planner = WhatIfCluster(
            typed(objects_of(scenario)),
            registry.profiles(_settings(scenario, reference)),
            PodBackoff(),
            WhatIfOptions(explain=explain),
        )
        self.attempts = list(planner.attempts())
        if scenario.get("settle"):
            self.attempts += planner.settle()
        self.ends = planner.final()

    def first(self, pod: str) -> Attempt:
        """Return the first attempt of a pod."""
        return next(each for each in self.attempts if each.pod.key == pod)

    def order(self) -> list[str]:
        """Return the pods in the order of their first attempts, gated ones left out."""
        keys = [each.pod.key for each in self.attempts if not isinstance(each.decision, Gated)]
        return list(dict.fromkeys(keys))


def _settings(scenario: Scenario, reference: Reference) -> Any:
    config = config_of(scenario)
    if config is None:
        return load.defaults(server=reference)
    return load.parse(json.dumps(config), source=scenario["id"], server=reference)


def _spelled(result: Any) -> dict[str, Any]:
    """Return an expected result as a mapping: a node's name or a list of them means *placed on*."""
    return result if isinstance(result, dict) else {"at": result}


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_scenario_is_decided_as_it_says(name):
    scenario = SCENARIOS[name]

    holds(scenario)
    if OTHERWISE in scenario:
        holds({**scenario, "expect": scenario[OTHERWISE]}, V1_37)


def test_results_say_nothing_that_is_not_looked_at():
    for name, scenario in SCENARIOS.items():
        for result in (*scenario["expect"].values(), *scenario.get(OTHERWISE, {}).values()):
            assert not set(_spelled(result)) - RESULT_KEYS, name


def holds(scenario: Scenario, reference: Reference = V1_36) -> None:
    """Assert that a scenario is decided as it says."""
    played = Played(scenario, reference)
    expected = {qualified(pod): result for pod, result in scenario["expect"].items()}
    for pod, result in expected.items():
        _decided(_spelled(result), played.first(pod))
    wanted = [pod for pod, result in expected.items() if result != "gated"]
    assert [pod for pod in played.order() if pod in wanted] == wanted
    for pod in scenario.get("not_decided", []):
        assert qualified(pod) not in {each.pod.key for each in played.attempts}
    _in_the_end(scenario, played)


def _decided(want: dict[str, Any], attempt: Attempt) -> None:
    decision = attempt.decision
    if want.get("at") == "gated":
        assert isinstance(decision, Gated)
    elif "stays" in want:
        assert isinstance(decision, Unschedulable), decision
        _says(want["stays"], decision.message)
    elif "fails" in want:
        assert isinstance(decision, Failed), decision
        assert decision.message.startswith(want["fails"])
    elif any(key.startswith("evicts") for key in want):
        assert isinstance(decision, Preempting), decision
        _evicts(want, decision)
    elif "at" in want:
        assert isinstance(decision, Placed), decision
        assert decision.node in _several(want["at"])
    if "refused" in want:
        refused = {each.name: each.rejection for each in attempt.trace if each.rejection}
        assert refused == want["refused"]
    for plugin, scores in want.get("scores", {}).items():
        feasible = [each for each in attempt.trace if each.rejection is None]
        assert {each.name: each.scores.get(plugin, 0) for each in feasible} == scores
    for node, seen in want.get("seen", {}).items():
        _seen(seen, next(trace for trace in attempt.trace if trace.name == node))


def _several(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def _says(want: Any, message: str) -> None:
    """Compare a message: all of it, its beginning, or parts of it."""
    if isinstance(want, str):
        assert want in (message, "somehow")
        return
    assert message.startswith(want.get("starts", ""))
    for part in want.get("has", []):
        assert part in message


def _evicts(want: dict[str, Any], decision: Preempting) -> None:
    victims = {ref.key for ref in decision.victims}
    assert decision.node in _several(want["at"])
    if "evicts" in want:
        assert victims == {qualified(pod) for pod in want["evicts"]}
    if "evicts_one_of" in want:
        assert victims in [{qualified(pod) for pod in each} for each in want["evicts_one_of"]]
    assert len(victims) == want.get("evicts_count", len(victims))
    assert victims <= {qualified(pod) for pod in want.get("evicts_from", victims)}
    assert decision.violations == want.get("violations", decision.violations)
    assert decision.message == want.get("says", decision.message)


def _seen(want: dict[str, Any], trace: Any) -> None:
    """Compare what was found on one node: `filter`, `total`, and scores by plugin."""
    scores = {**dict.fromkeys(want, 0), **trace.scores}
    found = {**scores, "filter": trace.rejection, "total": trace.total}
    assert {key: found[key] for key in want} == want


def _in_the_end(scenario: Scenario, played: Played) -> None:
    for pod, node in scenario.get("ends", {}).items():
        assert played.ends[qualified(pod)] == node
    decisions = [each.decision for each in played.attempts]
    if "evicted" in scenario:
        gone = {
            ref.key for each in decisions if isinstance(each, Preempting) for ref in each.victims
        }
        assert gone == {qualified(pod) for pod in scenario["evicted"]}
    placed = {
        each.pod.key: each.decision.node
        for each in played.attempts
        if isinstance(each.decision, Placed)
    }
    for node, count in scenario.get("per_node", {}).items():
        assert list(placed.values()).count(node) == count
    apart = [placed[qualified(pod)] for pod in scenario.get("apart", [])]
    assert len(set(apart)) == len(apart)
