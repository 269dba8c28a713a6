"""Specs as large and unusual as the API server accepts get a decision, and so do other pods."""

import pytest

from scheduler.model.decisions import Placed, Unschedulable
from scheduler.model.events import EffectDone, NodeObserved, PodObserved
from tests.perf import core_cases
from tests.perf.core_cases import HOSTNAME, PREFERRED, REQUIRED

REPEATED = "a-" * 300_000


def decided(machine, name, **spec):
    """Return what becomes of a pod, carried out."""
    machine.observe(PodObserved(core_cases.pod(name, "100m", **spec)), 0.0)
    attempt = machine.step(0.0)
    for effect in attempt.effects:
        machine.observe(EffectDone(effect), 0.0)
    return attempt.decision


def required(kind, *terms):
    chosen = {"nodeSelectorTerms": list(terms)} if kind == "nodeAffinity" else list(terms)
    return {"affinity": {kind: {REQUIRED: chosen}}}


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def apart(selector, key=HOSTNAME):
    return {"topologyKey": key, "labelSelector": selector}


REJECTED = {
    "a key that a pattern could stumble over": required(
        "podAntiAffinity", apart(expression(f"{REPEATED}!", "Exists"))
    ),
    "a prefix that a pattern could stumble over": required(
        "nodeAffinity", *[expression(f"{'a.' * 120}!/x", "Exists")] * 500
    ),
    "a value that a pattern could stumble over": required(
        "nodeAffinity", expression(HOSTNAME, "In", f"{REPEATED}!")
    ),
    "a number with a million digits": required(
        "nodeAffinity", expression(HOSTNAME, "Gt", "9" * 1_000_000)
    ),
    "labels that are no ASCII": required(
        "podAntiAffinity",
        *[apart({"matchLabels": {f"ключ{n}": "\U0001f600\x00"}}, f"ключ{n}") for n in range(500)],
    ),
    "a spread over keys that no node has": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                **apart({"matchLabels": {"app": "a"}}, f"key-{n}"),
            }
            for n in range(2_000)
        ]
    },
}
PLACED = {
    "names of nodes": required(
        "nodeAffinity",
        *[
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"node-{n}"]}]}
            for n in reversed(range(5_000))
        ],
    ),
    "anti-affinity by keys that no node has": required(
        "podAntiAffinity", *[apart({"matchLabels": {"app": "a"}}, f"key-{n}") for n in range(5_000)]
    ),
    "preferences for numbers": {
        "affinity": {
            "nodeAffinity": {
                PREFERRED: [
                    {"weight": 1 + n % 100, "preference": expression("number", operator, str(n))}
                    for n in range(2_000)
                    for operator in ("Gt", "Lt")
                ]
            }
        }
    },
    "tolerations": {"tolerations": [{"key": f"key-{n}", "value": "v"} for n in range(5_000)]},
}


@pytest.fixture
def machine():
    made = core_cases.machine(0)
    for index in range(50):
        made.observe(NodeObserved(core_cases.node(index)), 0.0)
    return made


@pytest.mark.parametrize("spec", REJECTED.values(), ids=REJECTED)
def test_impossible_specs_are_rejected_and_other_pods_are_placed(spec, machine):
    assert isinstance(decided(machine, "odd", **spec), Unschedulable)
    assert isinstance(decided(machine, "plain"), Placed)


@pytest.mark.parametrize("spec", PLACED.values(), ids=PLACED)
def test_possible_specs_are_placed_and_so_are_other_pods(spec, machine):
    assert isinstance(decided(machine, "large", **spec), Placed)
    assert isinstance(decided(machine, "plain"), Placed)
