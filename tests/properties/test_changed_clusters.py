"""A cluster that has changed is evaluated as one that has been like that from the start.

A machine observes a random cluster, makes its attempts, and then observes whatever turns that
cluster into another one. What it finds about each pod and node is what a new machine finds. So
everything that is kept up to date with each change, caches and indexes, is as if built anew.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

import pytest
from numpy.random import Generator, default_rng

from scheduler.core.machine import Machine
from scheduler.model.api.objects import Pod
from scheduler.model.events import (
    BudgetGone,
    BudgetObserved,
    DeviceClassGone,
    DeviceClassObserved,
    DevicesGone,
    DevicesObserved,
    Event,
    NamespaceGone,
    NamespaceObserved,
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    StorageGone,
    StorageObserved,
    WorkloadGone,
    WorkloadObserved,
)
from scheduler.model.releases import V1_37
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.queue.phases import QueuePhase
from scheduler.sim.manifests import Manifests
from tests.support.builders import EPOCH
from tests.support.cluster import profiles
from tests.support.random_clusters import clusters
from tests.support.seeds import share

pytestmark = pytest.mark.seeded

FAMILIES: Final = (
    "everything", "mixed", "pod-affinity", "spread", "volumes", "nominated", "taints", "images",
    "dra-mixed", "dra-extended",
)  # fmt: skip

#: In v1.36, whether a nominated pod reserves a node depends on the past: not after it was gated.
PROFILES: Final = profiles(reference=V1_37)

#: An object by kind and key, with the events that it exists and that it is gone.
Known = dict[tuple[str, str], tuple[Any, Event, Event]]


def known(manifests: Manifests) -> Known:
    """Return the objects of a cluster, in the order in which a process observes them."""
    found: Known = {}

    def add(items: Any, observed: Callable[[Any], Event], gone: Callable[[Any], Event]) -> None:
        for item in items:
            made = gone(item)
            found[type(item).__name__, str(made)] = item, observed(item), made

    def by_kind(gone: Any) -> Callable[[Any], Event]:
        return lambda item: gone(type(item).__name__, item.metadata.key)

    def by_name(gone: Any) -> Callable[[Any], Event]:
        return lambda item: gone(item.metadata.name)

    add(manifests.namespaces, NamespaceObserved, by_name(NamespaceGone))
    add(manifests.nodes, NodeObserved, by_name(NodeGone))
    add(manifests.pdbs, BudgetObserved, lambda pdb: BudgetGone(pdb.metadata.key))
    add(manifests.workloads, WorkloadObserved, by_kind(WorkloadGone))
    add(manifests.storage, StorageObserved, by_kind(StorageGone))
    add(manifests.device_classes, DeviceClassObserved, by_name(DeviceClassGone))
    add(manifests.devices, DevicesObserved, by_kind(DevicesGone))
    add(manifests.pods, PodObserved, lambda pod: PodGone(pod.key, pod.uid))
    return found


def changes(before: Known, after: Known, dice: Generator) -> list[Event]:
    """Return what turns one cluster into another: all that goes, and then all that comes."""
    goes = [key for key in before if key not in after or moved(before[key][0], after[key][0])]
    comes = [key for key in after if key in goes or after[key][0] != before.get(key, (None,))[0]]
    gone = [before[key][2] for key in goes]
    observed = [after[key][1] for key in comes]
    return [each[i] for each in (gone, observed) for i in dice.permutation(len(each))]


def moved(old: object, new: object) -> bool:
    """Return whether an object is a pod that is on another node, or nominated to another one."""
    if not (isinstance(old, Pod) and isinstance(new, Pod)):
        return False
    before, after = old.status.nominated_node_name, new.status.nominated_node_name
    return (old.spec.node_name, before) != (new.spec.node_name, after)


def nonzero(scores: Mapping[str, int]) -> dict[str, int]:
    """Return scores as they are explained: a plugin that does not score has no entry, or 0."""
    return {plugin: score for plugin, score in scores.items() if score}


def found(machine: Machine) -> dict[str, object]:
    """Return what a machine finds about each pod that waits."""
    said: dict[str, object] = {}
    for queued in machine.queue:
        if queued.phase is not QueuePhase.GATED:
            outcome, error = machine.explain(queued, EPOCH)
            results = [(each.name, each.verdict, nonzero(each.scores)) for each in outcome.results]
            said[queued.pod.key] = error, outcome.node, outcome.rejectors, results
    return said


def observed(events: Iterable[Event], machine: Machine | None = None) -> Machine:
    """Return a machine that has observed events."""
    machine = machine or Machine(PROFILES, PodBackoff())
    for event in events:
        machine.observe(event, EPOCH)
    machine.check()
    return machine


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cluster_that_has_changed_is_evaluated_as_one_from_the_start(family: str):
    drawn = [*map(known, clusters(family, range(share(90) + 1)))]
    evaluated = 0
    for seed, (before, after) in enumerate(pairwise(drawn)):
        machine = observed(event for _, event, _ in before.values())
        found(machine)
        observed(changes(before, after, default_rng(seed)), machine)

        wanted = found(observed(event for _, event, _ in after.values()))

        # A pod that had no reason to be gated once stays in the queue.
        assert {key: each for key, each in found(machine).items() if key in wanted} == wanted, seed
        evaluated += len(wanted)
    assert evaluated > 10
