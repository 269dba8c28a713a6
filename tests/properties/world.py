"""A world that changes at random around the real machine.

The world is what an API server has: nodes, pods, budgets, and effects that wait to be carried out.
The machine observes it late: pods, nodes and budgets come over streams of their own, each in
order, none in step with the others. Effects of one pod are carried out in the order in which they
were asked for, those of different pods in any order; they happen, fail, or happen without an
answer that can be relied on. Only of a binding the answer is always true, however late it comes.

An *action* is four small numbers, so a list of actions is a whole history: it can be drawn, shrunk
and pasted into a test. After each decision the world compares it with the slow oracle, and what
the machine keeps per class with a full pass.
"""

import hashlib
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from scheduler.core.attempt.equivalence import PodClass
from scheduler.core.machine import Machine
from scheduler.core.preemption.policy import loop_breaker
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import Verdicts
from scheduler.model import times
from scheduler.model.api.objects import Node, Pod, PodDisruptionBudget
from scheduler.model.api.owners import owner
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.decisions import Attempt, Failed, Placed, Preempting, Unschedulable
from scheduler.model.effects import (
    Bind,
    Effect,
    Evict,
    RecordEvent,
    SaveLedger,
)
from scheduler.model.events import (
    BudgetGone,
    BudgetObserved,
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
)
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.queue.phases import QueuePhase
from tests.support import oracles
from tests.support.builders import OURS
from tests.support.cluster import profiles
from tests.support.late_cluster import LateCluster, about
from tests.support.oracles import View

SAID: Final = "no new claims to deallocate, preemption: "
PROFILES: Final[dict[str, Profile]] = profiles()


