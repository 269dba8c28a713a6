"""The history is written into a ring of ConfigMaps: not often, and never over what others wrote."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
import zstandard

from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.release_owner import ReleaseOwner
from scheduler.kube.write import history_configmaps
from scheduler.model import times
from scheduler.model.api.objects import LocalObject, ObjectMeta
from scheduler.model.events import NamespaceObserved, NodeGone
from scheduler.observe.api import past_attempts
from scheduler.service import history_keeper
from scheduler.service.clock import Clock
from scheduler.service.history_keeper import HistoryKeeper
from tests.support.api_documents import Documents
from tests.support.builders import node, pod
from tests.support.fake_api import FakeApi, Fault, Recorded


class Kept:
    """A cluster in memory whose history is kept at an API server."""

    def __init__(self, api: FakeApi, client: Client, docs: Documents | None = None) -> None:
        self.api = api
        self.docs = docs or Documents()
        self.leads = True
        self.told: list[tuple[str, Any]] = []
        owner = ReleaseOwner("us", "", lambda: 0.0)
        cluster = self.docs.cluster

        async def pause(_: float) -> None:
            """Take no time."""

        self.keeper = HistoryKeeper(
            self.docs.history,
            cluster.machine.cluster,
            history_configmaps.stored_history("us", "h", owner),
            client,
            lambda: self.leads,
            Clock(lambda: cluster.now, lambda: cluster.now),
            Sleeper(lambda: 0.0, pause),
            lambda event, **fields: self.told.append((event, fields.get("problem"))),
        )

    async def preempt(self, number: int = 0) -> None:
        cluster = self.docs.cluster
        cluster.add(node(f"n{number}").cpu("4"), pod(f"low{number}").on(f"n{number}").cpu("4"))
        cluster.schedule(pod(f"high{number}").cpu("4").priority(9))
        cluster.finish_terminating()
        cluster.wait(2)
        cluster.drain()
        self.docs.history.tick(cluster.now)

    async def save(self) -> list[str]:
        """Return the requests of one look, without those for attempts."""
        return [each for each in await self.requests() if not each.endswith("h-attempts")]

    async def requests(self) -> list[str]:
        """Return the requests of one look."""
        before = len(self.api.requests)
        await self.keeper.save()
        return [f"{each.verb} {_name(each)}" for each in self.api.requests[before:]]

    async def attempts(self, name: str) -> list[str]:
        """Return the messages that are shown of a pod."""
        found = await self.docs.get("pods/{namespace}/{name}", namespace="default", name=name)
        return [each["message"].partition(" are available")[0] for each in found["history"]]

    async def shown(self) -> set[str]:
        items = (await self.docs.get("preemptions"))["items"]
        return {each["preemptor"]["name"] for each in items}


def _name(request: Recorded) -> str:
    is_new = request.verb == "create"
    return request.body["metadata"]["name"] if is_new else request.path.rpartition("/")[2]


def stored(api: FakeApi) -> list[bytes]:
    """Return the texts of the parts that exist."""
    found = sorted(api.store.all("configmaps"), key=lambda each: each["metadata"]["name"])
    found = [each for each in found if each["metadata"]["name"] != "h-attempts"]
    data = (each["binaryData"][history_configmaps.KEY] for each in found)
    return [zstandard.decompress(base64.b64decode(each)) for each in data]


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    made = FakeApi()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[Client]:
    async with HttpTransport(ClusterAccess(api.url, FixedHeaders()), "tests") as transport:
        yield Client(transport)


@pytest.fixture
async def kept(api: FakeApi, client: Client) -> Kept:
    made = Kept(api, client)
    assert await made.keeper._load()
    return made


async def test_a_part_is_written_at_most_every_30_seconds_and_not_while_nothing_changes(kept):
    assert await kept.save() == []

    await kept.preempt()
    assert await kept.save() == ["create h-0"]
    assert await kept.save() == []
    await kept.preempt(1)
    assert await kept.save() == []
    kept.docs.cluster.wait(history_keeper.WRITE_SECONDS)
    assert await kept.save() == ["patch h-0"]
    kept.docs.cluster.wait(history_keeper.WRITE_SECONDS)
    kept.docs.history.tick(kept.docs.cluster.now)
    assert await kept.save() == []


async def test_a_process_that_stops_writes_at_once(kept, api):
    for number in range(2):
        await kept.preempt(number)
        await kept.keeper.leave()

    assert b"high1" in stored(api)[0]


async def test_the_next_leader_goes_on_where_the_last_one_has_ended(kept, api, client):
    await kept.preempt()
    await kept.save()

    later = Kept(api, client)
    later.docs.cluster.wait(60)
    assert await later.keeper._load()
    assert await later.shown() == {"high0"}
    assert await later.save() == []
    await later.preempt(1)
    await later.save()

    assert await later.shown() == {"high0", "high1"}
    assert len(stored(api)) == 1
    assert b"high0" in stored(api)[0]
    assert b"high1" in stored(api)[0]


async def test_what_policies_refused_is_written_with_it_and_when_a_leader_stops(kept, api, client):
    refusals = kept.docs.history.refusals
    refusals.add("gold", "Enforce", kept.docs.cluster.now)
    await kept.preempt()
    await kept.save()
    for _ in range(2):
        refusals.add("gold", "Enforce", kept.docs.cluster.now)
    assert await kept.save() == []
    await kept.keeper.leave()

    later = Kept(api, client)
    later.docs.cluster.wait(60)
    await later.keeper._load()

    found = await later.docs.get("report")
    assert found["policies"] == [{"policy": "gold", "mode": "Enforce", "attempts": 3}]
    assert found["knownRefusalsSince"] < found["now"]


async def test_an_old_leader_does_not_overwrite_what_a_new_one_has_written(kept, api, client):
    await kept.preempt()
    await kept.save()
    later = Kept(api, client)
    later.docs.cluster.wait(60)
    await later.keeper._load()
    await later.preempt(1)
    await later.save()

    kept.docs.cluster.wait(60)
    await kept.preempt(2)
    assert "patch h-0" in await kept.save()  # refused, as the version has changed
    kept.leads = False
    kept.docs.cluster.wait(60)
    assert await kept.save() == []

    assert b"high1" in stored(api)[0]
    assert b"high2" not in stored(api)[0]


async def test_a_full_ring_drops_the_oldest(kept, api, monkeypatch):
    monkeypatch.setattr(history_keeper, "MAX_BYTES", 400)
    for number in range(40):
        await kept.preempt(number)
        kept.docs.cluster.wait(history_keeper.WRITE_SECONDS)
        await kept.save()
    kept.docs.cluster.wait(history_keeper.WRITE_SECONDS)
    await kept.save()

    texts = stored(api)
    assert len(texts) == history_configmaps.PARTS
    assert max(len(zstandard.compress(each)) for each in texts) <= 400
    whole = b"".join(texts)
    assert b'"high39"' in whole
    assert b'"high0"' not in whole


@pytest.mark.parametrize("status", [403, 409, 422, 429, 500])
async def test_a_write_that_is_refused_is_tried_again_and_told_once(kept, api, status):
    await kept.preempt()
    api.inject(Fault("POST", "configmaps", times=3, status=status))

    for _ in range(6):
        await kept.save()
        kept.docs.cluster.wait(200)

    assert b"high0" in stored(api)[0]
    assert len(kept.told) <= 1


async def test_without_the_right_to_read_it_nothing_is_kept(api, client):
    api.forbidden.add(("get", "configmaps"))
    made = Kept(api, client)

    await made.keeper.run()
    await made.preempt()

    assert await made.save() == []
    assert [event for event, _ in made.told] == ["history_not_kept"]


async def test_parts_that_were_deleted_are_made_again(kept, api):
    await kept.preempt()
    await kept.save()
    api.store.remove("configmaps", "us/h-0")

    await kept.preempt(1)
    for _ in range(2):
        kept.docs.cluster.wait(history_keeper.WRITE_SECONDS)
        await kept.save()

    assert b"high0" in stored(api)[0]
    assert b"high1" in stored(api)[0]


async def reject(kept: Kept, name: str, cpu: str = "9") -> None:
    """Have a pod tried, or tried again after its size has changed."""
    kept.docs.cluster.schedule(pod(name).cpu(cpu))


async def test_attempts_are_written_once_a_minute_and_not_when_they_are_repeated(kept):
    await reject(kept, "waits")
    assert await kept.requests() == ["create h-attempts"]
    await reject(kept, "later")
    assert await kept.requests() == []
    kept.docs.cluster.wait(history_keeper.ATTEMPTS_SECONDS)
    assert await kept.requests() == ["patch h-attempts"]

    before = kept.docs.history.attempts["unschedulable"]
    kept.docs.cluster.wait(history_keeper.ATTEMPTS_SECONDS)
    kept.docs.cluster.add(node("small").cpu("1"))
    kept.docs.cluster.observe(NodeGone("small"))
    kept.docs.cluster.wait(history_keeper.ATTEMPTS_SECONDS)
    kept.docs.cluster.drain()
    assert kept.docs.history.attempts["unschedulable"] > before
    assert await kept.requests() == []


async def test_the_next_leader_knows_what_was_tried_and_goes_on_with_it(kept, api, client):
    kept.docs.cluster.add(node("n1").cpu("1"))
    for name in ("waits", "bound-meanwhile", "gone"):
        await reject(kept, name)
    kept.docs.cluster.delete("gone")
    await kept.save()

    later = Kept(api, client)
    later.docs.cluster.wait(60)
    later.docs.cluster.add(node("n1").cpu("1"), node("n2").cpu("1"))
    await reject(later, "waits")
    later.docs.cluster.add(pod("bound-meanwhile").on("n1"))
    assert await later.keeper._load()

    assert await later.attempts("waits") == ["0/1 nodes", "0/2 nodes"]
    assert await later.attempts("bound-meanwhile") == ["0/1 nodes"]
    assert await later.attempts("gone") == ["0/1 nodes"]
    later.docs.cluster.wait(past_attempts.MAX_LEFT_AGE)
    later.docs.history.tick(later.docs.cluster.now)
    assert await later.attempts("waits") == ["0/1 nodes", "0/2 nodes"]
    with pytest.raises(LookupError):
        await later.attempts("gone")


async def test_a_namespace_that_is_made_again_does_not_show_the_attempts_of_the_old_one(
    kept, api, client
):
    await reject(kept, "gone")
    kept.docs.cluster.delete("gone")
    await kept.save()

    later = Kept(api, client)
    later.docs.cluster.wait(600)
    meta = ObjectMeta(name="default", creation_timestamp=times.stamp(later.docs.cluster.now))
    later.docs.cluster.observe(NamespaceObserved(LocalObject(meta)))
    assert await later.keeper._load()

    with pytest.raises(LookupError):
        await later.attempts("gone")
