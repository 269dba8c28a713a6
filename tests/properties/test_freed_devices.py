"""What evictions free, on random clusters: compared with the rule, row by row, without caches."""

from collections.abc import Iterator, Sequence, Set
from itertools import zip_longest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import CompiledFilter
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.device_claims import Allocation, Consumer, DeviceResult, Results
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Failed, Placed, Preempting
from scheduler.model.effects import Evict, Nominate
from scheduler.plugins.dynamic_resources import hypothetical_devices
from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources
from scheduler.plugins.dynamic_resources.structured.allocator import AllocationError, Allocator
from scheduler.plugins.dynamic_resources.structured.claims import compile_claim
from scheduler.plugins.dynamic_resources.structured.selectors import CelCache
from scheduler.state.devices.allocated_state import AllocatedState
from scheduler.state.devices.device_nominations import DeviceNomination
from scheduler.state.views import held_devices
from scheduler.state.views.held_devices import HeldDevices, Pattern
from tests.properties.test_devices import NODES, claims, slices
from tests.support.builders import node
from tests.support.cluster import Cluster
from tests.support.devices import claiming, device, device_class, gpus

ON = """
profiles:
- schedulerName: preemptive-scheduler
  pluginConfig:
  - {name: PreemptiveScheduler, args: {preemptForDevices: true}}
"""
OTHER = Consumer("example.com", "jobs", "j", "uid:j")


def falls(known: ResourceClaim, evicted: Set[str], kept: Set[str]) -> bool:
    """Return whether the allocation of a claim falls with some pods."""
    consumers = known.status.reserved_for
    return (
        known.key not in kept
        and bool(consumers)
        and all(each.resource == "pods" and not each.api_group for each in consumers)
        and {each.uid for each in consumers} <= evicted
    )


def fits(cluster: Cluster, pod: Pod, where: str, evicted: Set[str]) -> bool:
    """Return whether the claims of a pod can be allocated on a node without some of its pods."""
    devices = cluster.machine.cluster.devices
    own = [cluster.claim(each.resource_claim_name or "") for each in pod.spec.resource_claims]
    kept = {each.key for each in own if each.status.allocation is not None}
    state = AllocatedState()
    for claim, allocation in devices.claims.counting():
        if claim is None or not falls(claim, evicted, kept):
            list(state.change(None, allocation))
    of_pod = devices.nominations.get(pod.uid)
    for nomination in devices.nominations:
        if nomination is of_pod:
            continue
        if nomination.priority >= pod.priority or nomination.node != where:
            for allocation in nomination.allocations:
                list(state.change(None, allocation))
    asked = [each for each in own if each.status.allocation is None]
    cache = CelCache(devices.reference)
    compiled = [compile_claim(each.spec.devices, devices.classes, cache) for each in asked]
    pools = devices.pools(cluster.nodes[where])
    names = [each.key for each in asked]
    try:
        found = Allocator(compiled, names, pools, state, devices.reference).allocate(1_000_000)
    except AllocationError:
        return False
    return found is not None


