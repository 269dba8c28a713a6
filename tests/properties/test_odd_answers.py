"""Whatever answers in place of the API server, an informer ends up with what is really there.

Pods, nodes and budgets change at random while answers are lost, replaced by those of something on
the way, or cut; while lists come by streams or are refused as such; while watches are silent,
closed, expired or get invalid lines; and while etcd is put back to an earlier state. Until the
faults end, no object may be reported as gone that was never deleted.
"""

import asyncio
import contextlib
import json
from collections import Counter

import pytest

from scheduler.kube.auth.cluster_access import ClusterAccess
from scheduler.kube.auth.credentials import FixedHeaders
from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.client.transport import HttpTransport
from scheduler.kube.watch.informer import Informer, InformerSettings
from scheduler.kube.watch.resources import PDBS
from scheduler.model.events import BudgetGone, BudgetObserved, Event
from tests.oracle.generating.dice import Dice
from tests.support.fake_api import FakeApi, Fault

HISTORIES = 24
STEPS = 30
KIND = "poddisruptionbudgets"
#: The requests of the two ways to list, of which each is drawn twice as often as others.
PAGES = (r"limit=\d",) * 2
STREAMS = ("sendInitialEvents=",) * 2

BODIES = (
    b"",
    b"<html>Not Found</html>",
    b"404 page not found\n",
    b"null",
    b"[]",
    b"{}",
    b"{" * 2000,
    b"\xff\xfe",
    b'{"kind":"Status","metadata":{}}',
    b'{"kind":"Status","reason":"NotFound","code":404}',
    b'{"kind":"Table","metadata":{"resourceVersion":"9"}}',
    b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[]}',
    b'{"kind":"PodDisruptionBudgetList","metadata":{},"items":[]}',
    b'{"kind":"APIResourceList","resources":[]}',
    b'{"type":"ERROR","object":{"kind":"Status","code":500}}\n',
    b'{"type":"DELETED","object":{"metadata":{}}}\n',
)
#: Those that look like valid answers are drawn more often.
STATUSES = (200,) * 8 + (404,) * 6 + (204, 301, 400, 401, 403, 408, 409, 413, 421, 429, 500, 503)
LINES = (
    b"\n",
    b"\r\n",
    b"<html>\n",
    b'{"type":"BOOKMARK","object":{"metadata":{}}}\n',
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n',
    b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}\n',
    b'{"type":"UNHEARD","object":[]}\n',
)


