"""A preemption for devices: they are kept for the preemptor until it takes them, and no longer."""

from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.core.eviction.phases import PreemptionPhase, WasteReason
from scheduler.core.eviction.state import USE_WITHIN
from scheduler.core.eviction.transitions import (
    DEALLOCATE_AFTER,
    DEALLOCATE_WITHIN,
    TAKE_WITHIN,
)
from scheduler.model.api.device_claims import Consumer
from scheduler.model.decisions import Decision, Placed, Preempting, Unschedulable
from scheduler.model.effects import (
    Bind,
    BindClaims,
    ClearNomination,
    DeallocateClaim,
    Evict,
    Nominate,
)
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster
from tests.support.devices import allocated, claim, claiming, device_class, gpus, wants

ON = """
profiles:
- schedulerName: preemptive-scheduler
  pluginConfig:
  - {name: PreemptiveScheduler, args: {preemptForDevices: true}}
"""
ALLOCATED = "not eligible due to devices that are not free or not allocated to it yet."
AWAITING, DEALLOCATING = PreemptionPhase.AWAITING, PreemptionPhase.DEALLOCATING


def high(name: str = "high", priority: int = 100) -> PodBuilder:
    """Return a pod that needs a device by a claim of its own."""
    return claiming(name, f"{name}-claim").priority(priority)


def low(name: str, device: str, on: str = "n1") -> list[Any]:
    """Return a pod on a node with a claim of its own for a device."""
    runs = claiming(name, f"{name}-claim").on(on).priority(1)
    return [runs, allocated(f"{name}-claim", device, on=on, by=(name,))]


def taken(*more: Any, nodes: tuple[str, ...] = ("n1",)) -> Cluster:
    """Return a cluster in which the device of each node is taken by a pod of low priority."""
    objects: list[Any] = [device_class()]
    for name in nodes:
        objects += [node(name), gpus(name, "a"), *low(f"low-{name}", f"{name}/a", on=name)]
    return Cluster(*objects, claim("high-claim", wants()), *more, config=ON)


def phase(cluster: Cluster, name: str = "high") -> PreemptionPhase | None:
    """Return the phase of the preemption of a pod."""
    plan = cluster.machine.preemptions.state.plan_of(cluster.ref(name).uid)
    return None if plan is None else plan.phase


def kept(cluster: Cluster) -> int:
    """Return for how many preemptors devices are kept."""
    return len(cluster.machine.cluster.devices.nominations)


def wasted(cluster: Cluster) -> dict[WasteReason, int]:
    """Return the wasted evictions by reason."""
    return dict(cluster.machine.preemptions.state.waste.wasted_evictions)


def last(cluster: Cluster, name: str) -> Decision:
    """Let the machine decide for all pods; return the last decision about one."""
    decided = [each.decision for each in cluster.drain() if each.pod.name == name]
    return decided[-1]


def preempting(*more: Any, nodes: tuple[str, ...] = ("n1",)) -> Cluster:
    """Return a cluster in which `high` waits for the victim on n1 to terminate."""
    cluster = taken(*more, nodes=nodes)
    decision = cluster.schedule(high())
    assert isinstance(decision, Preempting)
    assert decision.node == "n1"
    assert phase(cluster) is AWAITING
    return cluster


def test_a_pod_gets_the_device_of_its_victim():
    cluster = preempting()

    cluster.finish("low-n1")

    cluster.wait(3)
    assert last(cluster, "high") == Placed("n1")
    assert cluster.evicted() == ["low-n1"]
    (result,) = cluster.claim("high-claim").status.allocation.devices.results
    assert result.device == "a"
    assert (kept(cluster), wasted(cluster)) == (0, {})


def test_a_device_is_kept_from_the_decision_until_its_preemptor_is_bound():
    cluster = taken(claim("same-claim", wants()))
    cluster.hold(Nominate)
    cluster.schedule(high())
    assert kept(cluster) == 1
    cluster.done()
    cluster.finish("low-n1")  # the device is free now

    same = cluster.schedule(high("same"))

    assert isinstance(same, Unschedulable)
    cluster.wait(3)
    assert last(cluster, "high") == Placed("n1")


def test_a_device_is_not_kept_from_more_important_pods():
    cluster = preempting(claim("vip-claim", wants()))
    cluster.finish("low-n1")

    vip = cluster.schedule(high("vip", 1000))

    assert vip == Placed("n1")
    cluster.wait(3)
    assert isinstance(last(cluster, "high"), Unschedulable)
    assert (kept(cluster), phase(cluster)) == (0, None)


def test_a_more_important_pod_takes_over_a_victim_that_terminates():
    cluster = preempting(claim("vip-claim", wants()))

    vip = cluster.schedule(high("vip", 1000))

    assert isinstance(vip, Preempting)
    assert cluster.evicted() == ["low-n1"]
    cluster.finish("low-n1")
    cluster.wait(3)
    cluster.drain()
    assert last_known(cluster, "vip") == Placed("n1")
    assert isinstance(last_known(cluster, "high"), Unschedulable)
    assert kept(cluster) == 0
    cluster.wait(USE_WITHIN + 1)
    assert wasted(cluster) == {}  # its device is used


