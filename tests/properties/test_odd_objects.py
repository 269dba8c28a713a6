"""Whatever an API server sends, decoding, observing and deciding go on.

Objects of random clusters are spoilt and fed in as lines of a watch, each followed by attempts. A
line may be unreadable, an object may be refused, and both are counted; nothing else may happen.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from scheduler.core.machine import Machine
from scheduler.kube.errors import Unreachable
from scheduler.kube.watch.decoding import PageDecoder, UndecodableObject, WatchDecoder
from scheduler.kube.watch.resources import RESOURCES
from scheduler.model import recording_lines
from scheduler.model.decisions import Failed
from scheduler.model.events import EffectDone, Event
from scheduler.queue.backoff_duration import PodBackoff
from tests.oracle import generate
from tests.oracle.generating.dice import Dice, Object
from tests.properties.oddities import spoilt
from tests.support.cluster import profiles
from tests.support.recordings import line_of

OBJECTS = 10_000
PARTS = 8
DEVICES: Object = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpus", "uid": "gpus", "resourceVersion": "1"},
    "spec": {"extendedResourceName": "example.com/gpu"},
}
#: An error that no rule has foreseen, as an attempt reports it.
UNFORESEEN = re.compile(r"\w+(Error|Exception): ")
FAMILIES = ("odd", "everything", "volumes", "budgets", "pod-affinity", "spread", "preemption")

KINDS = {each.type.__name__: each for each in RESOURCES} | {
    "Namespace": next(each for each in RESOURCES if each.name == "namespaces")
}
DECODERS = {kind: WatchDecoder(each.type) for kind, each in KINDS.items()}
PAGES = {kind: PageDecoder(each.type, kind) for kind, each in KINDS.items()}


class Feed:
    """One machine, and what became of all that it was fed."""

    def __init__(self, seed: int) -> None:
        self.dice = Dice(0x0DD, seed)
        self.machine = Machine(profiles(), PodBackoff())
        self.now = 1_767_225_600.0
        self.counts: Counter[str] = Counter()

    def line(self, kind: str, what: str, text: bytes) -> None:
        """Read a line of a watch; one about the end of an unnamed object restarts it."""
        try:
            notice = DECODERS[kind].decode(b'{"type":"%s","object":%s}' % (what.encode(), text))
        except Unreachable:
            assert what == "DELETED"
            self.counts["begun again"] += 1
            return
        if isinstance(notice, UndecodableObject):
            self.counts["unreadable"] += 1
            self.same_in_a_page(kind, text)
        elif what == "DELETED":
            metadata = notice.object.metadata
            key = f"{metadata.namespace}/{metadata.name}".removeprefix("/")
            self.observe(KINDS[kind].gone(key, metadata.uid))
        else:
            self.observe(KINDS[kind].observed(notice.object))

    def same_in_a_page(self, kind: str, text: bytes) -> None:
        """Make sure that one invalid object does not make the others of a list unreadable."""
        whole = b'{"metadata":{"name":"whole","uid":"u"}}'
        page = PAGES[kind].decode(
            b'{"kind":"%sList","metadata":{"resourceVersion":"1"},"items":[%s,%s]}'
            % (kind.encode(), text, whole)
        )
        assert ([each.metadata.name for each in page.objects], len(page.undecodable)) == (
            ["whole"],
            1,
        )

    def observe(self, event: Event) -> None:
        """Have the machine observe something, and carry out its effects."""
        recording_lines.decode(line_of(event, self.now))
        reaction = self.machine.observe(event, self.now)
        self.counts["refused" if reaction.problem else "observed"] += 1
        for effect in reaction.effects:
            self.observe(EffectDone(effect))

    def decide(self) -> None:
        """Decide for all active pods."""
        self.now += 5.0
        self.machine.flush(self.now)
        for _ in range(50):
            attempt = self.machine.step(self.now, explain=self.dice.chance(0.1))
            if attempt is None:
                return
            self.counts[type(attempt.decision).__name__] += 1
            if isinstance(attempt.decision, Failed):
                assert not UNFORESEEN.match(attempt.decision.message), attempt.decision.message
            for effect in attempt.effects:
                self.observe(EffectDone(effect))


def clusters(part: int) -> Iterator[tuple[int, list[Object]]]:
    """Yield random clusters without end."""
    seed = part * 100_000
    while True:
        yield seed, generate.cluster(FAMILIES[seed % len(FAMILIES)], seed).objects
        seed += 1


def lived(seed: int, objects: list[Object]) -> Feed:
    """Feed the objects of a cluster, spoilt, between whole ones."""
    feed = Feed(seed)
    for each in (DEVICES, *objects):
        kind, whole = each["kind"], json.dumps(each).encode()
        if feed.dice.chance(0.5):
            feed.line(kind, "ADDED", whole)
        for _ in range(2):
            feed.line(kind, "MODIFIED", spoilt(feed.dice, each))
            feed.counts["spoilt"] += 1
        if feed.dice.chance(0.3):
            feed.line(kind, "MODIFIED", whole)
        if feed.dice.chance(0.3):
            feed.decide()
        if feed.dice.chance(0.1):
            feed.line(kind, "DELETED", feed.dice.pick((whole, spoilt(feed.dice, each))))
    feed.decide()
    feed.machine.check()
    return feed


@pytest.mark.parametrize("part", range(PARTS))
def test_no_object_stops_the_loop(part: int):
    counts: Counter[str] = Counter()
    for seed, objects in clusters(part):
        counts += lived(seed, objects).counts
        if counts["spoilt"] >= OBJECTS // PARTS:
            break

    # Nothing is proved unless all of it happens.
    assert counts["spoilt"] >= OBJECTS // PARTS
    assert {"unreadable", "refused", "observed", "begun again"} <= set(counts)
    assert {"Placed", "Unschedulable", "Preempting"} <= set(counts)
