"""Vetoes preemptions for one pod that are likely to fail, because such preemptions failed before.

The preemption history has three parts. Preemptions whose freed resources other pods took, by owners
(`state/preemption/preemption_backoff`), and all wasted evictions, by preemptor, node and wider
scopes (`state/preemption/wasted_evictions`), lead to a pause. The third part is victims that hang
in termination after they were evicted: as long as one is on the node, its resources cannot be
counted on.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.api.owners import owner, shown_to
from scheduler.model.messages import count
from scheduler.model.policy_vetoes import ending
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.preemption.ledger import Ledger
from scheduler.state.preemption.preemption_backoff import PairPause
from scheduler.state.preemption.wasted_evictions import WastePause, WasteScope, WasteView

__all__ = ["HANGS", "LOOP", "STOPPED", "LoopVeto", "PreemptionHistory", "waste_veto"]

#: The reason of the Event when a preemption loop is stopped; messages about it begin with it, too.
LOOP: Final = "PreemptionLoop"
#: The same where too many evictions were wasted, whatever the reason.
STOPPED: Final = "PreemptionStopped"

#: The pods for which evictions were wasted, by the scope of the bound.
_WHOSE: Final[Mapping[WasteScope, str]] = {
    WasteScope.POD: "this pod",
    WasteScope.OWNER: "pods of its owner",
    WasteScope.NAMESPACE: "pods of its namespace",
    WasteScope.CLUSTER: "pods of this and other namespaces",
}


class LoopVeto(NamedTuple):
    """Why a preemption must not be tried now."""

    text: str
    #: When it ends; `None` where only an event can end it.
    until: Seconds | None
    #: Whether it holds on every node, until an operator does something about it.
    stopped: bool = False
    #: Whether the text leaves out when it ends, so that it is the same for all nodes.
    timed: bool = False
    #: What must not be reported at the pod, but only in the trace.
    detail: str = ""

    def __str__(self) -> str:
        """Return the text with all details, for the trace."""
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.text}{detail}{ending(self.until) if self.timed else ''}"


HANGS: Final = LoopVeto("node(s) with an evicted pod that does not terminate", None)


def waste_veto(pause: WastePause) -> LoopVeto:
    """Return the veto of a pause after wasted evictions."""
    if pause.backed_off:
        text = "node(s) where preemption has failed for pods of its owner"
    elif pause.scope is WasteScope.NODE:
        text = "node(s) where too many evictions were wasted within the last hour"
    else:
        evictions, were = count(pause.times, "eviction"), "was" if pause.times == 1 else "were"
        whose = _WHOSE[pause.scope]
        text = f"{STOPPED}: {evictions} for {whose} {were} wasted within the last hour"
    return LoopVeto(text, pause.until, pause.scope is not WasteScope.NODE, timed=True)


class PreemptionHistory:
    """The preemption history as far as it concerns one preemptor, in one attempt."""

    def __init__(self, pod: Pod, cluster: Cluster, ledger: Ledger, now: Seconds) -> None:
        """Read the history of one preemptor.

        Args:
            pod: The preemptor.
            cluster: The cluster as it is.
            ledger: Has the failed preemptions and wasted evictions.
            now: The time.
        """
        self.owner: Final = (
            owner(pod) if len(ledger.backoff) or len(ledger.wasted_evictions) else ""
        )
        #: Uids of the victims that hang.
        self.overdue: Final = cluster.overdue
        #: The wasted evictions, where there are any.
        self.waste: Final[WasteView | None] = (
            ledger.wasted_evictions.view(pod.uid, self.owner, now)
            if len(ledger.wasted_evictions)
            else None
        )
        self.ledger: Final = ledger
        self._now = now
        self._backoff = ledger.backoff
        self._pairs = ledger.backoff.pairs(self.owner)
        #: The pause on every node by owner of the victims, and the pauses by owner and node.
        self._stops: dict[str, PairPause | None] = {}
        self._pauses: dict[str, dict[str, PairPause]] = {}
        #: The vetoes of pauses, each made once.
        self._vetoes: dict[tuple[str, PairPause], LoopVeto] = {}

    @property
    def state(self) -> object:
        """What the vetoes depend on, beside the ledger, pods, nodes and time."""
        whose = self.waste.whose if self.waste is not None else ""
        return frozenset(self.overdue), self.owner, whose

    def against_preemptor(self) -> tuple[LoopVeto, ...]:
        """Return why the pod must not evict any pod now; empty if it may."""
        pause = None if self.waste is None else self.waste.anywhere(1)
        return () if pause is None else (waste_veto(pause),)

    @property
    def pairs(self) -> frozenset[str]:
        """The owners of victims with failed preemptions by the preemptor's owner."""
        return self._pairs

    def stop(self, victim: str) -> PairPause | None:
        """Return the pause during which pods of an owner must not be evicted from any node."""
        if victim not in self._stops:
            self._stops[victim] = self._backoff.stop(self.owner, victim, self._now)
        return self._stops[victim]

    def pause(self, node: str, victim: str) -> PairPause | None:
        """Return the pause during which pods of an owner must not be evicted from a node."""
        stop = self.stop(victim)
        if stop is not None:
            return stop
        if victim not in self._pauses:
            self._pauses[victim] = self._backoff.pauses(self.owner, victim, self._now)
        return self._pauses[victim].get(node)

    def veto(self, victim: str, pause: PairPause) -> LoopVeto:
        """Return the veto of a pause for victims of an owner; one object for equal ones."""
        veto = self._vetoes.get((victim, pause))
        if veto is None:
            veto = self._vetoes[victim, pause] = _loop_veto(self.owner, victim, pause)
        return veto

    def waste_veto(self, node: str, victims: int) -> LoopVeto | None:
        """Return the veto of the longest pause that so many victims on a node would break."""
        if self.waste is None:
            return None
        pauses = (self.waste.anywhere(victims), self.waste.on(node, victims))
        longest = max((pause for pause in pauses if pause is not None), default=None)
        return None if longest is None else waste_veto(longest)


def _loop_veto(preemptor: str, victim: str, pause: PairPause) -> LoopVeto:
    """Return the veto of a pause between two owners.

    The name of the victims' owner is only a detail where the preemptor must not know it.
    """
    named, theirs = victim.replace("/", " ", 1), shown_to(preemptor, victim)
    until = times.stamp(pause.until)
    where = "" if pause.stopped else "node(s) where "
    text = f"{LOOP}: {where}preempting pods of {theirs} failed {pause.times} times"
    end = "stopped" if pause.stopped else "paused"
    detail = "" if theirs == named else named
    return LoopVeto(f"{text}, {end} until {until}", pause.until, pause.stopped, detail=detail)