class Drawn:
    """A cluster, and what happens in it."""

    def __init__(self, data: st.DataObject) -> None:
        self._draw = data.draw
        objects = [item for where in NODES for item in self._draw(slices(where))]
        if self._draw(st.booleans()):
            objects.append(gpus("", "net0", "net1", name="net", pool="net", all_nodes=True))
        self.cluster = Cluster(*map(node, NODES), device_class(), *objects, config=ON)
        self._names: list[str] = []
        self._serial = 0

    def claim(self) -> str:
        """Create a claim."""
        self._serial += 1
        name = f"c{self._serial}"
        self.cluster.add(self._draw(claims(name)))
        self._names.append(name)
        return name

    def run_pod(self) -> None:
        """Have a pod run with a claim of its own, or one of another pod, or without any."""
        self._serial += 1
        kind = self._draw(st.integers(0, 5))
        named = [self.claim()] if kind < 4 or not self._names else []
        if kind in (3, 4) and self._names:
            named.append(self._draw(st.sampled_from(self._names)))
        created = claiming(f"p{self._serial}", *dict.fromkeys(named))
        # It runs, or is gone: it evicts no pod, so that there are pods on the nodes.
        created = created.priority(self._draw(st.integers(0, 3))).never_preempts()
        decision = self.cluster.schedule(created)
        if not isinstance(decision, Placed):
            self.cluster.delete(created.object.metadata.name)

    def happen(self) -> None:
        """Change who has a device, or which devices there are."""
        known = [each for each in self.cluster.claims if each.status.allocation is not None]
        pods = [each for each in self.cluster.pods.values() if each.spec.node_name]
        kind = self._draw(st.integers(0, 10))
        if kind > 8:
            self.nominate()
            return
        if kind < 2 or not known or not pods:
            self.run_pod()
            return
        claim, pod = self._draw(st.sampled_from(known)), self._draw(st.sampled_from(pods))
        consumers = claim.status.reserved_for
        user = Consumer("", "pods", pod.metadata.name, pod.uid)
        match kind:
            case 2:
                consumers = []
            case 3:
                consumers = [*consumers, OTHER]
            case 4:
                consumers = [*(each for each in consumers if each.uid != pod.uid), user]
            case 5:
                self.cluster.delete(pod.key)
                return
            case 6 | 7:
                self.add_device()
                return
            case 8:  # it has the devices of another claim, too
                other = self.cluster.claim(self.claim())
                status = replace(claim.status, reserved_for=[user])
                self.cluster.add(replace(other, status=status))
                return
        status = replace(claim.status, reserved_for=consumers)
        self.cluster.add(replace(claim, status=status))

    def nominate(self) -> None:
        """Let a preemptor wait for a device of a node, or for none any more."""
        state, where = self.cluster.machine.cluster, self._draw(st.sampled_from(NODES))
        uid, target = f"q{self._draw(st.integers(0, 2))}", self.cluster.nodes[where]
        having = [each.id for each in state.devices.devices_of(target)]
        state.devices.nominations.remove(uid)
        if having and self._draw(st.booleans()):
            result = DeviceResult("r", *self._draw(st.sampled_from(having)))
            priority = self._draw(st.integers(0, 4))
            devices = {"claim": Allocation(Results([result]))}
            nomination = DeviceNomination(where, priority, devices, frozenset())
            state.devices.nominations.put(uid, nomination)

    def add_device(self) -> None:
        """Put a device before the others of a slice."""
        having = [each for each in self.cluster.machine.cluster.devices.slices if each.spec.devices]
        if having:
            item, self._serial = self._draw(st.sampled_from(having)), self._serial + 1
            more = [device(f"new{self._serial}"), *item.spec.devices]
            self.cluster.add(replace(item, spec=replace(item.spec, devices=more)))

    def preemptor(self) -> Pod:
        """Return a pod with claims that is not in the cluster."""
        named = [self.claim() for _ in range(self._draw(st.integers(1, 2)))]
        self._names = [each for each in self._names if each not in named]
        return claiming("preemptor", *named).priority(2).build()

    def evictions(self) -> Iterator[tuple[np.ndarray, int]]:
        """Yield changes: pods of all rows are evicted, and some of them added back."""
        pods = self.cluster.machine.cluster.pods
        evicted = []
        rows = range(len(NODES))
        for rank in zip_longest(*(pods.on_row(row) for row in rows), fillvalue=-1):
            chosen = [slot if self._draw(st.booleans()) else -1 for slot in rank]
            evicted.append(np.array(chosen, dtype=np.int64))
            yield evicted[-1], -1
        for each in self._draw(st.permutations(evicted)):
            yield each, +1


def compiled(plugin: DynamicResources, pod: Pod, cluster: Cluster) -> CompiledFilter:
    """Return the filter of the plugin for an attempt."""
    of_class = plugin.compile_filter(pod, cluster.machine.cluster, Verdicts())
    assert of_class is not None
    prepared = of_class.prepare(AttemptState(pod, cluster.now))
    assert isinstance(prepared, CompiledFilter)
    return prepared


def patterns(held: HeldDevices) -> dict[int, tuple[Pattern, int]]:
    """Return the patterns of pods that have one, also as sets of devices, by slot."""
    codes, whole = held.patterns(()).tolist(), held.whole(()).tolist()
    return {slot: (held.known[code], whole[slot]) for slot, code in enumerate(codes) if code}


