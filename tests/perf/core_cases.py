"""What the core is measured on, without an API server: cases, and a loop to compare them with.

A figure of a case is CPU time per decision as a multiple of the CPU time of one round of a fixed
loop, timed right before and after it in the same process: absolute times say more about the
machine and what else it does. The smallest of several rounds counts. It still depends on the
machine's caches, so only the benchmark looks at it; tests count calls, which are always the same.
"""

import cProfile
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.config import load
from scheduler.config.settings import Settings
from scheduler.core.machine import Machine
from scheduler.model.api.objects import Node, Pod, PodDisruptionBudget, Taint
from scheduler.model.decisions import Placed, Preempting, Unschedulable
from scheduler.model.events import BudgetObserved, EffectDone, NodeGone, NodeObserved, PodObserved
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff

ROUNDS: Final = 5
ZONES: Final = 10
STARTED: Final = "2026-01-01T00:00:00Z"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
#: Terms that fit into 1.5 MiB, which is what the API server takes for an object.
MANY_TERMS: Final = 10_000
#: Resource names that fit into as much.
MANY_NAMES: Final = 25_000
#: The same of sidecars with a resource name each, network disks, labels in one selector, and terms
#: that are as short as can be.
MANY_SIDECARS: Final = 15_000
MANY_DISKS: Final = 24_000
MANY_LABELS: Final = 90_000
MANY_SHORT_TERMS: Final = 22_000
#: Disruption budgets of one namespace.
BUDGETS: Final = 100
#: Taints and nodes that came and went.
CHURN: Final = 10_000


class Figure(NamedTuple):
    """What a decision costs."""

    #: Rounds of the loop of comparison.
    turns: float
    #: CPU seconds.
    seconds: float


class Case(NamedTuple):
    """What is timed."""

    #: Returns what decides for so many pods when it is called; it is made once.
    make: Callable[[], Callable[[int], None]]
    #: Decisions in a round.
    decisions: int


def comparison() -> float:
    """Return CPU seconds of a round of a fixed mix of Python and numpy work."""
    numbers = np.arange(2000)
    known: dict[int, str] = {}
    begun = time.process_time()
    for turn in range(1000):
        known[turn & 255] = str(turn)
        total = sum(len(known.get(each, "")) for each in range(turn & 31))
        assert int(numbers[(numbers >= turn).nonzero()[0][0]]) >= total - 1000
    return (time.process_time() - begun) / 1000


def figure(case: Case) -> Figure:
    """Time a case."""
    decide = case.make()
    decide(case.decisions)
    rounds = []
    for _ in range(ROUNDS):
        before = comparison()
        begun = time.process_time()
        decide(case.decisions)
        seconds = (time.process_time() - begun) / case.decisions
        rounds.append(Figure(seconds / ((before + comparison()) / 2), seconds))
    return min(rounds)


def calls(case: Case) -> float:
    """Return how many functions a decision calls, in Python and in C, on the thread of the loop."""
    decide = case.make()
    decide(case.decisions)
    profile = cProfile.Profile()
    profile.runcall(decide, case.decisions)
    return sum(entry.callcount for entry in profile.getstats()) / case.decisions


def node(index: int) -> Node:
    """Return a node in one of ten zones."""
    labels = {HOSTNAME: f"node-{index}", ZONE: f"zone-{index % ZONES}"}
    metadata = {"name": f"node-{index}", "labels": labels}
    status = {"allocatable": {"cpu": "32", "memory": "64Gi", "pods": "110"}}
    return msgspec.convert({"metadata": metadata, "status": status}, Node)


def pod(name: str, cpu: str, *, priority: int = 0, on: str = "", **spec: object) -> Pod:
    """Return a pod of an application; on a node it runs."""
    requests = {"cpu": cpu, "memory": "128Mi"}
    container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "a"}}
    placed = {"nodeName": on, "schedulerName": "preemptive-scheduler", "priority": priority}
    status = {"phase": "Running", "startTime": STARTED} if on else {"phase": "Pending"}
    body = {
        "metadata": metadata,
        "spec": {**placed, "containers": [container], **spec},
        "status": status,
    }
    return msgspec.convert(body, Pod)


