"""Which pods are evicted for their devices, and why evictions do not help: small clusters."""

from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from scheduler.core.preemption.dry_run_result import EvictionOutcome
from scheduler.core.preemption.evaluate.victims import expected_devices
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import CompiledFilter, PluginError
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.device_claims import Consumer
from scheduler.model.api.devices import EXTENDED_RESOURCE_CLAIM, ResourceClaim
from scheduler.model.decisions import Preempting, Unschedulable
from scheduler.model.policies import PreemptionPolicy
from scheduler.plugins.dynamic_resources import hypothetical_devices
from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources
from tests.support.builders import PodBuilder, node, pdb, pod
from tests.support.cluster import Cluster
from tests.support.devices import (
    DRIVER,
    allocated,
    choice,
    claim,
    claiming,
    consuming,
    counters,
    device,
    device_class,
    gpus,
    one_of,
    same,
    tainted,
    value,
    wants,
)
from tests.support.policies import HOUR, app

ON = """
profiles:
- schedulerName: preemptive-scheduler
  pluginConfig:
  - {name: PreemptiveScheduler, args: {preemptForDevices: true}}
"""
OFF = ON.replace("true", "false")
GPU = "example.com/gpu"
NUMA = f"{DRIVER}/numa"
HELD_BY_HIGHER = EvictionOutcome.DEVICES_HELD_BY_HIGHER
HELD_ELSEWHERE = EvictionOutcome.DEVICES_HELD_ELSEWHERE
UNRESERVED = EvictionOutcome.DEVICES_UNRESERVED
HELD_BY_OTHERS = EvictionOutcome.DEVICES_HELD_BY_OTHERS
TOO_FEW = EvictionOutcome.TOO_FEW_DEVICES


def low(name: str, *devices: str, priority: int = 1, on: str = "n1", **fields: Any) -> list[Any]:
    """Return a pod on a node, with a claim of its own for some devices."""
    runs = claiming(name, f"{name}-claim").on(on).priority(priority)
    return [runs, allocated(f"{name}-claim", *devices, on=on, by=(name,), **fields)]


def sharing(claim_name: str, *names: str, priority: int = 1, on: str = "n1") -> list[PodBuilder]:
    """Return pods on a node that name a claim."""
    return [claiming(name, claim_name).on(on).priority(priority) for name in names]


def reserved(known: ResourceClaim, *more: Consumer) -> ResourceClaim:
    """Return a claim with further consumers."""
    consumers = [*known.status.reserved_for, *more]
    return replace(known, status=replace(known.status, reserved_for=consumers))


def of_extended_resource(known: ResourceClaim, name: str) -> ResourceClaim:
    """Return a claim as the scheduler makes it for the extended resources of a pod."""
    marked = {EXTENDED_RESOURCE_CLAIM: "true"}
    owner = pod("x").owner("Pod", name).object.metadata.owner_references[0]
    owners = [replace(owner, uid=f"uid:default/{name}")]
    return replace(
        known, metadata=replace(known.metadata, annotations=marked, owner_references=owners)
    )


class Case(NamedTuple):
    """A cluster, and what preemption does in it for a pod `p` of priority 10 with a claim `c`."""

    name: str
    objects: list[Any]
    #: The victims; `None` if there is no preemption.
    victims: tuple[str, ...] | None
    #: Why evictions do not help on n1.
    reason: EvictionOutcome | None = None
    asked: tuple[ResourceClaim, ...] = (claim("c", wants()),)
    pod: PodBuilder = claiming("p", "c").priority(10)
    on: str = "n1"


def count(number: int, **more: Any) -> tuple[ResourceClaim, ...]:
    """Return the claim `c` for so many devices."""
    return (claim("c", wants(count=number), **more),)


