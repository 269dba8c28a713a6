"""What documents say of the devices that a preemption is for, and to whom."""

import json
from collections import deque
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.config import load
from scheduler.core.snapshot.copying import MachineCopy, copying
from scheduler.core.snapshot.encoding import encoded
from scheduler.model.rest.common import PodView
from scheduler.model.rest.preemptions import DeviceView, PreemptionDevices, UndeallocatedClaim
from scheduler.model.rest.what_if import SimulatedPod, WhatIfAnswer, WhatIfRequest
from scheduler.observe.api import kept_preemptions
from scheduler.observe.api.preempted_devices import MAX_DEVICES, seen_devices
from scheduler.sim.hiding import hide
from scheduler.sim.what_if import what_if
from scheduler.sim.what_if_cluster import State
from tests.core.eviction.test_freed_devices import ON, high, low
from tests.observe.api.test_kept_preemptions import GOOD, NOW, read, written
from tests.support.api_documents import Documents
from tests.support.builders import EPOCH, OURS, node
from tests.support.devices import allocated, claim, claiming, device_class, gpus, wants

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration"
HERE = {"namespace": "default", "name_": "high"}
DEVICE = {"driver": "gpu.example.com", "pool": "n1", "device": "a"}
HELD = {**DEVICE, "namespace": "default", "claim": "low-claim", "pod": "low"}
LEFT = {"namespace": "default", "name": "low-claim", "pod": "low"}


def preempting(*, schedule: bool = True) -> Documents:
    """Return a cluster in which `high` has evicted `low`, which has the only device."""
    docs = Documents(
        device_class(),
        node("n1"),
        gpus("n1", "a"),
        *low("low", "n1/a"),
        claim("high-claim", wants()),
        config=ON,
    )
    if schedule:
        docs.cluster.schedule(high())
    else:
        docs.cluster.add(high())
    return docs


