"""What is known of devices: pools as a node sees them, claims in flight, taints of rules."""

import pytest
from msgspec.structs import replace

from scheduler.model.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    DeviceSelection,
    DeviceTaint,
    DeviceTaintRule,
    ResourceSlice,
    TaintRuleSpec,
)
from scheduler.model.api.objects import ObjectMeta
from scheduler.model.api.quantity import QuantityError
from scheduler.model.base import OwnerReference
from scheduler.model.releases import V1_36, V1_37
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.resource_axis import ResourceAxis
from scheduler.state.devices.claim_users import ClaimUsers
from scheduler.state.devices.device_classes import DeviceClasses
from scheduler.state.devices.devices import Devices
from tests.support.builders import at, node
from tests.support.devices import (
    DRIVER,
    allocated,
    claim,
    claiming,
    counters,
    device,
    device_class,
    gpus,
    tainted,
    wants,
)

N1, N2 = node("n1").label("rack", "a").build(), node("n2").label("rack", "b").build()


def devices_with(*slices: ResourceSlice, rules=V1_36) -> Devices:
    columns = NodeColumns(ResourceAxis())
    columns.write(N1)
    columns.write(N2)
    devices = Devices(columns, rules)
    for each in slices:
        devices.write(each)
    return devices


def seen(devices: Devices, on=N1) -> list[str]:
    """Return the pools of a node: name, and its devices or what is wrong with it."""
    return [
        f"{pool.id[1]}: incomplete"
        if pool.is_incomplete
        else f"{pool.id[1]}: invalid"
        if pool.is_invalid
        else f"{pool.id[1]}: {' '.join(entry.device.name for entry in pool.devices)}"
        for pool in devices.pools(on)
    ]


def test_pools_follow_the_slices():
    devices = devices_with(gpus("n1", "a"))
    before = seen(devices)
    devices.write(gpus("n1", "a", "b"))
    more = seen(devices)
    devices.erase("ResourceSlice", "n1-slice")

    assert [before, more, seen(devices)] == [["n1: a"], ["n1: a b"], []]


def test_a_slice_with_an_amount_that_is_none_changes_nothing():
    devices = devices_with(gpus("n1", "a"))

    with pytest.raises(QuantityError):
        devices.write(gpus("n1", device("b", capacity={"memory": "much"})))

    assert seen(devices) == ["n1: a"]


def test_a_pool_that_names_a_counter_set_twice_is_invalid():
    first, second = (counters("n1", name, count=3, memory="8") for name in ("x", "y"))
    named = replace(second.metadata, name="n1-more")

    assert seen(devices_with(gpus("n1", "a", count=3), first, replace(second, metadata=named))) == [
        "n1: a"
    ]
    again = replace(counters("n1", "x", count=3, memory="8"), metadata=named)
    assert seen(devices_with(gpus("n1", "a", count=3), first, again)) == ["n1: invalid"]


def test_nodes_in_the_same_state_have_one_signature():
    devices = devices_with(gpus("n1", "a", "b"), gpus("n2", "a", "b"))
    signatures = [devices.signatures().tolist()]
    for each in (allocated("c", "n1/a", on="n1"), allocated("d", "n2/a", on="n2")):
        devices.write(each)
        signatures.append(devices.signatures().tolist())
    devices.write(gpus("n2", tainted("a"), "b"))
    signatures.append(devices.signatures().tolist())

    assert [first == second for first, second in signatures] == [True, False, True, False]


def test_whole_devices_are_freed_by_their_positions_in_all_pools():
    network = gpus("", "x", "y", name="net", pool="net", all_nodes=True)
    devices = devices_with(gpus("n1", "a", "b"), network)
    assert seen(devices) == ["n1: a b", "net: x y"]
    for each in ("n1/b", "net/y"):
        devices.write(allocated(each.replace("/", "-"), each, on="n1"))
    first, second = (allocation for _, allocation in devices.claims.counting())

    for positions, gone in ((0b0010, [first]), (0b1000, [second]), (0b1010, [first, second])):
        expected = devices.signature_without(N1, gone)
        assert devices.signature_without_whole(N1, positions) == expected
        state, rest = devices.state_without_whole(N1, positions), {"b", "y"}
        rest -= {result.device for each in gone for result in each.devices.results}
        free = [each.id[2] for each in devices.devices_of(N1) if not state.is_allocated(each.id)]
        assert free == sorted({"a", "b", "x", "y"} - rest)


def test_an_allocation_counts_once_in_flight_and_when_it_is_known():
    devices = devices_with(gpus("n1", "a"))
    known = allocated("c", "n1/a", on="n1")
    assert known.status.allocation is not None
    taken = []
    for step in (
        lambda: devices.write(claim("c", wants())),
        lambda: devices.claims.begin("uid:c", known.status.allocation),
        lambda: devices.write(known),
        lambda: devices.claims.end("uid:c"),
        lambda: devices.write(claim("c", wants())),
    ):
        step()
        devices.check()
        taken.append(devices.allocated_state.is_allocated((DRIVER, "n1", "a")))

    assert taken == [False, True, True, True, False]