def last_known(cluster: Cluster, name: str) -> Decision:
    """Return the last decision about a pod."""
    return [each.decision for each in cluster.attempts if each.pod.name == name][-1]


def test_a_preemptor_waits_until_the_claim_of_its_victim_is_deallocated():
    cluster = preempting(nodes=("n1", "n2"))

    cluster.delete("low-n1")

    assert phase(cluster) is DEALLOCATING
    cluster.update(node("n2").cpu("9"))  # any event that wakes it
    cluster.wait(30)
    for attempt in cluster.drain():
        assert not isinstance(attempt.decision, Preempting)
    assert cluster.evicted() == ["low-n1"]


@pytest.mark.parametrize("how", ["deallocate", "delete_claim"])
def test_a_preemptor_is_tried_when_the_claim_is_deallocated(how):
    cluster = preempting(nodes=("n1", "n2"))
    cluster.delete("low-n1")
    cluster.wait(3)

    getattr(cluster, how)("low-n1-claim")

    assert last(cluster, "high") == Placed("n1")
    assert (kept(cluster), wasted(cluster)) == (0, {})


def share(cluster: Cluster) -> None:
    """Reserve the claim of the victim for a pod of another scheduler as well."""
    known = cluster.claim("low-n1-claim")
    theirs = Consumer(resource="pods", name="theirs", uid="uid:default/theirs")
    status = replace(known.status, reserved_for=[*known.status.reserved_for, theirs])
    cluster.add(replace(known, status=status))


def answer(cluster: Cluster) -> None:
    """Let the answer to the eviction arrive."""
    cluster.hold()
    cluster.done()


#: What becomes of a victim and its claim, whatever is known first: another watch, another order.
GONE, FREED = (lambda it: it.delete("low-n1")), (lambda it: it.deallocate("low-n1-claim"))
ORDERS = {
    "freed": permutations((answer, GONE, FREED)),
    "shared": permutations((answer, GONE, share)),
}


@pytest.mark.parametrize(
    ("ends", "order"), [(ends, order) for ends, orders in ORDERS.items() for order in orders]
)
def test_a_preemptor_learns_what_became_of_the_claim_in_whatever_order(ends, order):
    cluster = taken()
    cluster.hold(Evict)
    cluster.schedule(high())
    for event in order:
        event(cluster)
        cluster.drain()

    cluster.wait(3)
    cluster.drain()

    decision = last_known(cluster, "high")
    assert decision == Placed("n1") if ends == "freed" else isinstance(decision, Unschedulable)
    assert (kept(cluster), phase(cluster)) == (0, None)


def test_a_pod_that_waits_for_a_claim_says_so_and_does_not_preempt_again():
    cluster = preempting(nodes=("n1", "n2"))
    cluster.delete("low-n1")
    cluster.update(node("n1").cpu("9"))
    cluster.wait(30)

    cluster.change("high", lambda pod: pod.label("changed", "yes"))
    cluster.update(gpus("n2", "a", name="again", pool="other"))  # the class is asked again

    decided = [each.decision for each in cluster.drain() if each.pod.name == "high"]
    assert decided
    assert all(isinstance(each, Placed) or ALLOCATED in each.message for each in decided)


def test_a_claim_that_nobody_reserves_is_deallocated():
    cluster = preempting(nodes=("n1", "n2"))
    cluster.delete("low-n1")
    known = cluster.claim("low-n1-claim")
    cluster.add(replace(known, status=replace(known.status, reserved_for=[])))

    cluster.wait(DEALLOCATE_AFTER)

    (effect,) = cluster.asked(DeallocateClaim)
    assert (effect.pod, effect.claim.name) == (cluster.ref("high"), "low-n1-claim")
    assert last(cluster, "high") == Placed("n1")


def test_a_claim_that_stays_reserved_for_a_pod_that_is_gone_is_given_up():
    cluster = preempting(nodes=("n1", "n2"))
    cluster.delete("low-n1")

    for _ in range(int(DEALLOCATE_WITHIN)):
        cluster.wait(1)

    assert cluster.asked(DeallocateClaim) == []
    assert (kept(cluster), phase(cluster)) == (0, None)
    assert wasted(cluster) == {WasteReason.NOT_DEALLOCATED: 1}
    assert cluster.nominations() == {}
    assert cluster.asked(ClearNomination)


def test_a_plan_ends_when_another_scheduler_takes_the_device():
    cluster = preempting(nodes=("n1", "n2"))
    cluster.delete("low-n1")

    cluster.deallocate("low-n1-claim")
    cluster.add(allocated("other", "n1/a", on="n1", by=("their",)))

    cluster.wait(3)
    decision = last(cluster, "high")
    assert isinstance(decision, Preempting)
    assert decision.node == "n2"
    assert kept(cluster) == 1