async def both(docs: Documents) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the document of the preemption, and that of its pod."""
    (preemption,) = (await docs.get("preemptions"))["items"]
    return preemption, await docs.get("pods/{namespace}/{name}", **HERE)


async def test_documents_follow_a_preemption_for_a_device():
    docs = preempting(schedule=False)

    planned = await docs.get("pods/{namespace}/{name}", **HERE)
    docs.cluster.drain()
    terminating = await both(docs)
    docs.cluster.delete("low")
    docs.cluster.wait(12)
    waiting = await both(docs)
    docs.cluster.deallocate("low-claim")
    docs.cluster.wait(3)
    docs.cluster.drain()
    (ended,) = (await docs.get("preemptions"))["items"]

    assert planned["preemption"]["devices"] == {"items": [HELD]}
    assert "would evict 1 pod on n1 for device gpu.example.com/n1/a" in planned["verdict"]
    assert [each["devices"] for each in terminating] == [{"items": [HELD]}] * 2
    assert [each["verdict"] for each in terminating] == [
        "default/high evicts 1 pod on n1 for device gpu.example.com/n1/a and runs there when they"
        " are gone.",
        "default/high has waited 0s for device gpu.example.com/n1/a on n1: it runs there when"
        " evicted pods are gone and their claims are deallocated.",
    ]
    since = waiting[0]["devices"]["victimsGoneAt"]
    assert waiting[0]["phase"] == "deallocating"
    assert [each["devices"] for each in waiting] == [
        {"items": [HELD], "victimsGoneAt": since, "claims": [LEFT]}
    ] * 2
    left = "claim default/low-claim of the evicted pod low has not been deallocated"
    assert [each["verdict"] for each in waiting] == [
        f"default/high evicted 1 pod on n1 and waits for device gpu.example.com/n1/a: {left}"
        f" since {since}; kube-controller-manager does that.",
        f"default/high has waited 12s for device gpu.example.com/n1/a on n1: {left} for 12s;"
        " kube-controller-manager does that.",
    ]
    assert waiting[1]["suggestions"][0].startswith("kube-controller-manager deallocates claims")
    assert ended["outcome"] == "bound"
    assert ended["devices"] == {"items": [HELD]}
    assert "on n1 for device gpu.example.com/n1/a and was bound there" in ended["verdict"]


async def test_a_pod_that_waits_for_devices_of_another_preemptor_is_told_so():
    docs = preempting()
    docs.cluster.add(claim("same-claim", wants()))
    docs.cluster.schedule(high("same"))

    found = await docs.get("pods/{namespace}/{name}", namespace="default", name_="same")

    why = "the devices are kept for pods that preempted for them"
    assert [each["eviction"] for each in found["verdicts"]] == [f"no: {why}"]
    assert found["verdict"].endswith(f"; evictions do not help: {why}.")
    assert found["suggestions"][-1].startswith("On 1 node, pods that preempted for devices have")


SECRET = DeviceView("d", "p", "x", "secret", "c", "low", 2)
OWN = DeviceView("d", "p", "y", "team", "c")
FREE = DeviceView("d", "p", "z")
BARE = DeviceView("d", "p", "x")
CLAIMS = (UndeallocatedClaim("secret", "c", "low"), UndeallocatedClaim("team", "c"))


@pytest.mark.parametrize(
    ("preemptor", "sees", "items", "more"),
    [
        ("prod", {"prod", "secret", "team"}, (SECRET, OWN, FREE), 3),
        ("prod", {"prod", "team"}, (BARE, OWN, FREE), 3),
        ("prod", {"team"}, (OWN,), 5),
        ("prod", {"other"}, (), 6),
    ],
)
def test_claims_and_pods_are_named_to_those_who_may_see_them(preemptor, sees, items, more):
    found = PreemptionDevices((SECRET, OWN, FREE), 3, "2026-01-01T00:00:00Z", CLAIMS, 1)

    seen = seen_devices(found, preemptor, sees.__contains__)
    answer = WhatIfAnswer(
        "", "", items=(SimulatedPod(PodView(preemptor, "p"), "Preempting", devices=found),)
    )
    (planned,) = hide(answer, sees.__contains__).items

    claims = tuple(each for each in CLAIMS if each.namespace in sees)
    assert seen == replace(
        found, items=items, more=more, claims=claims, more_claims=3 - len(claims)
    )
    assert planned.devices == seen


async def test_a_document_has_few_devices_of_many():
    names = [f"d{number:02}" for number in range(20)]
    docs = Documents(
        device_class(),
        node("n1"),
        gpus("n1", *names),
        claiming("low", "low-claim").on("n1").priority(1),
        allocated("low-claim", *(f"n1/{name}" for name in names), on="n1", by=("low",)),
        claim("high-claim", wants(count=20)),
        config=ON,
    )
    docs.cluster.schedule(high())

    (found,) = (await docs.get("preemptions"))["items"]

    assert (len(found["devices"]["items"]), found["devices"]["more"]) == (MAX_DEVICES, 4)
    assert "for device gpu.example.com/n1/d00 and 19 more and runs there" in found["verdict"]


async def test_the_next_leader_knows_the_devices_and_their_claims():
    docs = preempting()
    (before,) = (await docs.get("preemptions"))["items"]
    (item,) = written(docs.history)
    later = Documents()
    later.cluster.wait(docs.cluster.now - later.cluster.now)

    later.history.restore(read(item, later), later.cluster.now)

    (after,) = (await later.get("preemptions"))["items"]
    assert after["devices"] == before["devices"]


async def test_the_next_owner_of_a_namespace_does_not_see_its_former_claims():
    docs = preempting()
    docs.history.tick(docs.cluster.now)
    (past,) = docs.history.known()

    past.leave_namespaces({"default"})

    assert past.devices == PreemptionDevices((DeviceView(**DEVICE),))
    assert "default" not in past.namespaces


@pytest.mark.parametrize(
    "devices",
    [
        [["d", "p"]], [["d", "p", ""]], [["d", "p", "x\x1b"]], [["d", "p", "x" * 300]],
        [["d", "p", "x", "no\n"]], [["d", "p", "x", "ns", "<b>"]], [["d", "p", "x", "ns", "c", 7]],
        [["d", "p", "x", "ns", "c", "p", -1]], [["d", "p", "x"]] * 17, "all",
    ],
    ids=lambda devices: str(devices)[:40],
)  # fmt: skip
def test_devices_that_no_scheduler_writes_are_left_out(devices):
    good = {**GOOD, "devices": [["d", "p", "x", "ns", "c", "low", 1], ["d", "p/q", "y"]]}

    def decoded(item: dict[str, Any]) -> object:
        return kept_preemptions.decoded(msgspec.Raw(json.dumps(item).encode()), NOW, 0.0)

    assert decoded(good) is not None
    assert decoded({**GOOD, "devices": devices}) is None
    assert decoded({**GOOD, "moreDevices": -1}) is None


@pytest.mark.parametrize("settle", [False, True])
def test_a_plan_says_which_devices_it_would_free(settle):
    machine, copy = preempting(schedule=False).cluster.machine, MachineCopy()
    deque(copying(machine, copy), maxlen=0)
    settings = load.parse(f"{HEAD}{ON}", source="test")
    state = State([*encoded(copy)], settings, EPOCH)
    applied = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "high"}}
    spec = {"schedulerName": OURS, "priority": 100, "containers": [{"name": "c", "image": "c"}]}
    spec["resourceClaims"] = [{"name": "c", "resourceClaimName": "high-claim"}]

    answer = what_if(state, WhatIfRequest(objects=({**applied, "spec": spec},), settle=settle))

    (planned,) = answer.items
    assert planned.decision == "Preempting"
    assert planned.devices == PreemptionDevices((DeviceView(**HELD),))