def machine(nodes: int, settings: Settings | None = None) -> Machine:
    """Return a machine that knows so many nodes, by default with the default configuration."""
    made = Machine(registry.profiles(settings or load.defaults()), PodBackoff())
    for index in range(nodes):
        made.observe(NodeObserved(node(index)), 0.0)
    return made


def _selecting(key: str) -> dict[str, object]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "a"}}}


def _place(made: Machine, each: Pod) -> None:
    """Place a pod; its binding is answered at once."""
    made.observe(PodObserved(each), 0.0)
    attempt = made.step(0.0)
    assert attempt is not None
    assert isinstance(attempt.decision, Placed)
    for effect in attempt.effects:
        made.observe(EffectDone(effect), 0.0)


def _placing(nodes: int, **spec: object) -> Callable[[int], None]:
    """Return what places pods; their bindings are answered at once."""
    made = machine(nodes)
    serial = itertools.count()

    def decide(count: int) -> None:
        for _ in range(count):
            _place(made, pod(f"pod-{next(serial)}", "100m", **spec))

    return decide


def _refusing(nodes: int) -> Callable[[int], None]:
    """Return what finds no node, for pods that must not preempt."""
    made = machine(nodes)
    serial = itertools.count()

    def decide(count: int) -> None:
        for _ in range(count):
            huge = pod(f"pod-{next(serial)}", "100", preemptionPolicy="Never")
            made.observe(PodObserved(huge), 0.0)
            attempt = made.step(0.0)
            assert attempt is not None
            assert isinstance(attempt.decision, Unschedulable)

    return decide


def _preempting(nodes: int, per_node: int) -> Callable[[int], None]:
    """Return what preempts on full nodes; the outcomes of its effects are observed."""
    made = machine(nodes)
    cpu = f"{31_000 // per_node}m"
    for index, place in itertools.product(range(nodes), range(per_node)):
        low = pod(f"low-{index}-{place}", cpu, on=f"node-{index}")
        made.observe(PodObserved(low), 0.0)
    serial = itertools.count()

    def decide(count: int) -> None:
        for _ in range(count):
            made.observe(PodObserved(pod(f"high-{next(serial)}", "20", priority=10)), 0.0)
            attempt = made.step(0.0)
            assert attempt is not None
            assert isinstance(attempt.decision, Preempting)
            for effect in attempt.effects:
                made.observe(EffectDone(effect), 0.0)

    return decide


def _spread(nodes: int) -> Callable[[int], None]:
    constraint = {"maxSkew": 5, "whenUnsatisfiable": "DoNotSchedule", **_selecting(ZONE)}
    return _placing(nodes, topologySpreadConstraints=[constraint])


def _required(nodes: int, kind: str, key: str) -> Callable[[int], None]:
    terms = {REQUIRED: [_selecting(key)]}
    return _placing(nodes, affinity={kind: terms})


def _preferred(nodes: int) -> Callable[[int], None]:
    term = {"weight": 1, "podAffinityTerm": _selecting(HOSTNAME)}
    terms = {PREFERRED: [term]}
    return _placing(nodes, affinity={"podAntiAffinity": terms})


def _hostile(nodes: int, affinity: Callable[[int], dict[str, object]]) -> Callable[[int], None]:
    """Return what decides for pods with as many terms as the API server takes, no two alike."""
    made = machine(nodes)
    made.observe(PodObserved(pod("seen", "100m", on="node-0")), 0.0)
    pods = [pod(f"pod-{each}", "100m", affinity=affinity(each)) for each in range(ROUNDS + 1)]
    waiting = iter(pods)

    def decide(count: int) -> None:
        for each in itertools.islice(waiting, count):
            _place(made, each)

    return decide


def _many_node_terms(serial: int) -> dict[str, object]:
    """Return node affinity of which the last term alone fits, by a key that no other one names."""
    keys = [f"key-{serial}-{each}" for each in range(MANY_TERMS)]
    terms = [
        {"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in (*keys, HOSTNAME)
    ]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


def _many_pod_terms(serial: int) -> dict[str, object]:
    """Return anti-affinity to pods that are not there."""
    terms = [
        {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": f"x-{serial}-{each}"}}}
        for each in range(MANY_TERMS)
    ]
    return {"podAntiAffinity": {REQUIRED: terms}}


def _many_preferences(serial: int) -> dict[str, object]:
    """Return preferences that all pods count for, with topology keys half of which are nowhere."""
    terms = []
    for each in range(MANY_TERMS):
        values = [f"x-{serial}-{each}"]
        selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]}
        key = ZONE if each % 2 else f"key-{each}"
        term = {"topologyKey": key, "labelSelector": selector}
        terms.append({"weight": 1 + each % 100, "podAffinityTerm": term})
    return {"podAffinity": {PREFERRED: terms}}


