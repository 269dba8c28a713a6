"""What classes are taken to need is what they need, for many kinds of pods."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import pytest

from scheduler.core.machine import Machine
from scheduler.model.events import EffectDone, PodGone, PodObserved
from tests.perf import core_cases
from tests.perf.core_cases import HOSTNAME, REQUIRED, ZONE

#: How far off the estimate may be, either way.
FACTOR: Final = 3
WARM, COUNT = 20, 40


def _by_node_terms(serial: int) -> dict[str, Any]:
    keys = [f"key-{serial}-{each}" for each in range(100)]
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in (*keys, ZONE)]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def _by_pod_terms(serial: int) -> dict[str, Any]:
    terms = [
        {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": f"x-{serial}-{each}"}}}
        for each in range(100)
    ]
    return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}


def _apart(_serial: int) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [core_cases._selecting(HOSTNAME)]}}}


def _spread(_serial: int) -> dict[str, Any]:
    constraint = {"maxSkew": 5, "whenUnsatisfiable": "DoNotSchedule", **core_cases._selecting(ZONE)}
    return {"topologySpreadConstraints": [constraint]}


KINDS: Final[dict[str, tuple[str, Callable[[int], dict[str, Any]]]]] = {
    "plain": ("1m", lambda _: {}),
    "that fit nowhere": ("100", lambda _: {"preemptionPolicy": "Never"}),
    "that preempt": ("30", lambda _: {"priority": 10}),
    "with anti-affinity": ("1m", _apart),
    "with spread constraints": ("1m", _spread),
    "with many node terms": ("1m", _by_node_terms),
    "with many pod terms": ("1m", _by_pod_terms),
}


def _come_and_go(machine: Machine, serial: int, kind: str) -> None:
    """Let a pod come that is a class of its own, be decided, and go."""
    cpu, spec = KINDS[kind]
    made = core_cases.pod(f"pod-{serial}", cpu, **spec(serial))
    made.metadata.labels["index"] = str(serial)
    machine.observe(PodObserved(made), 0.0)
    attempt = machine.step(0.0)
    assert attempt is not None
    for effect in attempt.effects:
        machine.observe(EffectDone(effect), 0.0)
    machine.observe(PodGone(made.key, made.uid), 0.0)


@pytest.mark.parametrize("nodes", [10, 500])
@pytest.mark.parametrize("kind", KINDS)
def test_classes_need_about_the_estimated_memory(kind, nodes):
    machine = core_cases.machine(nodes)
    for each in range(nodes):
        low = core_cases.pod(f"low-{each}", "4", on=f"node-{each}")
        machine.observe(PodObserved(low), 0.0)
    for serial in range(WARM):
        _come_and_go(machine, serial, kind)
    classes = machine._attempts._classes
    before = classes.size_bytes
    gc.collect()
    tracemalloc.start()
    try:
        for serial in range(WARM, WARM + COUNT):
            _come_and_go(machine, serial, kind)
        gc.collect()
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert len(classes) == WARM + COUNT
    assert used / FACTOR <= classes.size_bytes - before <= used * FACTOR