class Life:
    """One server, one informer, and what the informer reported."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(0xA45, seed)
        self.api = FakeApi()
        #: The version of each object that was reported, by key.
        self.told: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        #: How often each was deleted, and how often it was reported as gone.
        self.deleted: Counter[str] = Counter()
        self.gone: Counter[str] = Counter()

    def take(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, BudgetObserved):
                metadata = event.budget.metadata
                self.told[metadata.key] = metadata.resource_version
            elif isinstance(event, BudgetGone):
                self.gone[event.key] += 1
                assert self.gone[event.key] <= self.deleted[event.key], f"{event.key} is there"
                del self.told[event.key]

    def there(self) -> dict[str, str]:
        """Return the version of each object, by key."""
        found = (each["metadata"] for each in self.api.store.all(KIND))
        return {f"ns/{each['name']}": each["resourceVersion"] for each in found}

    def change(self) -> None:
        name = f"b{self.dice.number(0, 5)}"
        if self.api.store.has(KIND, f"ns/{name}") and self.dice.chance(0.4):
            self.deleted[f"ns/{name}"] += 1
            self.api.store.remove(KIND, f"ns/{name}")
        else:
            self.api.store.put(KIND, {"metadata": {"name": name, "namespace": "ns"}})

    def restore(self) -> None:
        """Put etcd back: versions go backwards, and some of the objects are not there."""
        store = self.api.store
        store.listeners.remove(self.api._changed)
        keys = sorted(self.there())
        kept = [store.get(KIND, key) for key in keys if self.dice.chance(0.5)]
        for key in keys:
            self.deleted[key] += 1
            store.remove(KIND, key)
        store.turn_back(10 + 2 * len(keys))
        for each in kept:
            store.put(KIND, each)
        store.listeners.append(self.api._changed)
        self.api.close_watches()

    def spoil(self) -> None:
        """Have something go wrong with requests from now on."""
        dice = self.dice
        path = dice.pick((KIND, "watch=true", *PAGES, *STREAMS, "/apis"))
        fault = Fault("GET", path, times=dice.number(1, 6))
        match dice.number(0, 3):
            case 0:
                fault.cut = True
            case 1:
                fault.lose = True
            case _:
                fault.status, fault.body = dice.pick(STATUSES), dice.pick(BODIES)
        self.api.inject(fault)
        if dice.chance(0.5):
            self.api.expire_watches()

    def step(self) -> None:
        """Do something, and count it."""
        happenings = (
            (0.45, "change", self.change),
            (0.65, "spoil", self.spoil),
            (0.7, "gate", self.switch_gate),
            (0.75, "say", lambda: self.api.say(self.dice.pick(LINES))),
            (0.82, "close", self.api.close_watches),
            (0.87, "expire", self.api.expire_watches),
            (0.9, "restore", self.restore),
            (0.95, "freeze", self.freeze),
            (1.0, "absent", self.vanish),
        )
        chance = self.dice.number(0, 99) / 100
        name, happen = next((name, do) for below, name, do in happenings if chance < below)
        happen()
        self.counts[name] += 1

    def freeze(self) -> None:
        self.api.frozen = True
        asyncio.get_running_loop().call_later(0.05, self.thaw)

    def thaw(self) -> None:
        self.api.frozen = False

    def switch_gate(self) -> None:
        """Have another server answer, whose feature gate for lists by a stream differs."""
        self.api.streams_lists = not self.api.streams_lists

    def vanish(self) -> None:
        """Have the server not know the resource for a moment, once, as while it starts."""
        if not self.counts["absent"]:
            self.api.expire_watches()
            self.api.absent.add(KIND)
            asyncio.get_running_loop().call_later(0.02, self.api.absent.clear)


async def lived(seed: int) -> Life:
    """Let an informer live through a history; it must know what is there at the end."""
    life = Life(seed)

    async def sleep(seconds: float) -> None:
        # A hundred times faster. What is missing is looked for twice, 50 ms apart.
        await asyncio.sleep(seconds / 100)

    async with contextlib.AsyncExitStack() as stack:
        await life.api.start()
        stack.push_async_callback(life.api.stop)
        access = ClusterAccess(life.api.url, FixedHeaders())
        transport = await stack.enter_async_context(HttpTransport(access, "test"))
        settings = InformerSettings(
            silence_seconds=0.05,
            quiet_seconds=0.1,
            first_pause_seconds=0.1,
            longest_pause_seconds=1.0,
            page_objects=2,
        )
        pauses = Sleeper(lambda: 0.0, sleep)
        informer = Informer(PDBS, Client(transport), life.take, pauses, settings)
        running = asyncio.create_task(informer.run())
        for _ in range(STEPS):
            life.step()
            await asyncio.sleep(life.dice.pick((0, 0.001, 0.005)))
        life.api.clear_faults()
        async with asyncio.timeout(10):
            while life.told != life.there() or not informer.synced.is_set():
                assert not running.done(), running.exception()
                await asyncio.sleep(0.005)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    return life


@pytest.mark.parametrize("part", range(4))
async def test_an_informer_knows_what_is_there_at_the_end(part: int):
    counts: Counter[str] = Counter()
    for seed in range(part, HISTORIES, 4):
        counts += (await lived(seed)).counts

    # Nothing is proved unless all of it happens.
    happenings = {
        "change",
        "spoil",
        "gate",
        "say",
        "close",
        "expire",
        "restore",
        "freeze",
        "absent",
    }
    assert happenings <= set(counts), json.dumps(counts)
