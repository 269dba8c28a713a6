"""The oracle of preemption that frees devices: its answers are right, and it finds wrong ones."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.oracle import product
from tests.oracle.check import first_disagreement
from tests.oracle.defects import comparable
from tests.oracle.freeing import generate, rules
from tests.oracle.freeing.by_hand import CASES, candidates_of, objects_of
from tests.oracle.generating.dice import Object
from tests.oracle.upstream import REFERENCES, Upstream
from tests.support.seeds import first_seed, share

pytestmark = [
    pytest.mark.cluster, pytest.mark.fidelity, pytest.mark.seeded, pytest.mark.timeout(600)
]  # fmt: skip

PER_FAMILY: Final = share(30)


@pytest.fixture(scope="module", params=REFERENCES)
def upstream(request: pytest.FixtureRequest) -> Iterator[Upstream]:
    with Upstream(request.param) as running:
        yield running


def differences(upstream: Upstream) -> dict[str, list[str]]:
    """Return how the oracle differs from what was worked out by hand, by case."""
    found = {}
    for name in CASES:
        told = rules.expected(objects_of(name), upstream)
        if lines := rules.compare(candidates_of(name), told):
            found[name] = lines
    return found


def test_candidates_and_victims_are_those_worked_out_by_hand(upstream: Upstream):
    assert differences(upstream) == {}


def test_a_node_is_marked_where_more_evictions_help_less(upstream: Upstream):
    """`All` is an error where a constraint refuses a device, and a plain no where it is in use."""
    (name,) = (each for each in CASES if "fails without all" in each)

    assert rules.expected(objects_of(name), upstream).irregular == {"n1"}


def any_consumer(status: Object, removed: set[str]) -> bool:
    return any(each["uid"] in removed for each in status.get("reservedFor", []))


def also_left_over(status: Object, removed: set[str]) -> bool:
    return all(each["uid"] in removed for each in status.get("reservedFor", []))


def every_kind(status: Object, removed: set[str]) -> bool:
    return bool(status.get("reservedFor")) and also_left_over(status, removed)


def only_pods(status: Object, removed: set[str]) -> bool:
    pods = [each for each in status.get("reservedFor", []) if each["resource"] == "pods"]
    return bool(pods) and also_left_over({"reservedFor": pods}, removed)


def everybody(self: rules.Fits) -> frozenset[str] | None:
    return frozenset(self.lower) if self.lower and self(self.lower) else None


def least_first(self: rules._Cluster, pods: list[Object], ranked=rules._Cluster._ranked) -> Any:
    return ranked(self, pods)[::-1]


def equal_too(pod: Object) -> int:
    return int(pod["spec"].get("priority", 0)) - ("nodeName" in pod["spec"])


def only_devices(self: rules.Fits, *, frees: bool) -> bool:
    return frees and self.statuses[frozenset()]["plugin"] == "DynamicResources"


#: What an implementation may do wrong, as a change of the rules here.
WRONG: Final[dict[str, tuple[object, str, object]]] = {
    "a claim is freed with any of its pods": (rules, "_falls", any_consumer),
    "a consumer that is no pod counts as a pod": (rules, "_falls", every_kind),
    "a consumer that is no pod does not count": (rules, "_falls", only_pods),
    "a claim that nobody reserves is freed": (rules, "_falls", also_left_over),
    "the preemptor's own claims are freed": (rules, "_claims_of", lambda pod: set()),
    "nothing is freed": (rules._Cluster, "freed", lambda self, removed: []),
    "pods of the same priority are evicted": (rules, "_priority", equal_too),
    "no pod is reprieved": (rules.Fits, "victims", everybody),
    "the least important pod is reprieved first": (rules._Cluster, "_ranked", least_first),
    "budgets do not protect": (rules, "_protects", lambda budget, pod: False),
    "only nodes that lack devices alone are candidates": (
        rules.Fits, "is_resolvable", only_devices,
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_candidates_are_found(
    wrong: str, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(*WRONG[wrong])
    # The rules themselves would notice that somebody is evicted for nothing.
    monkeypatch.setattr(rules.Fits, "is_minimal", lambda self, victims: True)

    assert differences(upstream)


def altered(found: rules.Candidates) -> Iterator[rules.Candidates]:
    """Yield candidates with one thing wrong."""
    for node, victims in found.items():
        yield {**found, node: frozenset({"default/other"}) | (victims or frozenset())}
        yield {**found, node: frozenset() if victims is None else None}
        for victim in victims or ():
            yield {**found, node: frozenset(victims or ()) - {victim}}


@pytest.mark.parametrize("name", CASES)
def test_everything_is_compared(name: str):
    right = candidates_of(name)
    told = rules.Expected(right, irregular=frozenset())

    assert rules.compare(right, told) == []
    for wrong in altered(right):
        assert rules.compare(wrong, told)


@pytest.mark.parametrize("family", generate.FAMILIES)
def test_devices_are_freed_by_the_rules(family: str, upstream: Upstream):
    seeds = range(first_seed(), first_seed() + PER_FAMILY)
    if text := first_disagreement(family, generate.cluster, seeds, upstream):
        pytest.fail(text, pytrace=False)


def test_a_preemption_that_frees_nothing_is_that_of_today(upstream: Upstream):
    """Random clusters without the option; with it, evictions help on more nodes."""
    more = 0
    for family in generate.FAMILIES:
        for seed in range(PER_FAMILY):
            made = comparable(generate.cluster(family, seed), upstream.reference)
            today = rules.expected(made.objects, upstream, frees=False)

            found = product.candidates(replace(made, config=None), upstream.reference)

            assert rules.compare(found, today) == [], made.name
            frees = rules.expected(made.objects, upstream)
            more += len(rules.compare(frees.candidates, today)) > 0
    assert more > PER_FAMILY