SHARED = allocated("s", "n1/a", on="n1", by=("s1", "s2", "s3"))
NETWORK = gpus("", "a", name="net", pool="net", all_nodes=True)
SHARES = gpus("n1", device("a", capacity={"bw": "4"}, allow_multiple_allocations=True))
PARTS = [
    counters("n1", memory="4"),
    gpus("n1", *(consuming(f"p{at}", memory="2") for at in range(3)), count=2),
]
WHOLE = [
    counters("n1", memory="4"),
    gpus(
        "n1",
        *(consuming(f"p{at}", memory="2") for at in range(2)),
        replace(consuming("all", memory="4"), attributes={"whole": value(True)}),
        count=2,
    ),
]
FOUR = [gpus("n1", "a", "b", "c", "d")]


def share_of(name: str, amount: str) -> dict[str, Any]:
    """Return the fields of a result that is a share."""
    return {"share_id": f"share-{name}", "consumed_capacity": {"bw": amount}}


def share(name: str, amount: str, priority: int = 1) -> list[Any]:
    """Return a pod with a share of the device a."""
    return low(name, "n1/a", priority=priority, **share_of(name, amount))


CASES = [
    Case("one device", [gpus("n1", "a"), *low("x", "n1/a")], ("x",)),
    Case(
        "the least important pods that are enough",
        [*FOUR, *low("x", "n1/a", "n1/b"), *low("y", "n1/c", priority=2)],
        ("x",),
        asked=count(3),
    ),
    Case(
        "a pod whose device is not needed",
        [gpus("n1", "a", "b"), *low("x", "n1/a"), *low("y", "n1/b", priority=2)],
        ("x",),
    ),
    Case(
        "devices of two pools",
        [gpus("n1", "a"), NETWORK, *low("x", "n1/a"), *low("y", "net/a", priority=2)],
        ("y", "x"),
        asked=count(2),
    ),
    Case(
        "a shared claim of three pods",
        [gpus("n1", "a"), SHARED, *sharing("s", "s1", "s2", "s3")],
        ("s1", "s2", "s3"),
    ),
    Case(
        "a shared claim of three pods, another pod has the other device",
        [
            *[gpus("n1", "a", "b"), SHARED, *sharing("s", "s1", "s2", "s3")],
            *low("x", "n1/b", priority=2),
        ],
        ("s1", "s2", "s3"),
    ),
    Case(
        "a shared claim, one pod is too important",
        [*[gpus("n1", "a"), SHARED, *sharing("s", "s1", "s2")], *sharing("s", "s3", priority=10)],
        None,
        HELD_BY_HIGHER,
    ),
    Case(
        "a shared claim, one pod runs on another node",
        [
            *[NETWORK, *sharing("s", "s1", "s2"), *sharing("s", "s3", on="n2")],
            allocated("s", "net/a", on="n1", by=("s1", "s2", "s3")),
        ],
        None,
        HELD_ELSEWHERE,
    ),
    Case(
        "a shared claim, one pod is nowhere",
        [gpus("n1", "a"), *sharing("s", "s1"), allocated("s", "n1/a", on="n1", by=("s1", "gone"))],
        None,
        HELD_ELSEWHERE,
    ),
    Case("equal priority", [gpus("n1", "a"), *low("x", "n1/a", priority=10)], None, HELD_BY_HIGHER),
    Case(
        "enough devices, but most are of important pods",
        [gpus("n1", "a", "b"), *low("x", "n1/a", priority=11), *low("y", "n1/b")],
        None,
        HELD_BY_HIGHER,
        asked=count(2),
    ),
    Case(
        "a consumer that is no pod",
        [
            gpus("n1", "a"),
            *sharing("x-claim", "x"),
            reserved(
                allocated("x-claim", "n1/a", on="n1", by=("x",)),
                Consumer("example.com", "jobs", "j", "uid:j"),
            ),
        ],
        None,
        HELD_BY_OTHERS,
    ),
    Case(
        "nobody reserves it",
        [gpus("n1", "a"), allocated("left", "n1/a", on="n1"), pod("x").on("n1")],
        None,
        UNRESERVED,
    ),
    Case(
        "admin access takes nothing",
        [
            *[gpus("n1", "a"), *low("x", "n1/a", priority=11)],
            *low("admin", "n1/a", admin_access=True),
        ],
        None,
        HELD_BY_HIGHER,
    ),
    Case(
        "a pod with admin access stays",
        [gpus("n1", "a"), *low("x", "n1/a"), *low("admin", "n1/a", admin_access=True)],
        ("x",),
    ),
    Case("shared counters", [*PARTS, *low("x", "n1/p0"), *low("y", "n1/p1", priority=2)], ("x",)),
    Case("shared counters, all of them", [*PARTS, *low("x", "n1/p0", "n1/p1")], ("x",)),
    Case(
        "shared counters of two pods",
        [*WHOLE, *low("x", "n1/p0"), *low("y", "n1/p1", priority=2)],
        ("y", "x"),
        asked=(
            claim("c", wants("r", "gpu", f'device.attributes["{DRIVER}"].?whole.orValue(false)')),
        ),
    ),
    Case(
        "consumable capacity: one share is enough",
        [SHARES, *share("x", "2"), *share("y", "2", priority=2)],
        ("x",),
        asked=(claim("c", wants(capacity={"bw": "2"})),),
    ),
    Case(
        "consumable capacity: both shares are needed",
        [SHARES, *share("x", "2"), *share("y", "2", priority=2)],
        ("y", "x"),
        asked=(claim("c", wants(capacity={"bw": "3"})),),
    ),
    Case(
        "consumable capacity: an important pod has too much",
        [SHARES, *share("x", "2"), *share("y", "2", priority=11)],
        None,
        HELD_BY_HIGHER,
        asked=(claim("c", wants(capacity={"bw": "3"})),),
    ),
    Case(
        "devices that agree in an attribute",
        [
            gpus("n1", device("a", numa=0), device("b", numa=1), device("c", numa=0)),
            *[*low("x", "n1/a"), *low("y", "n1/b"), *low("z", "n1/c", priority=2)],
        ],
        ("z", "x"),
        asked=count(2, constraints=[same(NUMA)]),
    ),
    Case(
        "no devices agree in an attribute",
        [
            gpus("n1", device("a", numa=0), device("b", numa=1)),
            *[*low("x", "n1/a"), *low("y", "n1/b")],
        ],
        None,
        TOO_FEW,
        asked=count(2, constraints=[same(NUMA)]),
    ),
    Case(
        "a later alternative is enough",
        [gpus("n1", "a", "b"), *low("x", "n1/a"), *low("y", "n1/b", priority=2)],
        ("x",),
        asked=(claim("c", one_of("r", choice("two", count=2), choice("one"))),),
    ),
    Case(
        "an extended resource of a class",
        [
            gpus("n1", "a"),
            pod("x").on("n1").requests({GPU: "1"}).priority(1),
            of_extended_resource(allocated("x-1", "n1/a", on="n1", by=("x",)), "x"),
        ],
        ("x",),
        asked=(),
        pod=pod("p").requests({GPU: "1"}).priority(10),
    ),
    Case(
        "a pod with a device and cpu",
        [
            gpus("n1", "a"),
            *[low("x", "n1/a")[0].cpu("2"), low("x", "n1/a")[1]],
            pod("y").on("n1").cpu("2").priority(1).started(-100),
        ],
        ("x",),
        pod=claiming("p", "c").cpu("2").priority(10),
    ),
    Case(
        "a device of one pod and the cpu of another",
        [gpus("n1", "a"), *low("x", "n1/a"), pod("y").on("n1").cpu("4").priority(1)],
        ("x", "y"),
        pod=claiming("p", "c").cpu("2").priority(10),
    ),
    Case(
        "disruption budgets come first",
        [
            *[gpus("n1", "a", "b"), *low("x", "n1/a"), *low("y", "n1/b", priority=2)],
            pdb("b").selects(app="x"),
        ],
        ("y",),
    ),
    Case(
        "a policy spares one of the pods",
        [
            *[gpus("n1", "a", "b"), *low("x", "n1/a"), *low("y", "n1/b", priority=2)],
            PreemptionPolicy("p", victims=app("x"), victim_min_runtime=HOUR),
        ],
        ("y",),
    ),
    Case(
        "a policy spares the only pod with a device",
        [
            *[gpus("n1", "a"), *low("x", "n1/a"), pod("y").on("n1")],
            PreemptionPolicy("p", victims=app("x"), victim_min_runtime=HOUR),
        ],
        None,
        EvictionOutcome.VETOED,
    ),
    Case(
        "the own claim of the pod is not freed for its other claim",
        [*[gpus("n1", "a"), *sharing("own", "x")], allocated("own", "n1/a", on="n1", by=("x",))],
        None,
        TOO_FEW,
        pod=claiming("p", "own", "c").priority(10),
    ),
    Case(
        "two claims of the pod",
        [gpus("n1", "a", "b", "c"), *low("x", "n1/a"), *low("y", "n1/b", "n1/c", priority=2)],
        ("y", "x"),
        asked=(claim("c", wants()), claim("c2", wants(count=2))),
        pod=claiming("p", "c", "c2").priority(10),
    ),
    Case("devices that are tainted", [gpus("n1", tainted("a")), *low("x", "n1/a")], None, TOO_FEW),
    Case(
        "devices that no selector matches",
        [gpus("n1", device("a", model="old")), *low("x", "n1/a")],
        None,
        TOO_FEW,
        asked=(claim("c", wants("r", "gpu", f'device.attributes["{DRIVER}"].model == "new"')),),
    ),
    Case("an incomplete pool", [gpus("n1", "a", count=2), *low("x", "n1/a")], None, TOO_FEW),
    Case("no devices at all", [pod("x").on("n1")], None, TOO_FEW),
    Case(
        "a device that two claims have",
        [gpus("n1", "a"), *low("x", "n1/a"), *low("y", "n1/a", priority=2)],
        ("y", "x"),
    ),
    Case(
        "equal nodes, on the first one two claims have the device",
        [
            *[gpus("n1", "a"), *low("x", "n1/a"), *low("y", "n1/a", priority=11)],
            *[gpus("n2", "a"), *low("z", "n2/a", on="n2", priority=2)],
        ],
        ("z",),
        on="n2",
    ),
    Case(
        "two shared claims, whose pods are reprieved in turn",
        [
            SHARES,
            allocated("s", "n1/a", on="n1", by=("s1", "s2"), **share_of("s", "2")),
            allocated("t", "n1/a", on="n1", by=("t1", "t2"), **share_of("t", "2")),
            *(
                claiming(f"{of}{number}", of).on("n1").priority(1).started(number)
                for number in (1, 2)
                for of in "st"
            ),
        ],
        ("t1", "t2"),
        asked=(claim("c", wants(capacity={"bw": "2"})),),
    ),
    Case(
        "a device of all nodes, on the node of its pod",
        [NETWORK, *low("x", "net/a", on="n2")],
        ("x",),
        on="n2",
    ),
    Case(
        "a pod without devices is not evicted",
        [gpus("n1", "a"), *low("x", "n1/a"), pod("y").on("n1").priority(0)],
        ("x",),
    ),
]


