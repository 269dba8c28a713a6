"""kube-scheduler and ours schedule the same workloads on a real API server, and end the same.

Each workload is built separately for each side: a namespace, nodes and all objects, then the
scheduler is started. `outcomes` defines what must be equal; the docstring of a workload says what
it is about.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from tests.integration.outcomes import Fate, Outcome, group
from tests.integration.peers import COMMON, KubeScheduler, Peer
from tests.integration.ranks import make_ranks
from tests.integration.scene import Scene
from tests.integration.stage import Stage
from tests.integration.workloads.catalogue import WORKLOADS
from tests.integration.workloads.kinds import Workload
from tests.support.extender import ExtenderServer
from tests.support.live import Schedulers

pytestmark = pytest.mark.cluster

#: The schedulerName for both, as texts and events hold it.
NAME = "side-by-side"

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def ranked(plane: ControlPlane) -> ControlPlane:
    """The control plane with a PriorityClass for each rank."""
    make_ranks(plane.api)
    return plane


@pytest.fixture
def extender(workload: Workload) -> Iterator[str]:
    """The URL of an extender that answers as the workload says."""
    with ExtenderServer() as server:
        server.answers = dict(workload.answers)
        yield server.url


@pytest.mark.parametrize(
    "workload", [pytest.param(each, id=each.name, marks=each.marks) for each in WORKLOADS]
)
def test_both_schedulers_have_the_same_outcome(ranked, kubeconfig, tmp_path, workload, extender):
    config = {
        **COMMON,
        **workload.config,
        "extenders": [
            {"urlPrefix": extender, **each} for each in workload.config.get("extenders", ())
        ],
        "profiles": [{"schedulerName": NAME, **workload.profile}],
    }

    with a_stage(ranked) as stage:
        theirs = played(stage, workload, lambda: KubeScheduler(ranked, tmp_path, config))
    with a_stage(ranked) as stage, Schedulers(tmp_path, kubeconfig) as schedulers:
        ours = played(stage, workload, lambda: schedulers.start(name=NAME, config=config))
        stage.scene.audit()

    assert ours.summary() == theirs.summary()
    assert ours.totals() == workload.totals
    for wrong in spoiled(theirs):
        assert ours.summary() != wrong.summary(), "the comparison does not see all that matters"


@contextlib.contextmanager
def a_stage(plane: ControlPlane) -> Iterator[Stage]:
    """Give a stage, and clean the cluster up afterwards."""
    name = f"side-{next(_numbers)}"
    plane.create_namespace(name)
    stage = Stage(Scene(plane, name, NAME))
    try:
        yield stage
    finally:
        stage.clear()
        plane.api.delete(f"/api/v1/namespaces/{name}")


def played(stage: Stage, workload: Workload, start: Callable[[], Peer]) -> Outcome:
    """Build a workload, let a scheduler work on it, and return what became of it."""
    workload.build(stage)
    stage.wait_nodes()
    with contextlib.closing(start()) as peer:
        for bound, step in workload.later:
            stage.settle(peer, bound)
            step(stage)
        bound, _, evicted = workload.totals
        stage.settle(peer, bound, evicted)
        return stage.outcome()


def spoiled(outcome: Outcome) -> Iterator[Outcome]:
    """Yield wrong outcomes: one thing is wrong in each, for all kinds of pods and facts."""
    firsts = {group(name): name for name in sorted(outcome.pods, reverse=True)}
    for name in firsts.values():
        for fate in wrong_fates(outcome, outcome.pods[name]):
            yield replace(outcome, pods={**outcome.pods, name: fate})
    for name, fact in outcome.facts.items():
        yield replace(outcome, facts={**outcome.facts, name: f"not {fact}"})


def wrong_fates(outcome: Outcome, fate: Fate) -> Iterator[Fate]:
    """Yield what might wrongly have become of a pod."""
    yield replace(fate, told=fate.told | {"Preempted"})
    yield replace(fate, evicted=not fate.evicted)
    if fate.waits is None:
        yield replace(fate, node="", waits=("Unschedulable", ""))
        elsewhere = {group(node) for node in outcome.nodes} - {group(fate.node)}
        yield from (replace(fate, node=f"{kind}-0") for kind in elsewhere)
    else:
        reason, message = fate.waits
        yield replace(fate, waits=(reason, message[1:]))
        yield Fate(min(outcome.nodes), told=frozenset({"Scheduled"}))
