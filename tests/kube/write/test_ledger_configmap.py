"""The ledger is written down in one ConfigMap, and nothing that another instance wrote is lost."""

import asyncio
import contextlib

import pytest

from scheduler.kube.client.client import Client
from scheduler.kube.write.ledger_configmap import KEY, LOOK_SECONDS, LedgerStore
from scheduler.kube.write.writer import Writer, WriterSettings
from scheduler.kube.write.writer_settings import Patience
from scheduler.model.effects import Effect, Evict, SaveLedger
from scheduler.model.events import EffectDone, FailureKind
from scheduler.model.policies import BudgetScope
from scheduler.state.preemption.ledger import EvictionEntry, Ledger, LedgerError
from tests.kube.fixtures import NOW, Heard, Outcomes, Waits, ref, until, writes
from tests.support.fake_api import FakeApi, Fault, pod

MAP = "us/ours-ledger"


def text(*uids: str) -> str:
    """Return a ledger that counts some victims."""
    ledger = Ledger()
    for uid in uids:
        ledger.count_victim(EvictionEntry(1.0, uid, "default", "o", "n1", frozenset({"gold"})))
    return ledger.text(0.0)


def stored(api: FakeApi) -> int:
    """Return how many victims count in what is written down."""
    ledger = Ledger()
    ledger.merge(api.store.get("configmaps", MAP)["data"][KEY])
    return len(ledger.victims("gold", BudgetScope.CLUSTER, "", 0.0))


class Instance:
    """One scheduler's store and writer."""

    def __init__(self, client: Client, outcomes: Outcomes, waits: Waits, **more: bool) -> None:
        self.recalled: list[str] = []
        self.leads = True
        self.client = client
        self.outcomes = outcomes
        self.store = LedgerStore("us", "ours-ledger", self.recalled.append)
        settings = WriterSettings(patience=Patience(seconds=1.0), ledger=self.store, **more)
        self.writer = Writer(
            client, outcomes.append, lambda: True, lambda: NOW, waits.sleeper, settings
        )

    async def submit(self, effect: Effect) -> object:
        told = len(self.outcomes)
        self.writer.submit(effect)
        await until(lambda: len(self.outcomes) > told)
        return self.outcomes[-1]

    async def look(self) -> None:
        await self.store.look(self.client, lambda: self.leads)

    async def remember(self, *uids: str) -> object:
        return await self.submit(SaveLedger(text(*uids), 1))


@pytest.fixture
def instance(writing_client: Client, outcomes: Outcomes, waits: Waits) -> Instance:
    return Instance(writing_client, outcomes, waits)


async def test_it_is_made_once_and_then_replaced(api: FakeApi, instance: Instance):
    assert await instance.store.load(instance.client) == ""

    first = await instance.remember("a")
    second = await instance.remember("a", "b")

    assert isinstance(first, EffectDone)
    assert isinstance(second, EffectDone)
    assert writes(api) == ["create configmaps", "patch configmaps"]
    assert stored(api) == 2


async def test_what_an_earlier_leader_has_written_is_read(
    api: FakeApi, instance: Instance, writing_client: Client, outcomes: Outcomes, waits: Waits
):
    await instance.remember("a")
    later = Instance(writing_client, outcomes, waits)

    assert await later.store.load(later.client) == text("a")
    await later.remember("a", "b")

    assert stored(api) == 2
    assert later.recalled == []


async def test_what_another_instance_has_written_meanwhile_is_kept_and_passed_on(
    api: FakeApi, instance: Instance, writing_client: Client, outcomes: Outcomes, waits: Waits
):
    await instance.remember("a")
    other = Instance(writing_client, outcomes, waits)
    await other.store.load(other.client)
    await other.remember("a", "theirs")

    outcome = await instance.remember("a", "ours")

    assert isinstance(outcome, EffectDone)
    assert stored(api) == 3
    assert instance.recalled == [text("a", "theirs")]


async def test_a_new_leader_waits_until_the_ledger_can_be_read(
    api: FakeApi, instance: Instance, heard: Heard, waits: Waits
):
    await instance.remember("a")
    api.inject(Fault("GET", "configmaps", status=500))
    api.inject(Fault("GET", "configmaps", status=403))

    assert await instance.store.load_with_retries(instance.client, waits.sleeper) == text("a")

    assert waits.slept == [0.1, 0.2]
    assert [kind for kind, _ in heard.ledger] == ["unreadable", "unreadable"]


async def test_a_new_leader_reads_no_ledger_from_what_something_else_has_answered(
    api: FakeApi, leader: Instance, outcomes: Outcomes, waits: Waits
):
    new = Instance(leader.client, outcomes, waits)
    api.inject(Fault("GET", "configmaps", times=2, status=200, body=b'{"metadata":{}}'))

    loaded = await new.store.load_with_retries(new.client, waits.sleeper)

    assert loaded == text("a", "b")


