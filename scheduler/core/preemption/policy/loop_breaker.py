"""What is remembered against preemptions of one pod, because the like of it was in vain.

Three things are remembered. Preemptions whose room went to others, by owners
(`state/preemption/preemption_backoff`); all evictions in vain, by preemptor, node and wider scopes
(`state/preemption/wasted_evictions`): there the answer is a pause. And victims that were asked to
leave and hang: as long as one is there, the room that it takes cannot be counted on.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.api.owners import owner, told_to
from scheduler.model.policy_refusals import ending
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.preemption.ledger import Ledger
from scheduler.state.preemption.preemption_backoff import PairPause as LoopPause
from scheduler.state.preemption.wasted_evictions import WastePause, WasteScope, WasteView

__all__ = ["HANGS", "LOOP", "STOPPED", "LoopVeto", "PreemptionHistory", "wasteful"]

#: What the event about a loop of preemptions that is stopped is called, and how its text begins.
LOOP: Final = "PreemptionLoop"
#: The same where too many evictions were in vain, whatever the reason.
STOPPED: Final = "PreemptionStopped"

#: The pods for which evictions were in vain, by what shares the bound.
_WHOSE: Final[Mapping[WasteScope, str]] = {
    WasteScope.POD: "this pod",
    WasteScope.OWNER: "pods of its owner",
    WasteScope.NAMESPACE: "pods of its namespace",
    WasteScope.CLUSTER: "pods of this and other namespaces",
}


class LoopVeto(NamedTuple):
    """Why a preemption must not be tried now."""

    text: str
    #: When that ends; `None` where only an event can end it.
    until: Seconds | None
    #: Whether it holds on every node, until an operator does something about it.
    stopped: bool = False
    #: Whether the text leaves out when it ends, so that it is the same for all nodes.
    timed: bool = False
    #: What the pod must not be told; only for those who may ask why.
    detail: str = ""

    def __str__(self) -> str:
        """Return everything, for those who ask why."""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.text}{detail}{ending(self.until) if self.timed else ''}"


HANGS: Final = LoopVeto("node(s) where a victim hangs in termination", None)


def wasteful(pause: WastePause) -> LoopVeto:
    """Return what is said where evictions were in vain."""
    if pause.backed_off:
        text = "node(s) where preemption has failed for pods of its owner"
    elif pause.scope is WasteScope.NODE:
        text = "node(s) where too many evictions were in vain within the last hour"
    else:
        pods = "1 pod" if pause.times == 1 else f"{pause.times} pods"
        text = f"{STOPPED}: {pods} evicted in vain for {_WHOSE[pause.scope]} within the last hour"
    return LoopVeto(text, pause.until, pause.scope is not WasteScope.NODE, timed=True)


class PreemptionHistory:
    """What is remembered against preemptions of one pod, in one attempt."""

    def __init__(self, pod: Pod, cluster: Cluster, ledger: Ledger, now: Seconds) -> None:
        """Look it up.

        Args:
            pod: The preemptor.
            cluster: As it is.
            ledger: What is remembered.
            now: The time.
        """
        self.owner: Final = owner(pod) if len(ledger.fruitless) or len(ledger.wasted) else ""
        #: Uids of the victims that hang.
        self.overdue: Final = cluster.overdue
        #: What was in vain, where anything was.
        self.view: Final[WasteView | None] = (
            ledger.wasted.view(pod.uid, self.owner, now) if len(ledger.wasted) else None
        )
        self.ledger: Final = ledger
        self._now = now
        self._fruitless = ledger.fruitless
        self._pairs = ledger.fruitless.pairs(self.owner)
        self._stops: dict[str, LoopPause | None] = {}
        self._pauses: dict[str, dict[str, LoopPause]] = {}
        #: What is said of pauses, found out once.
        self._said: dict[tuple[str, LoopPause], LoopVeto] = {}

    @property
    def state(self) -> object:
        """What the objections depend on, beside the ledger, pods, nodes and time."""
        whose = self.view.whose if self.view is not None else ""
        return frozenset(self.overdue), self.owner, whose

    def to_preemptor(self) -> tuple[LoopVeto, ...]:
        """Return why the pod must not evict any pod now."""
        pause = None if self.view is None else self.view.anywhere(1)
        return () if pause is None else (wasteful(pause),)

    def to(self, node: str, victims: Sequence[Pod]) -> tuple[LoopVeto, ...]:
        """Return why pods must not be evicted from a node; nothing if they may."""
        found = (self.of_loops(node, map(owner, victims)), self.of_waste(node, len(victims)))
        if self.overdue and any(each.uid in self.overdue for each in victims):
            found = (HANGS, found[1])
        return tuple(each for each in found if each is not None)

    @property
    def pairs(self) -> frozenset[str]:
        """The owners of victims of which something is remembered."""
        return self._pairs

    def stop(self, victim: str) -> LoopPause | None:
        """Return until when pods of an owner must not be evicted from any node."""
        if victim not in self._stops:
            self._stops[victim] = self._fruitless.stop(self.owner, victim, self._now)
        return self._stops[victim]

    def pause(self, node: str, victim: str) -> LoopPause | None:
        """Return until when pods of an owner must not be evicted from a node."""
        stop = self.stop(victim)
        if stop is not None:
            return stop
        if victim not in self._pauses:
            self._pauses[victim] = self._fruitless.pauses(self.owner, victim, self._now)
        return self._pauses[victim].get(node)

    def said(self, victim: str, pause: LoopPause) -> LoopVeto:
        """Return what is said about a pause for victims of an owner; one object for equal ones."""
        said = self._said.get((victim, pause))
        if said is None:
            said = self._said[victim, pause] = _looping(self.owner, victim, pause)
        return said

    def of_loops(self, node: str, owners: Iterable[str]) -> LoopVeto | None:
        """Return until when pods of some owners must not be evicted from a node; the longest."""
        worst: tuple[str, LoopPause] | None = None
        for name in sorted(self._pairs.intersection(owners)) if self._pairs else ():
            pause = self.pause(node, name)
            if pause is not None and (worst is None or worst[1].until < pause.until):
                worst = (name, pause)
        return None if worst is None else self.said(*worst)

    def of_waste(self, node: str, victims: int) -> LoopVeto | None:
        """Return until when so many pods must not be evicted from a node."""
        if self.view is None:
            return None
        found = (self.view.anywhere(victims), self.view.on(node, victims))
        longest = max((each for each in found if each is not None), default=None)
        return None if longest is None else wasteful(longest)


def _looping(preemptor: str, victim: str, pause: LoopPause) -> LoopVeto:
    """Return what pods of one owner are told of those of another; the name may be a detail."""
    named, theirs = victim.replace("/", " ", 1), told_to(preemptor, victim)
    until = times.stamp(pause.until)
    where = "" if pause.stopped else "node(s) where "
    text = f"{LOOP}: {where}evicting pods of {theirs} came to nothing {pause.times} times"
    end = "stopped" if pause.stopped else "paused"
    detail = "" if theirs == named else named
    return LoopVeto(f"{text}, {end} until {until}", pause.until, pause.stopped, detail=detail)