class World(LateCluster):
    """Everything there is, and the machine that observes it."""

    def __init__(self, *, foreign: bool = True) -> None:
        super().__init__(Machine(PROFILES, PodBackoff()))
        self.nodes: dict[str, Node] = {}
        self.budgets: dict[str, PodDisruptionBudget] = {}
        #: The budgets that the machine has observed.
        self.known_budgets: dict[str, PodDisruptionBudget] = {}
        self.streams: list[deque[Event]] = [deque(), deque(), deque()]
        #: Bindings that happened and were not answered yet.
        self.late: list[Effect] = []
        self.effects: list[Effect] = []
        #: Victims that were evicted and for which no failure was reported.
        self.asked: set[str] = set()
        #: Whether others bind, and nodes shrink or go: then no node's capacity is promised.
        self.foreign = foreign

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
        match event:
            case BudgetObserved(told):
                self.known_budgets[told.metadata.name] = told
            case BudgetGone(key):
                self.known_budgets.pop(key.partition("/")[2], None)
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
        self.happen(effect)
        if isinstance(effect, Bind):
            self._has_capacity(found.uid, effect.node)
        elif isinstance(effect, Evict) and found is not None and not found.spec.node_name:
            self.remove(found.uid)
        return None

    def _has_capacity(self, uid: str, where: str) -> None:
        """Assert that what we bound fits its node, where no other scheduler binds pods."""
        if self.foreign:
            return
        others = [
            each
            for each in self.pods.values()
            if each.spec.node_name == where and not each.terminal and each.uid != uid
        ]
        assert oracles.judge(self.pods[uid], self.nodes[where], oracles.NodePods(others)) is None

    # Decisions ----------------------------------------------------------------------------------

    def decided(self) -> Attempt | None:
        """Let the machine decide; compare the decision with the oracle's."""
        self.machine.flush(self.now)
        view = View.of(self.machine, self.known_budgets.values())
        view.memory = self._remembered
        known = {queued.uid: queued.pod for queued in self.machine.queue}
        attempt = self.machine.step(self.now)
        if attempt is None:
            return None
        wanted = known[attempt.pod.uid]
        assert not wanted.terminating
        self._agrees(view, wanted, attempt)
        self.carry_out(attempt.effects)
        return attempt

    def _remembered(self, wanted: Pod, where: str, victims: Sequence[Pod]) -> tuple[str, ...]:
        """Return what the ledger has against a preemption, as it is when it is asked."""
        machine = self.machine
        past = loop_breaker.PreemptionHistory(wanted, machine.cluster, machine.ledger, self.now)
        pauses = [
            (pause.until, name, pause)
            for name in sorted(past.pairs.intersection(map(owner, victims)))
            if (pause := past.pause(where, name)) is not None
        ]
        # The first owner has the longest pause.
        _, name, longest = max(pauses, key=lambda each: each[0], default=(None, "", None))
        looping = None if longest is None else past.veto(name, longest)
        said = (looping, past.waste_veto(where, len(victims)))
        return tuple(
            f"{each.text} (until {times.stamp(math.ceil(each.until))})" if each.timed else each.text
            for each in said
            if each is not None and each.until is not None
        )

    def _agrees(self, view: View, wanted: Pod, attempt: Attempt) -> None:
        decision = attempt.decision
        assert not isinstance(decision, Failed), decision
        if not view.nodes:
            assert decision == Unschedulable("no nodes available to schedule pods")
            return
        fits = oracles.feasible(view, wanted)
        if fits:
            assert isinstance(decision, Placed), (decision, fits)
            assert decision.node in fits
            self._is_best(wanted, decision.node, fits)
            return
        message = oracles.unschedulable(view, wanted)
        found = oracles.preemption(view, wanted)
        if isinstance(found, str):
            assert decision == Unschedulable(f"{message} {SAID}{found}")
            return
        assert isinstance(decision, Preempting), (decision, found)
        assert decision.message == message
        victims = [ref.uid for ref in decision.victims]
        freed = oracles.capacity_being_freed(view, wanted)
        if any(oracles.needs_no_eviction(view, each) for each in found):
            freed = {}
        chosen = {each.node: each for each in found}.get(decision.node)
        if freed.get(decision.node) == set(victims):
            assert decision.violations == 0
            return
        assert chosen is not None, (decision, found, freed)
        assert victims == [victim.uid for victim in chosen.victims]
        assert decision.violations == chosen.violations
        assert all(victim.priority < wanted.priority for victim in chosen.victims)
        # Freed capacity is known for certain where the attempt did not change it.
        assert not freed.keys() & set(
            self.machine.preemptions.facts.nodes_with_unneeded_victims()
        ), (
            decision,
            freed,
        )

    def _is_best(self, wanted: Pod, node_name: str, fits: list[str]) -> None:
        """Assert that a node has the highest total that a full pass over all nodes finds."""
        state = self.machine.cluster
        # The pod is assumed by now; a full pass must not see it.
        state.forget(wanted.uid)
        fresh = PodClass(ClassifiedPod(wanted), PROFILES[OURS], state, Verdicts())
        rows = np.array(sorted(state.columns.row(name) for name in fits), dtype=np.int64)
        attempt = AttemptState(wanted, self.now)
        by_plugin = fresh.scores.weighted(rows, attempt) if rows.shape[0] > 1 else {}
        totals = sum(by_plugin.values(), rows * 0)
        best = {state.columns.names[row] for row in rows[totals == totals.max()].tolist()}
        state.assume(wanted, node_name)
        assert node_name in best

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

    def forgotten(self, helped: Callable[[View, Pod], object]) -> list[str]:
        """Return the pods that wait for an event though they fit as far as the machine knows."""
        view, queue = View.of(self.machine, self.known_budgets.values()), self.machine.queue
        return [
            queued.pod.key
            for queued in queue
            if queued.phase is QueuePhase.UNSCHEDULABLE
            and not queue.follows_representative(queued)
            and helped(view, queued.pod)
        ]

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


def _gated(each: Pod) -> bool:
    return bool(each.spec.scheduling_gates) and each.spec.scheduler_name == OURS