def check_sets(cluster: Cluster, pod: Pod, evicted: Sequence[Set[str]]) -> None:
    """Compare what sets of whole devices free with what the allocations do that fall."""
    state = cluster.machine.cluster
    devices, held, pods = state.devices, state.held_devices, state.pods
    kept = {
        known.key
        for each in pod.spec.resource_claims
        if (known := cluster.claim(each.resource_claim_name or "")).status.allocation is not None
    }
    codes, whole = held.patterns(kept), held.whole(kept)
    for row, uids in enumerate(evicted):
        slots = [slot for uid in uids if (slot := pods.slot(uid)) is not None]
        having = codes[slots] != 0
        known = whole[slots] != 0
        assert (having == known).all() or not known.any()
        node = state.columns.nodes[row]
        if node is not None and known.any():
            gone, fallen = int(whole[slots].sum()), held.fallen(row, slots, kept)
            same = devices.signature_without(node, fallen)
            assert devices.signature_without_whole(node, gone) == same
            ids = [each.id for each in devices.devices_of(node)]
            without = devices.state_without_whole(node, gone)
            expected = devices.allocated_state.without(fallen)
            assert [*map(without.counts, ids)] == [*map(expected.counts, ids)]


@pytest.mark.parametrize("most", [65_536, 4])
@given(st.data())
@settings(max_examples=settings.default.max_examples // 8)
def test_what_evictions_free_is_found_as_by_the_rule(most: int, data: st.DataObject):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_devices, "_MOST", most)
        patch.setattr(hypothetical_devices, "_MOST", most)
        compare_with_the_rule(data)


def compare_with_the_rule(data: st.DataObject) -> None:
    """Compare what a filter says of hypothetical views, while things happen between them."""
    drawn, plugin = Drawn(data), DynamicResources(preempts=True)
    cluster = drawn.cluster
    for _ in range(6):
        drawn.run_pod()
    for _ in range(8):
        for _ in range(data.draw(st.integers(1, 3))):
            drawn.happen()
        pod = drawn.preemptor()
        evaluated = compiled(plugin, pod, cluster)
        state = cluster.machine.cluster
        fresh = HeldDevices(state.columns, state.pods, state.devices)
        assert patterns(state.held_devices) == patterns(fresh)
        view = state.hypothetical_view(np.arange(len(NODES)))
        evicted: list[set[str]] = [set() for _ in NODES]
        for slots, sign in drawn.evictions():
            view.change(slots, sign)
            for uids, slot in zip(evicted, slots.tolist(), strict=True):
                if slot >= 0:
                    (uids.add if sign < 0 else uids.remove)(state.pods.pod(slot).uid)
            if data.draw(st.booleans()):
                continue  # it is read with the next change
            check_sets(cluster, pod, evicted)

            expected = [
                fits(cluster, pod, state.columns.names[row], uids)
                for row, uids in enumerate(evicted)
            ]
            assert evaluated.fits(view).tolist() == expected


@given(st.data())
def test_victims_are_enough_and_none_is_evicted_in_vain(data: st.DataObject):
    drawn = Drawn(data)
    cluster = drawn.cluster
    for _ in range(data.draw(st.integers(2, 6))):
        drawn.run_pod()
    for _ in range(data.draw(st.integers(0, 3))):
        drawn.happen()
    pod = drawn.preemptor()
    there = {
        where: {each.uid for each in cluster.pods.values() if each.spec.node_name == where}
        for where in NODES
    }
    lower = {uid for uid, each in cluster.pods.items() if each.priority < pod.priority}
    helps = {where for where in NODES if fits(cluster, pod, where, there[where] & lower)}
    fitting = {where for where in NODES if fits(cluster, pod, where, set())}
    cluster.hold(Nominate, Evict)

    decision = cluster.schedule(pod)

    match decision:
        case Placed(where):
            assert where in fitting
        case Preempting(where, refs):
            victims = {each.uid for each in refs}
            assert not fitting
            assert victims <= there[where] & lower
            assert fits(cluster, pod, where, victims)
            assert not any(fits(cluster, pod, where, victims - {uid}) for uid in victims)
        case Failed(problem):
            # All devices of a pool are wanted that is not complete, on one of the nodes.
            assert "is currently being updated" in problem
        case _:
            assert not fitting
            assert not helps
