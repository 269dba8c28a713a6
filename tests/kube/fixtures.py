"""Helpers of the tests in this folder."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.instrumentation import Instrumentation
from scheduler.kube.watch.informer import Informer
from scheduler.kube.write.writer import Writer
from scheduler.model.effects import Bind, Evict, PodRef
from scheduler.model.events import EffectDone, EffectFailed, Event, PodGone, PodObserved
from tests.support.fake_api import FakeApi, Fault

#: The wall clock of all tests: 2026-01-01T00:00:00Z and a bit.
NOW = 1_767_225_600.25

#: Patterns of the path of a watch that continues from a version, and of a list by a stream.
WATCH, STREAM = r"resourceVersion=\d", "sendInitialEvents="


def expired(path: str, times: int = 1) -> Fault:
    """Return a fault: the pages with such a path belong to a version that is too old."""
    body = b'{"kind":"Status","reason":"Expired"}'
    return Fault("GET", path, times=times, status=410, body=body)


@dataclass
class Heard(Instrumentation):
    """An observer that records reports."""

    requests: list[tuple[str, str, str]] = field(default_factory=list)
    retries: list[str] = field(default_factory=list)
    interruptions: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    ledger: list[tuple[str, str]] = field(default_factory=list)
    unowned_because: list[str] = field(default_factory=list)
    dropped: int = 0
    restarts: int = 0

    def request_ended(self, verb: str, resource: str, code: str, seconds: float) -> None:
        self.requests.append((verb, resource, code))

    def retried(self, verb: str, resource: str, problem: str) -> None:
        self.retries.append(f"{verb} {resource}")

    def restarted(self, resource: str) -> None:
        self.restarts += 1

    def interrupted(self, resource: str, problem: str) -> None:
        self.interruptions.append(problem)

    def undecodable(self, resource: str, key: str, problem: str) -> None:
        self.unreadable.append(key)

    def ledger_forbidden(self, problem: str) -> None:
        self.ledger.append(("forbidden", problem))

    def ledger_unreadable(self, problem: str) -> None:
        self.ledger.append(("unreadable", problem))

    def ledger_changed(self, problem: str) -> None:
        self.ledger.append(("changed", problem))

    def ledger_not_restored(self, problem: str) -> None:
        self.ledger.append(("not restored", problem))

    def unowned(self, problem: str) -> None:
        self.unowned_because.append(problem)

    def event_dropped(self) -> None:
        self.dropped += 1


@dataclass
class Waits:
    """Waiting that takes no time, and is recorded."""

    slept: list[float] = field(default_factory=list)
    jitter: float = 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0.001)

    @property
    def sleeper(self) -> Sleeper:
        return Sleeper(jitter=lambda: self.jitter, sleep=self.sleep)


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds; fail when that takes far too long."""
    async with asyncio.timeout(1.5):
        while not holds():
            await asyncio.sleep(0.001)


async def settle() -> None:
    """Let everything happen that is about to."""
    await asyncio.sleep(0.03)


@dataclass
class View:
    """A sink that applies the events, as the cache does."""

    events: list[Event] = field(default_factory=list)
    batches: int = 0
    pods: dict[str, str] = field(default_factory=dict)

    def take(self, batch: list[Event]) -> None:
        self.batches += 1
        self.events += batch
        for event in batch:
            if isinstance(event, PodObserved):
                assert event.pod.key not in self.pods or self.pods[event.pod.key] == event.pod.uid
                self.pods[event.pod.key] = event.pod.uid
            elif isinstance(event, PodGone):
                assert self.pods.pop(event.key) == event.uid

    def equals(self, api: FakeApi) -> bool:
        return self.pods == {
            f"{each['metadata']['namespace']}/{each['metadata']['name']}": each["metadata"]["uid"]
            for each in api.store.all("pods")
            if each["status"].get("phase") not in {"Succeeded", "Failed"}
        }


#: Starts an informer for a resource, with settings, and waits until it is synced.
Start = Callable[..., Coroutine[Any, Any, Informer[Any]]]


class Outcomes(list[Event]):
    """A sink that keeps the outcomes."""

    def kinds(self) -> list[str]:
        return [
            str(event.failure.kind) if isinstance(event, EffectFailed) else "done"
            for event in self
            if isinstance(event, EffectDone | EffectFailed)
        ]


#: Has an effect executed, and returns the writer when the outcome is known.
Write = Callable[..., Coroutine[Any, Any, Writer]]


def ref(api: FakeApi, name: str = "a") -> PodRef:
    """Return a reference to an existing pod."""
    return PodRef("default", name, api.store.get("pods", f"default/{name}")["metadata"]["uid"])


def bind(api: FakeApi, node: str = "n1") -> Bind:
    return Bind(ref(api), node, "preemptive-scheduler")


def evict(api: FakeApi) -> Evict:
    return Evict(ref(api), "n1", PodRef("default", "high", "u"), "preemptive-scheduler", 3)


def writes(api: FakeApi) -> list[str]:
    """Return the requests to the server without reads."""
    return [f"{each.verb} {each.resource}" for each in api.requests if each.verb != "get"]