async def test_without_the_right_to_read_it_a_new_leader_begins_without_a_ledger(
    api: FakeApi, instance: Instance, heard: Heard, waits: Waits
):
    api.forbidden.add(("get", "configmaps"))

    assert await instance.store.load_with_retries(instance.client, waits.sleeper) == ""

    assert waits.slept == []
    assert [kind for kind, _ in heard.ledger] == ["forbidden"]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_write_whose_answer_is_lost_is_found_out(
    api: FakeApi, instance: Instance, method: str
):
    if method == "PATCH":
        await instance.remember("a")
    api.inject(Fault(method, "configmaps", lose=True))

    outcome = await instance.remember("a", "b")

    assert isinstance(outcome, EffectDone)
    assert stored(api) == 2
    assert instance.recalled == []


@pytest.mark.parametrize("body", [b"{}", b'{"kind":"Status"}', b'{"data":{"ledger.json":1}}'])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_write_that_something_else_has_answered_is_not_taken_for_done(
    api: FakeApi, instance: Instance, method: str, body: bytes
):
    if method == "PATCH":
        await instance.remember("a")
    api.inject(Fault(method, "configmaps", times=2, status=200, body=body))

    outcome = await instance.remember("a", "b")

    assert isinstance(outcome, EffectDone)
    assert stored(api) == 2


async def test_a_deleted_config_map_is_created_again(api: FakeApi, instance: Instance):
    await instance.remember("a")
    api.store.remove("configmaps", MAP)

    assert isinstance(await instance.remember("a", "b"), EffectDone)

    assert stored(api) == 2


async def test_without_the_right_to_write_it_fails(
    api: FakeApi, instance: Instance, outcomes: Outcomes
):
    api.forbidden.add(("create", "configmaps"))

    await instance.remember("a")

    assert outcomes.kinds() == [FailureKind.FORBIDDEN]


# What happens to the ConfigMap between two writes


def change(api: FakeApi, data: dict[str, str] | None) -> None:
    """Replace the data of the ConfigMap, or delete it."""
    if data is None:
        api.store.remove("configmaps", MAP)
    else:
        found = api.store.get("configmaps", MAP)
        api.store.put("configmaps", {"metadata": found["metadata"], "data": data})


#: What else may be in the ConfigMap; how many victims are counted after that; what is told.
CHANGES = {
    "it is deleted": (None, 2, ["changed"]),
    "it is emptied": ({}, 2, ["changed"]),
    "its text is emptied": ({KEY: ""}, 2, ["changed"]),
    "its text is cut": ({KEY: text("a", "b")[:-9]}, 2, ["changed"]),
    "its text is that of another program": ({KEY: "[]"}, 2, ["changed"]),
    "its entries are damaged": ({KEY: text("a", "b").replace("1.0", "-1")}, 2, ["changed"]),
    "it counts less": ({KEY: text("a")}, 2, ["changed"]),
    "it counts nothing": ({KEY: text()}, 2, ["changed"]),
    "it counts more": ({KEY: text("a", "b", "c")}, 3, ["changed"]),
    "it has more keys": ({KEY: text("a", "b"), "more": "x"}, 2, []),
}


@pytest.fixture
async def leader(client: Client, outcomes: Outcomes, waits: Waits) -> Instance:
    """An instance that has written two victims."""
    made = Instance(client, outcomes, waits)
    await made.store.load(client)
    await made.remember("a", "b")
    return made


@pytest.mark.parametrize("case", CHANGES)
async def test_a_leader_writes_again_what_something_else_has_changed(
    api: FakeApi, leader: Instance, heard: Heard, case: str
):
    data, counted, told = CHANGES[case]
    change(api, data)

    await leader.look()

    assert stored(api) == counted
    assert [kind for kind, _ in heard.ledger] == told
    change(api, data)
    known = ("a", "b", "c")[:counted]
    assert isinstance(await leader.remember(*known, "d"), EffectDone)
    assert stored(api) == counted + 1
    before = len(api.requests)
    await leader.look()
    assert {each.verb for each in api.requests[before:]} == {"get"}


@pytest.mark.parametrize("case", [*CHANGES][:6])
async def test_a_standby_remembers_the_last_sound_text(
    api: FakeApi, leader: Instance, outcomes: Outcomes, waits: Waits, case: str
):
    standby = Instance(leader.client, outcomes, waits)
    standby.leads = False
    await standby.look()
    change(api, CHANGES[case][0])
    await standby.look()

    standby.leads = True
    loaded = Ledger()
    for each in [await standby.store.load(standby.client), *standby.recalled]:
        with contextlib.suppress(LedgerError):
            loaded.merge(each)
    await standby.look()

    assert len(loaded.victims("gold", BudgetScope.CLUSTER, "", 0.0)) == 2
    assert stored(api) == 2


async def test_labels_of_others_do_not_bring_back_what_was_taken_back(
    api: FakeApi, leader: Instance
):
    change(api, {KEY: text("a", "b")})  # the same text, in another version

    assert isinstance(await leader.remember("a"), EffectDone)

    assert stored(api) == 1
    assert leader.recalled == []