def prepared(case: Case, config: str) -> Cluster:
    """Return the cluster of a case before the pod is there."""
    labelled = [
        each.label("app", each.object.metadata.name) if isinstance(each, PodBuilder) else each
        for each in case.objects
    ]
    return Cluster(
        *[node("n1").cpu("4"), node("n2").cpu("4"), device_class(resource=GPU)],
        *[*labelled, *case.asked],
        config=config,
    )


def decided(case: Case, config: str) -> tuple[Cluster, Any]:
    """Return the cluster of a case after the decision, and the decision."""
    cluster = prepared(case, config)
    return cluster, cluster.schedule(case.pod)


def outcomes(cluster: Cluster) -> dict[str, EvictionOutcome | None]:
    """Return what evictions on each node mean for the pod, as explained."""
    queued = cluster.machine.queue.get("uid:default/p")
    assert queued is not None
    result, problem = cluster.machine.explain(queued, cluster.now)
    assert not problem
    return {each.name: each.outcome for each in result.results}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_pods_are_evicted_for_their_devices(case: Case):
    cluster, decision = decided(case, ON)

    if case.victims is None:
        assert isinstance(decision, Unschedulable), decision
        assert outcomes(cluster)["n1"] is case.reason
    else:
        assert isinstance(decision, Preempting), decision
        assert [victim.name for victim in decision.victims] == list(case.victims)
        assert decision.node == case.on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_the_option_only_other_resources_are_freed(case: Case):
    known, decision = decided(case, OFF)
    _, default = decided(case, "")

    assert decision == default
    if case.pod.object.spec.containers[0].resources.requests.get("cpu") is None:
        assert isinstance(decision, Unschedulable)
        assert "Preemption is not helpful for scheduling" in decision.message
        assert outcomes(known)["n1"] is None