def _budget(index: int, allowed: int, **labels: str) -> PodDisruptionBudget:
    body = {
        "metadata": {"name": f"budget-{index}", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }
    return msgspec.convert(body, PodDisruptionBudget)


def _protected(nodes: int, per_node: int) -> Machine:
    """Return a machine with full nodes whose pods have a label that one in a hundred shares."""
    made = machine(nodes)
    cpu = f"{31_000 // per_node}m"
    for index in range(nodes * per_node):
        low = pod(f"low-{index}", cpu, on=f"node-{index % nodes}")
        low.metadata.labels["share"] = str(index % BUDGETS)
        made.observe(PodObserved(low), 0.0)
    return made


def _new_budgets(nodes: int, per_node: int) -> Callable[[int], None]:
    """Return what takes over budgets, each of which selects all pods."""
    made = _protected(nodes, per_node)
    serial = itertools.count()

    def observe(count: int) -> None:
        for _ in range(count):
            made.observe(BudgetObserved(_budget(next(serial), 1, app="a")), 0.0)

    return observe


def _charging(nodes: int, per_node: int) -> Callable[[int], None]:
    """Return what preempts among pods with budgets, after the status of one has changed."""
    made = _protected(nodes, per_node)
    for index in range(BUDGETS):
        made.observe(BudgetObserved(_budget(index, 1, share=str(index))), 0.0)
    serial = itertools.count()

    def decide(count: int) -> None:
        for _ in range(count):
            number = next(serial)
            changed = _budget(number % BUDGETS, 2 + number, share=str(number % BUDGETS))
            made.observe(BudgetObserved(changed), 0.0)
            made.observe(PodObserved(pod(f"high-{number}", "20", priority=10)), 0.0)
            attempt = made.step(0.0)
            assert attempt is not None
            assert isinstance(attempt.decision, Preempting)
            for effect in attempt.effects:
                made.observe(EffectDone(effect), 0.0)

    return decide


def _after_churn(nodes: int) -> Callable[[int], None]:
    """Return what places pods of new classes after many taints and host names came and went."""
    made = machine(nodes)
    _place(made, pod("first", "1m", affinity=_apart_by_host()))
    for number in range(CHURN):
        changed = node(0)
        taint = Taint("candidate", str(number), "PreferNoSchedule")
        tainted = replace(changed, spec=replace(changed.spec, taints=[taint]))
        made.observe(NodeObserved(tainted), 0.0)
        made.observe(NodeObserved(node(nodes + number)), 0.0)
        made.observe(NodeGone(f"node-{nodes + number}"), 0.0)
    serial = itertools.count()

    def decide(count: int) -> None:
        for _ in range(count):
            number = next(serial)
            fresh = pod(f"pod-{number}", "1m", affinity=_apart_by_host())
            fresh.metadata.labels["index"] = str(number)
            fresh.metadata.labels["app"] = f"app-{number}"
            _place(made, fresh)

    return decide


def _apart_by_host() -> dict[str, object]:
    return {"podAntiAffinity": {REQUIRED: [_selecting(HOSTNAME)]}}


def _many_names(nodes: int, *, placed: bool) -> Callable[[int], None]:
    """Return what takes over pods that name many resources, no two the same, and refuses them."""
    made = machine(nodes)
    pods = [_naming(serial, placed=placed) for serial in range(ROUNDS + 1)]
    coming = iter(pods)

    def take(count: int) -> None:
        for each in itertools.islice(coming, count):
            made.observe(PodObserved(each), 0.0)
            attempt = made.step(0.0)
            if not placed:
                assert attempt is not None
                assert isinstance(attempt.decision, Unschedulable)

    return take


def _naming(serial: int, *, placed: bool) -> Pod:
    requests = {f"example.com/r{serial}-{each}": "1" for each in range(MANY_NAMES)}
    containers = [{"name": "c", "resources": {"requests": requests, "limits": requests}}]
    on = "node-0" if placed else ""
    return pod(f"pod-{serial}", "1m", on=on, containers=containers)


def _counting(specs: Callable[[int], dict[str, object]]) -> Callable[[int], None]:
    """Return what takes over large pods whose creator has written the name of their node."""
    made = machine(1000)
    pods = [pod(f"pod-{each}", "1m", on="node-0", **specs(each)) for each in range(ROUNDS + 1)]
    coming = iter(pods)

    def take(count: int) -> None:
        for each in itertools.islice(coming, count):
            made.observe(PodObserved(each), 0.0)

    return take


def _many_sidecars(serial: int) -> dict[str, object]:
    """Return sidecars that name a resource each."""
    sidecars = [
        {
            "name": f"s{each}",
            "restartPolicy": "Always",
            "resources": {"requests": {f"e.x/{serial}-{each}": "1"}},
        }
        for each in range(MANY_SIDECARS)
    ]
    return {"initContainers": sidecars}


def _many_disks(serial: int) -> dict[str, object]:
    disks = [
        {"name": f"v{each}", "gcePersistentDisk": {"pdName": f"d{serial}-{each}"}}
        for each in range(MANY_DISKS)
    ]
    return {"volumes": disks}


def _many_keys(serial: int) -> dict[str, object]:
    """Return anti-affinity with one selector of many labels."""
    labels = {f"a{serial}-{each}": "b" for each in range(MANY_LABELS)}
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def _many_short_terms(serial: int) -> dict[str, object]:
    """Return affinity with as many terms as fit, to pods that are not there."""
    terms = [
        {"topologyKey": "h", "labelSelector": {"matchLabels": {"a": f"{serial}-{each}"}}}
        for each in range(MANY_SHORT_TERMS)
    ]
    return {"affinity": {"podAffinity": {REQUIRED: terms}}}


CASES: Final[Mapping[str, Case]] = {
    "plain, 100 nodes": Case(lambda: _placing(100), 200),
    "plain, 5000 nodes": Case(lambda: _placing(5000), 200),
    "anti-affinity, 5000 nodes": Case(lambda: _required(5000, "podAntiAffinity", HOSTNAME), 100),
    "affinity, 5000 nodes": Case(lambda: _required(5000, "podAffinity", ZONE), 100),
    "preferred anti-affinity, 5000 nodes": Case(lambda: _preferred(5000), 100),
    "spread, 5000 nodes": Case(lambda: _spread(5000), 100),
    "unschedulable, 5000 nodes": Case(lambda: _refusing(5000), 200),
    "preemption, 1000 nodes with 4 pods": Case(lambda: _preempting(1000, 4), 8),
    "preemption, 1000 nodes with 30 pods": Case(lambda: _preempting(1000, 30), 8),
    "a budget for 30000 pods": Case(lambda: _new_budgets(1000, 30), 8),
    "preemption, 1000 nodes with 30 pods and 100 budgets": Case(lambda: _charging(1000, 30), 8),
    "a new class, 1000 nodes after 10000 taints and host names": Case(
        lambda: _after_churn(1000), 8
    ),
    "25000 resource names, 1000 nodes": Case(lambda: _many_names(1000, placed=False), 1),
    "25000 resource names on a node": Case(lambda: _many_names(1000, placed=True), 1),
    "15000 sidecars with a resource each, on a node": Case(lambda: _counting(_many_sidecars), 1),
    "24000 disks on a node": Case(lambda: _counting(_many_disks), 1),
    "90000 labels in a selector, on a node": Case(lambda: _counting(_many_keys), 1),
    "22000 affinity terms on a node": Case(lambda: _counting(_many_short_terms), 1),
    "10000 node terms, 1000 nodes": Case(lambda: _hostile(1000, _many_node_terms), 1),
    "10000 anti-affinity terms, 1000 nodes": Case(lambda: _hostile(1000, _many_pod_terms), 1),
    "10000 preferred terms, 1000 nodes": Case(lambda: _hostile(1000, _many_preferences), 1),
}
