"""Random devices, claims and pods: shared results, and that no device is allocated twice."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.api import quantity, selectors
from scheduler.model.api.device_claims import DeviceRequest
from scheduler.model.api.devices import ResourceClaim
from scheduler.plugins.dynamic_resources.structured.allocator import AllocationError, Allocator
from scheduler.plugins.dynamic_resources.structured.claims import compile_claim
from scheduler.plugins.dynamic_resources.structured.selectors import CelCache
from tests.support.builders import node
from tests.support.cluster import Cluster
from tests.support.devices import (
    DRIVER,
    choice,
    claim,
    claiming,
    consuming,
    counters,
    device,
    device_class,
    different,
    gpus,
    one_of,
    same,
    tainted,
    tolerating,
    wants,
)

NODES = ("n1", "n2", "n3")
NUMA = f"{DRIVER}/numa"
UUID = f"{DRIVER}/uuid"
FAILING = f'device.attributes["{DRIVER}"].uuid != "3" || device.attributes["{DRIVER}"].size > 0'
LARGE = f'device.attributes["{DRIVER}"].?size.orValue(0) == 2'

plain = st.builds(
    lambda numa, size: {"numa": numa, "size": size}, st.integers(0, 1), st.integers(1, 2)
)


@st.composite
def slices(draw, where: str):
    """Draw the slices of a node: one with devices, perhaps one with counters."""
    made = [
        device(f"d{number}", **attributes)
        for number, attributes in enumerate(draw(st.lists(plain, max_size=4)))
    ]
    if draw(st.booleans()):
        made.insert(0, tainted("bad"))
    if draw(st.booleans()):
        made.append(device("shared", capacity={"bw": "4"}, allow_multiple_allocations=True))
    if draw(st.booleans()):
        parts = [consuming(f"part{number}", memory="2") for number in range(3)]
        return [counters(where, memory="4"), gpus(where, *made, *parts, count=2)]
    return [gpus(where, *made, count=draw(st.sampled_from([1, 1, 1, 2])))]


def requests(name: str) -> st.SearchStrategy[DeviceRequest]:
    """Return a strategy for one request."""
    return st.sampled_from(
        [
            wants(name),
            wants(name, "gpu", LARGE),
            wants(name, count=2),
            wants(name, "gpu", LARGE, mode="All"),
            wants(name, capacity={"bw": "3"}),
            wants(name, tolerations=tolerating()),
            one_of(name, choice("a", "gpu", LARGE), choice("b", count=2)),
        ]
    )


@st.composite
def claims(draw, name: str) -> ResourceClaim:
    """Draw a claim with one or two requests, and perhaps a constraint."""
    made = [draw(requests(f"r{number}")) for number in range(draw(st.integers(1, 2)))]
    kind = draw(st.sampled_from([None, None, same, different]))
    return claim(name, *made, constraints=[] if kind is None else [kind(NUMA)])


@st.composite
def clusters(draw) -> tuple[Cluster, list[ResourceClaim]]:
    """Draw a cluster, and claims of pods that come one after the other."""
    everywhere = gpus("", "net0", "net1", name="net", pool="net", all_nodes=True)
    objects = [item for where in NODES for item in draw(slices(where))]
    if draw(st.booleans()):
        objects.append(everywhere)
    cluster = Cluster(*map(node, NODES), device_class(), *objects)
    return cluster, [draw(claims(f"c{number}")) for number in range(draw(st.integers(1, 6)))]


@st.composite
def large_pools(draw) -> tuple[Cluster, list[ResourceClaim]]:
    """Draw a node with many devices of few kinds, and claims of one pod that ask for many."""
    kinds = draw(st.lists(plain, min_size=1, max_size=3))
    made = [
        device(f"d{number}", uuid=str(number), **kinds[number % len(kinds)])
        for number in range(draw(st.integers(3, 8)))
    ]
    kind = draw(st.integers(0, 4))
    if kind == 0:
        made[draw(st.integers(0, len(made) - 1))] = tainted("bad")
    elif kind == 1:
        made.insert(draw(st.integers(0, len(made))), device("broken", uuid="none"))
    elif kind == 3:
        made.insert(draw(st.integers(0, len(made))), device("listed", uuid=["none"], size=2))
    made += [device("shared", capacity={"bw": "4"}, allow_multiple_allocations=True)] * (kind == 2)
    parts = [
        consuming(f"part{number}", memory=draw(st.sampled_from("123")))
        for number in range(draw(st.integers(0, 4)))
    ]
    objects = [counters("n1", memory="4"), gpus("n1", *made, *parts, count=2)]
    number = st.integers(1, 4)
    asked = []
    for at in range(draw(st.integers(1, 3))):
        name = f"r{at}"
        some = [
            wants(name, count=draw(number)),
            wants(name, "gpu", LARGE, count=draw(number)),
            wants(name, "gpu", FAILING, count=draw(number)),
            wants(name, count=draw(number), admin=True),
            wants(name, "gpu", LARGE, mode="All"),
            wants(name, capacity={"bw": "3"}),
            one_of(name, choice("a", "gpu", LARGE, count=draw(number)), choice("b")),
            one_of(name, choice("a", count=30), choice("b", count=draw(number))),
        ]
        asked.append(draw(st.sampled_from(some)))
    limits = st.sampled_from([same(NUMA), different(NUMA), different(UUID), same(NUMA, "r0")])
    claims = [
        claim("c0", *asked, constraints=draw(st.lists(limits, max_size=2))),
        *([claim("c1", wants(count=draw(number)))] if draw(st.booleans()) else []),
    ]
    return Cluster(node("n1"), device_class(), *objects), claims


@given(large_pools())
@settings(deadline=None)
def test_pruning_changes_neither_the_devices_nor_the_error(drawn):
    cluster, asked = drawn
    devices = cluster.machine.cluster.devices
    (n1,) = cluster.nodes.values()
    cel_cache = CelCache(devices.reference)
    compiled = [compile_claim(each.spec.devices, devices.classes, cel_cache) for each in asked]
    outcomes = []
    for prune_after in (0, 10**9):
        names, pools = [each.key for each in asked], devices.pools(n1)
        state, reference = devices.allocated_state, devices.reference
        allocator = Allocator(compiled, names, pools, state, reference, prune_after)
        try:
            result = allocator.allocate(1_000_000)
        except AllocationError as error:
            outcomes.append(str(error))
        else:
            claims = () if result is None else result.devices
            by_claim = [
                [(one.device.id, one.request.request_name) for one in each] for each in claims
            ]
            outcomes.append(str(by_claim))

    assert outcomes[0] == outcomes[1]


@given(clusters())
@settings(deadline=None)
def test_no_device_is_allocated_twice(drawn):
    cluster, asked = drawn
    for number, each in enumerate(asked):
        cluster.add(each)
        cluster.schedule(claiming(f"p{number}", each.metadata.name))
    cluster.drain()
    devices = cluster.machine.cluster.devices
    devices.check()
    by_id = {
        entry.id: entry
        for pool in devices.slices.pools.values()
        for item in pool.values()
        for entry in item.devices
    }
    holders: Counter[tuple[str, str, str]] = Counter()
    consumed: Counter[tuple[tuple[str, str, str], str]] = Counter()
    for known in devices.claims:
        allocation = known.status.allocation
        for result in [] if allocation is None else allocation.devices.results:
            if result.share_id is None:
                holders[result.id] += 1
            for name, amount in result.consumed_capacity.items():
                consumed[result.id, name] += quantity.exact(amount)
        if allocation is not None and allocation.node_selector is not None:
            for consumer in known.status.reserved_for:
                bound = cluster.machine.cluster.node_of(consumer.uid)
                (term,) = allocation.node_selector.node_selector_terms
                assert bound is not None
                assert selectors.matches_term(term, bound, {})
    assert all(count == 1 for count in holders.values())
    for (id_, name), amount in consumed.items():
        assert amount <= by_id[id_].capacity[name].value
    for where in map(cluster.machine.cluster.columns.node, NODES):
        assert where is not None
        for pool in devices.pools(where):
            available = pool.available_counters(devices.allocated_state)
            assert all(amount >= 0 for amount in available.values())
