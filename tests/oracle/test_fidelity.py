"""A few hundred random clusters, others each day, every cluster that was once a disagreement,
and the scenarios.

A failure names the cluster; `python -m tests.oracle --show NAME` prints it. FIDELITY_SEED=N has
the clusters of another day.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import cases, generate, product
from tests.oracle.check import check, first_disagreement
from tests.oracle.compare import compare
from tests.oracle.upstream import REFERENCES, Upstream
from tests.oracle.verdicts import Answer, Attempt
from tests.scenarios.loading import config_of, files, scenarios_of
from tests.scenarios.notation import objects_of
from tests.support.seeds import first_seed, share

pytestmark = [
    pytest.mark.cluster, pytest.mark.fidelity, pytest.mark.seeded, pytest.mark.timeout(600)
]  # fmt: skip

PER_FAMILY = share(60)


@pytest.fixture(scope="module", params=REFERENCES)
def upstream(request: pytest.FixtureRequest) -> Iterator[Upstream]:
    with Upstream(request.param) as running:
        yield running


@pytest.mark.parametrize("family", sorted(generate.FAMILIES))
def test_decides_as_kube_scheduler_does(family: str, upstream: Upstream) -> None:
    seeds = range(first_seed(), first_seed() + PER_FAMILY)
    if text := first_disagreement(family, generate.cluster, seeds, upstream):
        pytest.fail(text, pytrace=False)


@pytest.mark.parametrize("path", sorted(cases.FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_disagreement_of_old_stays_settled(path: Path, upstream: Upstream) -> None:
    found = check(cases.read(path), upstream)

    assert found is None, "\n".join(found.lines if found else ())


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_scenarios_are_decided_as_by_kube_scheduler(path: Path, upstream: Upstream) -> None:
    for name, scenario in scenarios_of(path).items():
        config, settle = config_of(scenario), scenario.get("settle", False)

        found = check(generate.Cluster(name, objects_of(scenario), config, settle), upstream)

        assert found is None, f"{name}\n" + "\n".join(found.lines if found else ())


def altered(answer: Answer) -> Iterator[Answer]:
    """Yield the answer with one thing wrong."""
    for place, attempt in enumerate(answer.attempts):
        for wrong in alterations(attempt):
            attempts = list(answer.attempts)
            attempts[place] = wrong
            yield replace(answer, attempts=tuple(attempts))
    yield replace(answer, attempts=answer.attempts[:-1])


def alterations(attempt: Attempt) -> Iterator[Attempt]:
    yield replace(attempt, decision="Unheard of")
    yield replace(attempt, node="elsewhere")
    if attempt.decision != "Gated":
        yield replace(attempt, message=f"{attempt.message}!")
    if attempt.decision == "Preempting":
        yield replace(attempt, rejectors=())
        yield replace(attempt, victims=attempt.victims[1:])
        yield replace(attempt, violations=attempt.violations + 1)
    for key, claim in attempt.claims.items():
        yield replace(attempt, claims={**attempt.claims, key: altered_claim(claim)})
    for name, found in attempt.nodes.items():
        yield replace(attempt, nodes={**attempt.nodes, name: replace(found, rejection="No: no")})
        for plugin, score in found.scores.items():
            scores = {**found.scores, plugin: score + 1}
            yield replace(attempt, nodes={**attempt.nodes, name: replace(found, scores=scores)})


def altered_claim(claim: dict[str, Any]) -> dict[str, Any]:
    """Return a claim with another device, or with one where it has none."""
    if not claim.get("allocation", {}).get("devices", {}).get("results"):
        return {**claim, "allocation": {"devices": {"results": [{"device": "another"}]}}}
    wrong = copy.deepcopy(claim)
    wrong["allocation"]["devices"]["results"][-1]["device"] = "another"
    return wrong


def test_everything_is_compared(upstream: Upstream) -> None:
    clusters = (generate.cluster("budgets", seed) for seed in range(100))
    answers = ((cluster, product.decide(cluster, upstream.reference)) for cluster in clusters)
    cluster, ours = next(
        each
        for each in answers
        if {"Scheduled", "Preempting"} <= {attempt.decision for attempt in each[1].attempts}
    )
    theirs = upstream.decide(cluster, ours)
    assert not compare(ours, theirs)

    for wrong in altered(ours):
        assert compare(wrong, theirs)


@pytest.mark.parametrize("family", ["dra-claims", "dra-capacity", "dra-extended"])
def test_all_devices_are_compared(family: str, upstream: Upstream) -> None:
    clusters = (generate.cluster(family, seed) for seed in range(100))
    answers = ((cluster, product.decide(cluster, upstream.reference)) for cluster in clusters)
    cluster, ours = next(
        each
        for each in answers
        if not each[0].settle
        and any(
            attempt.decision == "Scheduled" and any(attempt.claims.values())
            for attempt in each[1].attempts
        )
    )
    theirs = upstream.decide(cluster, ours)
    assert not compare(ours, theirs)

    for wrong in altered(ours):
        assert compare(wrong, theirs)