def test_a_plan_is_stopped_before_its_first_eviction_when_the_device_vanishes():
    cluster = taken(nodes=("n1", "n2"))
    cluster.hold(Nominate)
    cluster.schedule(high())

    cluster.update(gpus("n1"))  # the driver withdraws the device
    cluster.hold()
    cluster.done()

    assert cluster.evicted() == []
    assert kept(cluster) == 0


def test_devices_are_not_kept_for_a_preemptor_that_is_not_tried():
    cluster = preempting()
    cluster.delete_claim("high-claim")  # that gates it

    cluster.finish("low-n1")
    for _ in range(int(DEALLOCATE_WITHIN + 2 * TAKE_WITHIN)):
        cluster.wait(1)

    assert kept(cluster) == 0


@pytest.mark.parametrize("moment", ["nominated", "evicted", "gone", "deallocated"])
def test_a_new_leader_keeps_the_devices_of_a_plan(moment):
    cluster = taken(claim("same-claim", wants()))
    if moment == "nominated":
        cluster.hold(Evict)
    cluster.schedule(high())
    if moment in ("gone", "deallocated"):
        cluster.delete("low-n1")
    if moment == "deallocated":
        cluster.deallocate("low-n1-claim")
    cluster.restart()
    cluster.hold()
    cluster.add(high("same").created(-100))

    cluster.drain()
    if moment in ("nominated", "evicted"):
        cluster.finish("low-n1")
    if moment == "gone":
        assert phase(cluster) is DEALLOCATING
        cluster.deallocate("low-n1-claim")
    cluster.wait(3)
    cluster.drain()

    assert last_known(cluster, "high") == Placed("n1")
    assert isinstance(last_known(cluster, "same"), Unschedulable)
    assert set(cluster.evicted()) == {"low-n1"}
    assert kept(cluster) == 0


@pytest.mark.parametrize("held", [BindClaims, Bind])
def test_a_pod_that_is_tried_while_another_is_bound_may_evict_it_then(held):
    cluster = taken(nodes=())
    cluster.add(node("n1"), gpus("n1", "a"), claim("low-claim", wants()))
    cluster.hold(held)
    cluster.schedule(claiming("low", "low-claim").priority(1))
    assert isinstance(cluster.schedule(high()), Unschedulable)

    cluster.hold()
    while cluster.held:
        cluster.done()
    cluster.wait(3)
    cluster.drain()

    assert cluster.evicted() == ["low"]


def test_where_a_victim_is_spared_the_device_that_is_needed_instead_is_kept():
    cluster = Cluster(
        device_class(), node("n1").cpu("8"), gpus("n1", "a", "b"),
        claiming("owner", "owner-claim").on("n1").cpu("1").priority(2),
        allocated("owner-claim", "n1/a", on="n1", by=("owner",)),
        pod("big").on("n1").cpu("6").priority(1),
        claiming("other", "other-claim").on("n1").priority(500),
        allocated("other-claim", "n1/b", on="n1", by=("other",)),
        claim("high-claim", wants()), claim("thief-claim", wants()), config=ON,
    )  # fmt: skip
    cluster.hold(Nominate)
    cluster.schedule(high().cpu("3"))
    cluster.finish("other")  # b is free: owner is spared
    cluster.done()
    cluster.hold()

    assert isinstance(cluster.schedule(high("thief", 0)), Unschedulable)
    cluster.finish("big")
    cluster.wait(3)
    assert last(cluster, "high") == Placed("n1")
    assert cluster.evicted() == ["big"]


def test_a_pod_may_use_the_claim_of_a_victim_when_its_preemptor_has_another_device():
    cluster = Cluster(
        device_class(), node("n1").cpu("8"), gpus("n1", "a", "b"),
        claiming("lo", "lo-claim").on("n1").cpu("4").priority(1),
        allocated("lo-claim", "n1/a", on="n1", by=("lo",)),
        pod("big").on("n1").cpu("4").priority(500), claim("high-claim", wants()), config=ON,
    )  # fmt: skip
    cluster.schedule(high().cpu("4"))
    assert isinstance(cluster.schedule(claiming("again", "lo-claim").priority(50)), Unschedulable)

    cluster.delete("big")
    cluster.wait(3)
    cluster.drain()
    cluster.wait(30)
    cluster.drain()

    assert last_known(cluster, "high") == Placed("n1")
    assert last_known(cluster, "again") == Placed("n1")


def test_profiles_without_the_option_keep_no_devices():
    both = """
    profiles:
    - schedulerName: preemptive-scheduler
    - schedulerName: other
      pluginConfig:
      - {name: PreemptiveScheduler, args: {preemptForDevices: true}}
    """
    cluster = Cluster(
        device_class(), node("n1").cpu("4"), gpus("n1", "a"),
        pod("low").on("n1").cpu("4").priority(1),
        claim("high-claim", wants()), claim("mid-claim", wants()), config=both,
    )  # fmt: skip
    cluster.schedule(high().cpu("2"))

    assert kept(cluster) == 0
    assert cluster.schedule(high("mid", 100)) == Placed("n1")