def test_the_answer_to_the_creation_of_a_claim_that_is_gone_does_not_bring_it_back():
    devices, mark = devices_with(), {EXTENDED_RESOURCE_CLAIM: "true"}
    owners = [OwnerReference("v1", "Pod", "p", "uid-p", controller=True)]
    made = claim("c", wants())
    metadata = replace(made.metadata, annotations=mark, owner_references=owners)
    made = replace(made, metadata=metadata)
    _, is_new = devices.answer(made, created=True)
    devices.erase("ResourceClaim", "default/c")

    _, matters = devices.answer(made, created=True)

    assert is_new
    assert not matters
    assert devices.claims.extended_resource_claim_of("uid-p") is None
    devices.check()


def test_an_answer_about_a_claim_that_is_gone_does_not_bring_it_back():
    devices = devices_with()
    devices.write(claim("c", wants()))
    devices.erase("ResourceClaim", "default/c")

    _, matters = devices.answer(allocated("c", "n1/a", on="n1"))

    assert not matters
    assert devices.claims.get("default/c") is None


def test_a_recreated_claim_replaces_the_deleted_one():
    devices = devices_with(gpus("n1", "a"))
    devices.write(allocated("c", "n1/a", on="n1"))
    again = claim("c", wants())

    devices.write(replace(again, metadata=replace(again.metadata, uid="another")))

    assert not devices.allocated_state.is_allocated((DRIVER, "n1", "a"))
    devices.check()


def rule(**selected: str) -> DeviceTaintRule:
    taint = DeviceTaint("example.com/broken", "", "NoSchedule")
    selection = None if selected.get("driver") == "" else DeviceSelection(**selected)
    return DeviceTaintRule(ObjectMeta(name="rule"), TaintRuleSpec(selection, taint))


def test_a_rule_without_a_selector_taints_nothing_since_v137():
    devices = devices_with(gpus("n1", "a"), rules=V1_37)

    assert not devices.write(rule(driver=""))[1]
    assert devices.write(rule())[1]


def many(count: int) -> Devices:
    """Return nodes of which each has one device more than the one before."""
    columns = NodeColumns(ResourceAxis())
    devices = Devices(columns)
    for index in range(count):
        columns.write(node(f"n{index}").build())
        devices.write(gpus(f"n{index}", *(f"d{each}" for each in range(index))))
    return devices


def test_signatures_are_prepared_in_parts():
    devices, unprepared = many(200), many(200)

    parts = 1
    while devices.prepare():
        parts += 1

    assert parts > 2
    assert not devices.prepare()
    assert devices.signatures().tolist() == unprepared.signatures().tolist()
    assert len(set(devices.signatures().tolist())) == 200


def test_a_change_during_the_preparation_counts():
    devices = many(200)
    devices.prepare()

    devices.write(gpus("n0", *(f"d{each}" for each in range(199))))
    while devices.prepare():
        pass

    signatures = devices.signatures()
    assert signatures[0] == signatures[199]


def test_without_slices_nothing_is_prepared():
    columns = NodeColumns(ResourceAxis())
    columns.write(N1)

    assert not Devices(columns).prepare()


def test_signatures_are_assigned_again_beyond_their_limit(monkeypatch):
    monkeypatch.setattr("scheduler.state.devices.signatures._MOST", 50)
    devices = many(200)

    assert len(set(devices.signatures().tolist())) == 200
    assert len(set(devices.signatures().tolist())) == 200


def test_a_pool_for_all_nodes_is_gathered_once():
    parts = [
        gpus("", f"d{each}", name=f"s{each}", pool="p", count=3, all_nodes=True)
        for each in range(3)
    ]
    devices = devices_with(*parts)

    assert devices.pools(N1)[0] is devices.pools(N2)[0]
    assert seen(devices) == ["p: d0 d1 d2"]
    devices.erase(ResourceSlice.__name__, "s2")
    assert seen(devices) == ["p: incomplete"]


def test_of_classes_with_one_resource_the_newest_provides_it():
    classes = DeviceClasses()
    resource = "example.com/gpu"
    old, new = device_class("a", resource=resource), device_class("z", resource=resource)
    for each, created in ((old, 1), (new, 2), (device_class("y", resource=resource), 2)):
        stamped = replace(each.metadata, creation_timestamp=at(created))
        classes.write(replace(each, metadata=stamped))
    found = [classes.of_resource(resource)]
    classes.erase("y")
    found.append(classes.of_resource(resource))
    classes.erase("z")
    found.append(classes.of_resource(resource))

    assert [None if each is None else each.metadata.name for each in found] == ["y", "z", "a"]


def test_pods_are_known_by_the_claims_that_they_name():
    users = ClaimUsers()
    users.note(claiming("p", "c", "d").build())
    users.note(claiming("q", "c").build())
    users.note(claiming("p", "d").build())

    assert users.of("default/c") == ("uid:default/q",)
    assert users.of("default/d") == ("uid:default/p",)

    users.forget("uid:default/p")
    users.forget("uid:default/q")

    assert (users.of("default/d"), len(users)) == ((), 0)
