"""When a lease may be taken: every state that a candidate or its holder may see."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pytest

from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.leader_election import LeaderElectionConfig, LeaderElector
from tests.kube.fixtures import NOW, until
from tests.support.fake_api import FakeApi, Fault

KEY: Final = "kube-system/preemptive-scheduler"
#: Ours: the lease duration, the renew deadline and the retry period, in seconds.
OURS: Final = (15.0, 10.0, 2.0)

#: The spec of a lease: any JSON; `None` where there is no lease.
Spec: TypeAlias = Any


def held(seconds: Any = 15, renewed: int = 0) -> Spec:
    return {
        "holderIdentity": "other",
        "leaseDurationSeconds": seconds,
        "acquireTime": "2025-12-31T00:00:00.000000Z",
        "renewTime": f"2025-12-31T00:00:{renewed:02}.000000Z",
        "leaseTransitions": 4,
    }


RELEASED: Final = held(1) | {"holderIdentity": ""}
GONE: Final = None


@dataclass
class World:
    """A server whose lease changes as time goes on, which it does while a candidate waits."""

    api: FakeApi
    #: When the lease has which spec.
    changes: list[tuple[float, Spec]]
    now: float = 0.0

    def change(self) -> None:
        while self.changes and self.changes[0][0] <= self.now:
            _, spec = self.changes.pop(0)
            if self.api.store.has("leases", KEY):
                self.api.store.remove("leases", KEY)
            if spec is not GONE:
                namespace, name = KEY.split("/")
                metadata = {"namespace": namespace, "name": name}
                self.api.store.put("leases", {"metadata": metadata, "spec": spec})

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.change()
        await asyncio.sleep(0)

    def elector(self, client: Client) -> LeaderElector:
        self.change()
        settings = LeaderElectionConfig("kube-system", "preemptive-scheduler", "us", *OURS)
        sleeper = Sleeper(jitter=lambda: 0.0, sleep=self.sleep)
        return LeaderElector(client, settings, lambda: NOW, sleeper, lambda: self.now)


#: What a candidate sees, by the seconds since it began; and when it may take the lease.
CANDIDATE: Final[dict[str, tuple[Sequence[tuple[float, Spec]], float]]] = {
    "there is none": ([], 0),
    "it is released": ([(0, RELEASED)], 0),
    "it is released later": ([(0, held(60)), (20, RELEASED)], 20),
    "its holder is gone": ([(0, held())], 15),
    "its holder renews it": ([(0, held()), (8, held(15, 8)), (16, held(15, 16))], 16 + 15),
    "its holder trusts it for longer": ([(0, held(60))], 60),
    "its holder trusts it for less, it says": ([(0, held(5))], 15),
    "it is empty": ([(0, {})], 15),
    "it has no spec": ([(0, "")], 15),
    "it is emptied": ([(0, held(60)), (20, {})], 20 + 60),
    "it is emptied twice": ([(0, held()), (4, {}), (8, held(15, 8)), (9, {})], 9 + 15),
    "it is emptied again between two looks": ([(0, {}), (7, {})], 7 + 15),
    "it is emptied, and its holder renews it": ([(0, held()), (4, {}), (6, held(15, 6))], 6 + 15),
    "it is deleted": ([(0, held(60)), (20, GONE)], 20 + 60),
    "it is deleted when it was empty": ([(0, {}), (6, GONE)], 6 + 15),
    "it is deleted, and made empty": ([(0, held()), (6, GONE), (10, {})], 10 + 15),
    "only its holder is removed": ([(0, held()), (6, held() | {"holderIdentity": ""})], 6 + 15),
    "a release without a time": ([(0, RELEASED | {"renewTime": None})], 15),
    "a release without a holder": ([(0, {"leaseDurationSeconds": 1, "renewTime": "x"})], 15),
    "a duration of years": ([(0, held(2**31 - 1))], 600),
    "a duration without end": ([(0, held(1e308))], 600),
    "a duration below zero": ([(0, held(-5))], 15),
    "a duration that is no number": ([(0, held("60"))], 15),
    "a duration that is true": ([(0, held(True))], 15),
    "no duration": ([(0, held(None))], 15),
    "its duration is damaged later": ([(0, held(60)), (20, held("x"))], 20 + 60),
    "a holder that is no name": ([(0, held() | {"holderIdentity": {"a": []}})], 15),
    "a spec that is a list": ([(0, [held()])], 15),
    "numbers beyond an int32": ([(0, RELEASED | {"leaseTransitions": 2**31 - 1})], 0),
    "texts for numbers": ([(0, RELEASED | {"leaseTransitions": "x"})], 0),
}


@pytest.mark.parametrize("case", CANDIDATE)
async def test_a_candidate_takes_the_lease_no_earlier_and_not_much_later(api, client, case):
    changes, at = CANDIDATE[case]
    world = World(api, list(changes))
    elector = world.elector(client)

    async with asyncio.timeout(5):
        await elector.acquire()

    assert elector.is_leader
    # One look finds the last change; where that is to be waited out, another one finds the end.
    looks = 2 if changes and at > changes[-1][0] else 1
    assert at <= world.now < at + looks * OURS[2]
    spec = api.store.get("leases", KEY)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("us", 15)
    assert 0 <= spec["leaseTransitions"] < 2**31


#: What its holder sees a second after it took the lease, and whether it goes on.
HOLDER: Final[dict[str, tuple[Spec, bool]]] = {
    "it is emptied": ({}, True),
    "it has no spec": ("", True),
    "it is deleted": (GONE, True),
    "it is released by another": (RELEASED, True),
    "it is damaged": ([1], True),
    "it is another's": (held(), False),
    "it is another's for less than no time": (held(-1), False),
}


@pytest.mark.parametrize("case", HOLDER)
async def test_its_holder_goes_on_unless_another_one_is_named(api, client, case):
    spec, goes_on = HOLDER[case]
    world = World(api, [(1, spec)])
    elector = world.elector(client)
    await elector.acquire()
    holding = asyncio.create_task(elector.keep_renewing())

    await until(lambda: holding.done() or world.now > 20)

    assert elector.is_leader == goes_on
    holder = api.store.get("leases", KEY)["spec"]["holderIdentity"]
    assert holder == ("us" if goes_on else "other")
    holding.cancel()


async def test_one_that_was_suspended_does_not_take_an_emptied_lease_back(api, client):
    world = World(api, [(60, {})])
    elector = world.elector(client)
    await elector.acquire()
    world.now = 60
    world.change()

    assert not elector.is_leader
    async with asyncio.timeout(5):
        await elector.keep_renewing()

    assert not elector.is_leader
    assert api.store.get("leases", KEY)["spec"] == {}


#: What something on the way may answer to a write that it has not passed on.
FOREIGN: Final[dict[str, Any]] = {
    "an empty object": {},
    "a Status": {"kind": "Status", "metadata": {}, "status": "Success"},
    "the lease as it was": {"kind": "Lease", "metadata": {"resourceVersion": "1"}, "spec": held()},
}


@pytest.mark.parametrize("answer", FOREIGN)
@pytest.mark.parametrize(("method", "spec"), [("POST", GONE), ("PUT", RELEASED)])
async def test_only_a_lease_that_was_written_makes_a_leader(api, client, method, spec, answer):
    elector = World(api, [(0, spec)]).elector(client)
    body = json.dumps(FOREIGN[answer]).encode()
    api.inject(Fault(method, "/leases", times=3, status=200, body=body))

    async with asyncio.timeout(5):
        await elector.acquire()

    assert api.store.get("leases", KEY)["spec"]["holderIdentity"] == "us"


@pytest.mark.parametrize("answer", FOREIGN)
async def test_a_lease_that_was_not_written_is_not_renewed(api, client, answer):
    world = World(api, [])
    elector = world.elector(client)
    await elector.acquire()
    body = json.dumps(FOREIGN[answer]).encode()
    api.inject(Fault("PUT", "/leases", times=1000, status=200, body=body))
    api.inject(Fault("POST", "/leases", times=1000, status=200, body=body))

    holding = asyncio.create_task(elector.keep_renewing())
    await until(lambda: world.now > OURS[1] or holding.done())

    assert not elector.is_leader
    holding.cancel()
