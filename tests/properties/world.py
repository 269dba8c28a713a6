"""A world that changes at random around the real machine.

The world is what an API server has: nodes, pods, budgets, and effects that wait to be carried out.
The machine observes it late: pods, nodes and budgets come over streams of their own, each in
order, none in step with the others. Effects of one pod are carried out in the order in which they
were asked for, those of different pods in any order; they happen, fail, or happen without an
answer that can be relied on. Only of a binding the answer is always true, however late it comes.

An *action* is four small numbers, so a list of actions is a whole history: it can be drawn, shrunk
and pasted into a test. Each answer of the machine is compared with that of attempts without cached
state (`comparing`).
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from scheduler.framework.profile import Profile
from scheduler.model.api import quantity
from scheduler.model.api.objects import Node, Pod, PodDisruptionBudget
from scheduler.model.decisions import Attempt, Decision, Failed, Preempting
from scheduler.model.effects import (
    Bind,
    Effect,
    Evict,
    RecordEvent,
    SaveLedger,
)
from scheduler.model.events import (
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
)
from scheduler.queue.phases import QueuePhase
from tests.properties.comparing import ComparingMachine, found_afresh
from tests.support.builders import OURS
from tests.support.cluster import profiles
from tests.support.late_cluster import LateCluster, about

PROFILES: Final[dict[str, Profile]] = profiles()


class World(LateCluster):
    """Everything there is, and the machine that observes it."""

    def __init__(self, *, foreign: bool = True) -> None:
        super().__init__(ComparingMachine(PROFILES))
        self.nodes: dict[str, Node] = {}
        self.budgets: dict[str, PodDisruptionBudget] = {}
        self.streams: list[deque[Event]] = [deque(), deque(), deque()]
        #: Bindings that happened and were not answered yet.
        self.late: list[Effect] = []
        self.effects: list[Effect] = []
        #: Victims that were evicted and for which no failure was reported.
        self.asked: set[str] = set()
        #: Whether others bind, and nodes shrink or go: then no node's capacity is promised.
        self.foreign = foreign
        #: The pods that were being evicted when the last decision began.
        self._going: frozenset[str] = frozenset()

    # Writing --------------------------------------------------------------------------------------

    def new_name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def _report(self, event: Event) -> None:
        self.streams[0].append(event)

    def some(self, number: int, which: Callable[[Pod], bool]) -> Pod | None:
        found = [each for each in self.pods.values() if which(each)]
        return found[number % len(found)] if found else None

    def hear(self, event: Event) -> None:
        self.observe(event)

    # Effects ------------------------------------------------------------------------------------

    def carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Evict):
                assert effect.victim.uid not in self.asked, f"{effect.victim} was asked before"
                self.asked.add(effect.victim.uid)
        self.effects += effects
        super().carry_out(effects)

    def answer(self, effect: Effect, kind: FailureKind | None) -> None:
        if kind is None:
            changed = not isinstance(effect, Evict) or effect.victim.uid in self.pods
            event: Event = EffectDone(effect, changed=changed)
        else:
            event = EffectFailed(effect, Failure(kind, "no"))
            if isinstance(effect, Evict):
                self.asked.discard(effect.victim.uid)
        self.observe(event)

    def write(self, effect: Effect) -> FailureKind | None:
        """Do what the API server does; return why it does not."""
        found = self.pods.get(about(effect))
        if found is None and not isinstance(effect, Evict | RecordEvent | SaveLedger):
            return FailureKind.GONE
        if isinstance(effect, Bind):
            if found.spec.node_name == effect.node:
                return None
            if found.spec.node_name or found.terminating:
                return FailureKind.CONFLICT
        self.change_objects(effect)
        if isinstance(effect, Bind):
            self._has_capacity(effect.node)
        elif isinstance(effect, Evict) and found is not None and not found.spec.node_name:
            self.remove(found.uid)
        return None

    def _has_capacity(self, where: str) -> None:
        """Assert that the pods on a node fit it, where no other scheduler binds pods."""
        if self.foreign:
            return
        there = [p for p in self.pods.values() if p.spec.node_name == where and not p.terminal]
        has = self.nodes[where].status.allocatable
        for name in ("cpu", "example.com/gpu"):
            used = sum(_milli(each.spec.containers[0].resources.requests, name) for each in there)
            assert used <= _milli(has, name), (where, name)
        ports = [port.host_port for each in there for port in each.spec.containers[0].ports]
        assert len(there) <= int(has["pods"])
        assert len(ports) == len(set(ports))

    # Decisions ----------------------------------------------------------------------------------

    def decided(self) -> Attempt | None:
        """Let the machine decide; its decision is compared where it is made."""
        self.machine.flush(self.now)
        known = {queued.uid: queued.pod for queued in self.machine.queue}
        self._going = self.machine.cluster.evicting_uids()
        attempt = self.machine.step(self.now)
        if attempt is None:
            return None
        decision, wanted = attempt.decision, known[attempt.pod.uid]
        assert not isinstance(decision, Failed), decision
        assert not wanted.terminating
        self.note(decision, wanted)
        self.carry_out(attempt.effects)
        return attempt

    def note(self, decision: Decision, wanted: Pod) -> None:
        """Check the victims of a decision that are not being evicted already."""
        for ref in decision.victims if isinstance(decision, Preempting) else ():
            victim = self.machine.cluster.find_pod(ref.uid)
            awaited = ref.uid in self._going or self._is_awaited(ref.uid, wanted.uid)
            if victim is not None and not victim.terminating and not awaited:
                self.may_go(victim, wanted)

    def may_go(self, victim: Pod, wanted: Pod) -> None:
        """Assert that a pod may be a victim: it is less important."""
        assert victim.priority < wanted.priority, (victim.key, wanted.key)

    def _is_awaited(self, uid: str, preemptor: str) -> bool:
        """Return whether a plan only waits for a victim, which another plan evicts."""
        plan = self.machine.preemptions.state.plan_of(preemptor)
        victims = () if plan is None else plan.placement(preemptor).victims
        return any(each.wait_only for each in victims if each.uid == uid)

    # The end ------------------------------------------------------------------------------------

    def quiesce(self) -> None:
        """Let everything come to rest: events observed, effects done, no pod terminating."""
        for _ in range(200):
            before = len(self.effects), self.count
            self._come_to_rest()
            if (len(self.effects), self.count) == before:
                return
        raise AssertionError("the world does not come to rest")

    def _come_to_rest(self) -> None:
        while True:
            for stream in self.streams:
                while stream:
                    self.hear(stream.popleft())
            while self.late:
                self.answer(self.late.pop(), None)
            effect = self.next_effect(0)
            if effect is not None:
                self.answer(effect, self.write(effect))
            elif not self._end_terminating():
                self.now += 2.0
                if self.decided() is None and self._no_pod_backs_off():
                    return

    def _end_terminating(self) -> bool:
        found = [each.uid for each in self.pods.values() if each.terminating]
        for uid in found:
            self.remove(uid)
        return bool(found)

    def _no_pod_backs_off(self) -> bool:
        """Return whether no pod backs off; without nodes every pod does, again and again."""
        waiting = any(queued.phase is QueuePhase.BACKOFF for queued in self.machine.queue)
        return not waiting or not self.nodes

    def left_behind(self, *, preempts: bool = True) -> list[object]:
        """Return the unschedulable pods that a fresh attempt would place, or preempt for."""
        machine, found = self.machine, []
        for queued in machine.queue:
            if (
                queued.phase is QueuePhase.UNSCHEDULABLE
                and not machine.queue.follows_representative(queued)
            ):
                since = queued.unschedulable_since
                outcome = found_afresh(
                    PROFILES, machine, queued.classified, self.now,
                    self.now if since is None else since,
                )  # fmt: skip
                if outcome.node is not None or (preempts and outcome.candidate is not None):
                    found.append((queued.pod.key, outcome.node, outcome.candidate))
        return found

    def knows_the_cluster(self) -> None:
        """Assert that the machine knows the whole cluster after all events."""
        cluster = self.machine.cluster
        where = {uid: each.spec.node_name for uid, each in self.pods.items() if not each.terminal}
        placed = {uid: cluster.node_of(uid) or "" for uid in where}
        assert placed == where
        assert len(cluster.pods) - len(cluster.nominations) == sum(map(bool, where.values()))
        rows = cluster.columns.nodes
        assert {each.metadata.name: each for each in rows if each is not None} == self.nodes
        nominated = {
            uid: each.status.nominated_node_name
            for uid, each in self.pods.items()
            if each.status.nominated_node_name and where.get(uid) == "" and not _gated(each)
        }
        claims = {claim.pod.uid: claim.node for claim in cluster.nominations}
        assert claims == nominated

    def digest(self) -> str:
        """Return a text that is equal where the same effects were asked for in the same order."""
        return hashlib.sha256("\n".join(map(repr, self.effects)).encode()).hexdigest()


def _milli(amounts: Mapping[str, str], name: str) -> int:
    return quantity.milli_value(amounts.get(name, "0"))


def _gated(each: Pod) -> bool:
    return bool(each.spec.scheduling_gates) and each.spec.scheduler_name == OURS
