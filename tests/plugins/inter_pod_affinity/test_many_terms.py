"""A pod with each term many times is placed like a pod with each term once.

With many terms an index is used in place of each term. Scores are relative, so repeating all terms
equally often changes no decision.
"""

import msgspec
import numpy as np
import pytest

from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Placed, Unschedulable
from scheduler.model.events import EffectDone, NamespaceObserved, NodeObserved, PodObserved
from scheduler.state.pods.affinity_terms import MANY
from tests.perf import core_cases
from tests.support import builders

OFTEN = 16
TERMS = 3
KEYS = ("zone", "rack", core_cases.HOSTNAME, "nowhere")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def some_labels(rng):
    return {f"l{key}": f"v{rng.integers(4)}" for key in range(3) if rng.random() < 0.6}


def expressions(rng):
    found = []
    for _ in range(rng.integers(1, 3)):
        operator = str(rng.choice(["In", "NotIn", "Exists", "DoesNotExist"]))
        values = [f"v{v}" for v in rng.integers(0, 4, 2)] if operator in ("In", "NotIn") else []
        found.append({"key": f"l{rng.integers(3)}", "operator": operator, "values": values})
    return found


def pod_term(rng):
    term = {
        "topologyKey": str(rng.choice(KEYS)),
        "labelSelector": {"matchExpressions": expressions(rng)},
    }
    if rng.random() < 0.3:
        term["namespaceSelector"] = {"matchExpressions": expressions(rng)}
    elif rng.random() < 0.3:
        term["namespaces"] = [f"ns{number}" for number in rng.integers(0, 3, 2)]
    return term


def affinity(rng, often):
    """Return affinities of all kinds, with each term repeated."""
    required = {kind: [] for kind in ("podAffinity", "podAntiAffinity")}
    kind = str(rng.choice(list(required)))
    required[kind] = [pod_term(rng) for _ in range(rng.integers(0, TERMS))]
    found = {
        kind: {
            REQUIRED: terms * often,
            PREFERRED: [
                {"weight": int(rng.integers(1, 100)), "podAffinityTerm": pod_term(rng)}
                for _ in range(TERMS)
            ]
            * often,
        }
        for kind, terms in required.items()
    }
    nodes = [{"matchExpressions": expressions(rng)} for _ in range(TERMS)]
    weighted = [{"weight": int(rng.integers(1, 100)), "preference": each} for each in nodes]
    return {**found, "nodeAffinity": {PREFERRED: weighted * often}}


def decisions(seed, often):
    """Return what becomes of pods, one after the other, and what was decided."""
    rng = np.random.default_rng(seed)
    machine = core_cases.machine(0)
    for number in range(3):
        space = builders.namespace(f"ns{number}", **some_labels(rng))
        machine.observe(NamespaceObserved(space), 0.0)
    for number in range(12):
        node = builders.node(f"n{number}").cpu("8").memory("32Gi").pods(20)
        labels = {"zone": f"z{number % 3}", "rack": f"r{number % 5}", **some_labels(rng)}
        for key, value in {**labels, core_cases.HOSTNAME: f"n{number}"}.items():
            node = node.label(key, value)
        machine.observe(NodeObserved(node.build()), 0.0)
    found = []
    for number in range(25):
        spec = {"affinity": affinity(rng, often)} if rng.random() < 0.5 else {}
        body = msgspec.to_builtins(core_cases.pod(f"p{number}", "1"))
        body["metadata"] |= {"labels": some_labels(rng), "namespace": f"ns{rng.integers(4)}"}
        body["spec"] |= {**spec, "preemptionPolicy": "Never"}
        machine.observe(PodObserved(msgspec.convert(body, Pod)), 0.0)
        attempt = machine.step(0.0)
        for effect in attempt.effects:
            machine.observe(EffectDone(effect), 0.0)
        found.append(attempt.decision)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_terms_that_are_repeated_change_no_decision(seed):
    assert OFTEN >= MANY > TERMS

    assert decisions(seed, OFTEN) == decisions(seed, 1)


def test_both_fits_and_rejections_occur():
    found = {type(each) for seed in range(12) for each in decisions(seed, 1)}

    assert found == {Placed, Unschedulable}