async def test_a_write_that_is_faster_than_the_restoration_wins(
    api: FakeApi, leader: Instance, heard: Heard
):
    change(api, {})
    api.inject(Fault("PATCH", "configmaps", status=409))

    await leader.look()
    await leader.remember("a", "b", "c")
    await leader.look()

    assert stored(api) == 3
    assert [kind for kind, _ in heard.ledger] == ["changed"]


async def test_an_instance_that_does_not_lead_writes_nothing(api: FakeApi, leader: Instance):
    change(api, {})
    leader.leads = False
    api.requests.clear()

    await leader.look()
    await leader.store.look_last(leader.client, lambda: False)

    assert writes(api) == []
    assert len(api.requests) == 1


async def test_a_leader_that_stops_leaves_the_ledger_as_it_was(api: FakeApi, leader: Instance):
    change(api, None)

    await leader.store.look_last(leader.client, lambda: True)

    assert stored(api) == 2


async def test_nothing_is_written_where_nothing_was_counted(api: FakeApi, instance: Instance):
    await instance.store.load(instance.client)

    await instance.look()
    api.store.put("configmaps", {"metadata": {"namespace": "us", "name": "ours-ledger"}})
    await instance.look()
    change(api, {KEY: "x"})
    await instance.look()

    assert writes(api) == []
    change(api, {KEY: text("a")})
    await instance.look()
    assert writes(api) == []
    change(api, {})
    await instance.look()
    assert stored(api) == 1


async def test_a_look_during_a_write_leaves_it_alone(api: FakeApi, leader: Instance):
    api.inject(Fault("PATCH", "configmaps", hang=True))
    leader.writer.submit(SaveLedger(text("a", "b", "c"), 2))
    await until(lambda: writes(api)[-1:] == ["patch configmaps"])
    change(api, {})
    sent = len(writes(api))

    await leader.look()

    assert len(writes(api)) == sent
    await leader.writer.drain(0.0)


async def test_a_ledger_that_cannot_be_restored_is_told_and_tried_again(
    api: FakeApi, leader: Instance, heard: Heard
):
    change(api, {})
    api.inject(Fault("PATCH", "configmaps", status=422))
    api.inject(Fault("GET", "configmaps", status=500))

    for _ in range(3):
        await leader.look()

    assert [kind for kind, _ in heard.ledger] == ["changed", "not restored", "changed"]
    assert stored(api) == 2


async def test_the_looks_go_on_until_they_are_cancelled(
    api: FakeApi, leader: Instance, waits: Waits
):
    keeping = asyncio.create_task(leader.store.keep(leader.client, lambda: True, waits.sleeper))

    for data in ({}, None, {KEY: "x"}):
        change(api, data)
        await until(lambda: "gold" in str(api.store.all("configmaps")))

    keeping.cancel()
    assert set(waits.slept) == {LOOK_SECONDS}


# Strict evictions


def strict(api: FakeApi) -> Evict:
    return Evict(ref(api), "n1", ref(api), "preemptive-scheduler", 3, strict=True)


@pytest.mark.parametrize(
    ("status", "message", "want"),
    [
        (429, "Cannot evict pod as it would violate the pod's disruption budget.", "refused"),
        (500, "This pod has more than one PodDisruptionBudget, which the eviction", "refused"),
        (403, "pods is forbidden", "refused"),
        (
            422, "pods is forbidden: ValidatingAdmissionPolicy 'v' with binding 'v' denied request:"
            " failed expression: oldObject.metadata.uid == ''", "refused",
        ),
    ],
)  # fmt: skip
async def test_an_eviction_that_a_budget_forbids_is_refused_at_once(
    api: FakeApi, instance: Instance, outcomes: Outcomes, status: int, message: str, want: str
):
    api.store.put("pods", pod("a", node="n1"))
    body = f'{{"kind":"Status","message":"{message}"}}'.encode()
    api.inject(Fault("POST", "eviction", times=9, status=status, body=body))

    await instance.submit(strict(api))

    assert outcomes.kinds() == [FailureKind(want)]
    assert writes(api) == ["create pods/eviction"]


async def test_a_busy_server_is_asked_to_evict_again(
    api: FakeApi, instance: Instance, outcomes: Outcomes
):
    api.store.put("pods", pod("a", node="n1"))
    gone = b'{"kind":"Status","message":"pods \\"a\\" not found"}'
    api.inject(Fault("POST", "eviction", status=429))
    api.inject(Fault("POST", "eviction", status=404, body=gone))

    outcome = await instance.submit(strict(api))

    assert outcome == EffectDone(strict(api), changed=False)
    assert writes(api) == ["create pods/eviction"] * 2


async def test_with_evictions_only_no_victim_is_deleted(
    api: FakeApi, writing_client: Client, outcomes: Outcomes, waits: Waits
):
    api.store.put("pods", pod("a", node="n1"))
    api.inject(Fault("POST", "eviction", status=403))
    instance = Instance(writing_client, outcomes, waits, evict_only=True)
    lenient = Evict(ref(api), "n1", ref(api), "preemptive-scheduler", 3)

    await instance.submit(lenient)

    assert writes(api) == ["create pods/eviction"]