def test_devices_of_a_pod_on_another_node_are_not_freed():
    case = Case("", [NETWORK, *low("x", "net/a", on="n2", priority=10)], None)
    cluster, _ = decided(case, ON)

    assert outcomes(cluster)["n1"] is HELD_ELSEWHERE
    assert outcomes(cluster)["n2"] is HELD_BY_HIGHER


def test_a_dry_run_tells_the_devices_that_the_pod_would_get():
    case = Case("", [gpus("n1", "a", "b"), *low("x", "n1/b"), *low("y", "n1/a", priority=11)], ())
    cluster, _ = decided(case, ON)
    state = cluster.machine.cluster
    of_class = DynamicResources(preempts=True).compile_filter(case.pod.object, state, Verdicts())
    assert of_class is not None
    of_attempt = of_class.prepare(AttemptState(case.pod.object, cluster.now))
    assert isinstance(of_attempt, CompiledFilter)
    row, filters = state.columns.row("n1"), [("DynamicResources", of_attempt)]
    assert row is not None

    expected = expected_devices(state, filters, row, frozenset({"uid:default/x"}))

    found = {uid: [each.device for each in of.devices.results] for uid, of in expected.items()}
    assert found == {"uid:c": ["b"]}
    with pytest.raises(PluginError, match="not found"):
        expected_devices(state, filters, row, frozenset())


def test_where_too_many_nodes_differ_only_some_are_candidates(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hypothetical_devices, "_MOST_EXAMINED", 8)
    names = [f"m{number}" for number in range(9)]
    of_nodes = [
        item
        for at, name in enumerate(names)
        for item in (
            gpus(name, device("a", uuid=name), device("b", uuid=name)),
            *low(f"x-{name}", f"{name}/a", on=name),
            *low(f"y-{name}", f"{name}/b", on=name, priority=3 + at % 2),
        )
    ]
    unequal = claim("c", wants("r", "gpu", f'device.attributes["{DRIVER}"].uuid != "none"'))
    case = Case("", [*map(node, names), *of_nodes], None, asked=(unequal,))

    cluster = prepared(case, ON)
    cluster.add(case.pod)
    examined = outcomes(cluster)
    decision = cluster.schedule(case.pod)

    assert {examined[name] for name in names} == {EvictionOutcome.HELPS, EvictionOutcome.NOT_TRIED}
    assert isinstance(decision, Preempting)
    assert [victim.name for victim in decision.victims] == [f"x-{decision.node}"]
