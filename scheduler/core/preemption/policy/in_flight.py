"""Evictions in flight: those that disruption budgets (PDBs) have not counted yet.

The disruption controller counts a terminating pod when it has seen it terminate, which is later
than our decision. Until then the eviction is *in flight*: a plan is about to evict the pod, or has
evicted it. A PDB allows less by all evictions in flight, over all plans. An eviction is counted
when the PDB lists the pod among the disrupted ones (the API server does so on `pods/eviction`),
or some time after the pod was seen to terminate. If the plan ends and its victim stays, the
eviction is dropped.

Source: kubernetes v1.36.3 pkg/registry/core/pod/storage/eviction.go EvictionREST.Create.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from scheduler.model.api.objects import LabelSelector, Pod, PodDisruptionBudget
from scheduler.model.messages import count
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.row_cursor import RowCursor
from scheduler.state.pods.pod_table import NOWHERE

__all__ = ["COUNTED_WITHIN", "InFlightEviction", "InFlightEvictions", "Quota"]

#: How long the disruption controller may take to count a terminating pod.
COUNTED_WITHIN: Final[Seconds] = 30.0
#: With more changed rows than this since the last check, every eviction in flight is checked.
_MANY_CHANGES: Final = 1024
_NONE: Final = frozenset[str]()


@dataclass(slots=True)
class InFlightEviction:
    """An eviction in flight."""

    victim: Pod
    #: The uid of the preemptor.
    preemptor: str
    #: The row that the victim is on; `NOWHERE` where it was not known.
    row: int
    #: When the victim was first seen terminating or gone; `None` while it stays.
    terminated: Seconds | None = None
    #: PDBs that it uses up and that have not counted it.
    charged: frozenset[str] = frozenset()
    #: PDBs that have counted it.
    counted_by: set[str] = field(default_factory=set)


class Quota(NamedTuple):
    """What a disruption budget allows now."""

    #: By its status, which does not count the evictions in flight.
    allowed: int
    #: How many evictions in flight use it up.
    in_flight: int
    #: Whether its status is that of an older spec.
    outdated: bool
    #: When the first eviction in flight is no longer counted twice; `None` where time ends nothing.
    until: Seconds | None


@dataclass(slots=True, eq=False)
class InFlightEvictions:
    """All evictions in flight."""

    _cluster: Cluster = field(compare=False)
    #: By uid of the victim.
    evictions: dict[str, InFlightEviction] = field(default_factory=dict)
    #: Those that a PDB has not counted, by key of the PDB and uid of the victim.
    _charged: dict[str, dict[str, InFlightEviction]] = field(default_factory=dict)
    #: Uids of victims, by their namespace, by preemptor, and by their row.
    _by_namespace: dict[str, set[str]] = field(default_factory=dict)
    _by_preemptor: dict[str, set[str]] = field(default_factory=dict)
    _by_row: dict[int, set[str]] = field(default_factory=dict)
    #: Uids of victims that `remove_ended` checks each time: no log has all their changes.
    _watched: set[str] = field(default_factory=set)
    #: When victims were first seen terminating or gone, with their uids, in time order.
    _terminated: deque[tuple[Seconds, str]] = field(default_factory=deque)
    #: The selectors of the PDBs, by key.
    _selectors: dict[str, LabelSelector | None] = field(default_factory=dict)
    #: PDBs with fewer evictions in flight since the last call of `take_relieved`.
    relieved: set[str] = field(default_factory=set)
    #: Grows with every change of what is in flight.
    version: int = 0
    #: What was read of the logs of changes; a restored machine reads all of them.
    _changes: tuple[RowCursor, ...] = field(init=False, compare=False)
    _nominations_seen: RowCursor = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Begin to read the logs of changes."""
        cluster = self._cluster
        logs = cluster.columns.pod_changes, cluster.pods.changes
        self._changes = tuple(map(RowCursor, logs))
        self._nominations_seen = RowCursor(cluster.nominations.changes)

    def __len__(self) -> int:
        return len(self.evictions)

    # What is in flight ----------------------------------------------------------------------------

    def add(self, preemptor: Pod, victims: Iterable[Pod], now: Seconds) -> None:
        """Record that a plan is about to evict pods."""
        self.remove_ended(now)
        for victim in victims:
            if not victim.terminating:
                self._drop(victim.uid)
                slot = self._cluster.pods.slot(victim.uid)
                row = NOWHERE if slot is None else self._cluster.pods.row(slot)
                eviction = InFlightEviction(victim, preemptor.uid, row)
                self.evictions[victim.uid] = eviction
                for index, key in self._indices(eviction):
                    index.setdefault(key, set()).add(victim.uid)
                self._watched.add(victim.uid)
                self._charge(victim.uid)
                self.version += 1

    def pdb_updated(self, pdb: PodDisruptionBudget) -> None:
        """Process a new state of a PDB: it has counted the pods that it lists as disrupted."""
        metadata, disrupted = pdb.metadata, pdb.status.disrupted_pods
        key = metadata.key
        if self._selectors.get(key) != pdb.spec.selector or key not in self._selectors:
            self._selectors[key] = pdb.spec.selector
            for uid in self._by_namespace.get(metadata.namespace, ()):
                self._charge(uid)
        for uid, eviction in [*self._charged.get(key, {}).items()] if disrupted else ():
            if eviction.victim.metadata.name in disrupted:
                eviction.counted_by.add(key)
                self._charge(uid)

    def pdb_gone(self, key: str) -> None:
        """Process that a PDB was deleted, by namespace and name."""
        self._selectors.pop(key, None)
        for uid in [*self._charged.get(key, ())]:
            self._charge(uid)

    def remove_ended(self, now: Seconds) -> None:
        """Remove evictions that are no longer in flight: counted by their PDBs, or given up.

        This is called for every event, so only evictions are checked that a change could concern.
        """
        if not self.evictions:
            return
        for uid in self._affected():
            self._check(uid, now)
        terminated = self._terminated
        while terminated and now - terminated[0][0] >= COUNTED_WITHIN:
            self._check(terminated.popleft()[1], now)

    def _affected(self) -> Iterable[str]:
        """Return the uids of victims that a change since the last call may concern."""
        uids = set(self._watched)
        for cursor in self._changes:
            rows = cursor.take_changed(_MANY_CHANGES)
            if rows is None:
                uids.update(self.evictions)
            for row in () if rows is None else rows.tolist():
                uids.update(self._by_row.get(row, ()))
        if not self._nominations_seen.up_to_date:
            self._nominations_seen.take_changed(0)
            nominations = self._cluster.nominations
            for preemptor, victims in self._by_preemptor.items():
                if nominations.get(preemptor) is None:
                    uids.update(victims)
        return uids

    def _check(self, uid: str, now: Seconds) -> None:
        """Drop an eviction that is no longer in flight; else decide how to watch it."""
        eviction = self.evictions.get(uid)
        if eviction is None:
            return
        known = eviction.terminated
        if self._is_over(eviction, now):
            self._drop(uid)
            return
        if eviction.terminated is not None and known is None:
            self._terminated.append((eviction.terminated, uid))
        # That we evicted a victim, and that it stays after all, is in no log of changes.
        nominated = self._cluster.nominations.get(eviction.preemptor) is not None
        if eviction.row != NOWHERE and (nominated or eviction.terminated is not None):
            self._watched.discard(uid)
        else:
            self._watched.add(uid)

    def plan_ended(self, preemptor: str) -> None:
        """Process that the plan of a preemptor has ended, by uid: victims not evicted yet stay.

        Those that were evicted are in flight until their PDBs have counted them.
        """
        self.spare([*self._by_preemptor.get(preemptor, ())])
        self._watched.update(self._by_preemptor.get(preemptor, ()))

    def spare(self, victims: Iterable[str]) -> None:
        """Process that victims are not evicted after all, by uid."""
        for uid in victims:
            victim = self._cluster.find_pod(uid)
            if victim is not None and not self._cluster.is_being_deleted(victim):
                self._drop(uid)

    def take_relieved(self) -> frozenset[str]:
        """Return the PDBs that allow more than at the last call, by key.

        A PDB allows more when an eviction that was charged to it is no longer in flight. The
        caller retries the pods that these PDBs block.
        """
        if not self.relieved:
            return _NONE
        freed = frozenset(self.relieved)
        self.relieved.clear()
        return freed

    def _charge(self, uid: str) -> None:
        """Update which PDBs an eviction uses up."""
        eviction = self.evictions[uid]
        keys = self._cluster.pdbs.protecting(eviction.victim)
        charged = frozenset(keys) - eviction.counted_by
        if charged == eviction.charged:
            return
        for key in eviction.charged - charged:
            self._discharge(key, uid)
        for key in charged - eviction.charged:
            self._charged.setdefault(key, {})[uid] = eviction
        eviction.charged = charged
        self.version += 1

    def _discharge(self, key: str, uid: str) -> None:
        del self._charged[key][uid]
        if not self._charged[key]:
            del self._charged[key]
        self.relieved.add(key)

    def _drop(self, uid: str) -> None:
        eviction = self.evictions.pop(uid, None)
        if eviction is None:
            return
        for key in eviction.charged:
            self._discharge(key, uid)
        for index, index_key in self._indices(eviction):
            index[index_key].discard(uid)
            if not index[index_key]:
                del index[index_key]
        self._watched.discard(uid)
        self.version += 1

    def _indices(
        self, eviction: InFlightEviction
    ) -> Iterator[tuple[dict[Any, set[str]], str | int]]:
        """Yield each index with the key under which it has an eviction."""
        yield self._by_namespace, eviction.victim.metadata.namespace
        yield self._by_preemptor, eviction.preemptor
        yield self._by_row, eviction.row

    def _is_over(self, eviction: InFlightEviction, now: Seconds) -> bool:
        cluster, uid = self._cluster, eviction.victim.uid
        victim = cluster.find_pod(uid)
        if victim is None or victim.terminating:
            if eviction.terminated is None:
                eviction.terminated = now
                self.version += 1
            return now - eviction.terminated >= COUNTED_WITHIN
        # A victim that was not evicted stays if the plan was given up: the nomination is gone then.
        return (
            not cluster.is_being_deleted(victim)
            and cluster.nominations.get(eviction.preemptor) is None
        )

    # What PDBs allow ---------------------------------------------------------------------------

    def quota(self, key: str) -> Quota:
        """Return what a PDB allows now; call `remove_ended` before."""
        pdb = self._cluster.pdbs.get(key)
        taken = self._charged.get(key, {})
        ends = [
            eviction.terminated + COUNTED_WITHIN
            for eviction in taken.values()
            if eviction.terminated is not None
        ]
        return Quota(
            max(0, pdb.status.disruptions_allowed),
            len(taken),
            pdb.status.observed_generation < pdb.metadata.generation,
            min(ends, default=None),
        )

    def slots_in_flight(self, key: str) -> list[int]:
        """Return the slots of the pods that use up a PDB as evictions in flight."""
        slots = map(self._cluster.pods.slot, self._charged.get(key, ()))
        return [slot for slot in slots if slot is not None]

    def shortage(self, keys: Sequence[str], pods: Sequence[Pod]) -> str:
        """Return in words why PDBs do not allow to evict some pods together.

        Args:
            keys: The PDBs; several where they protect one pod.
            pods: The pods that they protect.
        """
        names = ", ".join(pod.key for pod in pods)
        if len(keys) > 1:
            budgets = f"{len(keys)} PodDisruptionBudgets ({', '.join(keys)})"
            return f"{names} matches {budgets}, and the API server refuses to evict such a pod"
        (key,), quota = keys, self.quota(keys[0])
        if quota.outdated:
            return f"{names}: the status of PodDisruptionBudget {key} is older than its spec"
        text = f"{names}: PodDisruptionBudget {key} allows {count(quota.allowed, 'disruption')}"
        charged = self._charged.get(key, {})
        if taken := quota.in_flight - sum(pod.uid in charged for pod in pods):
            are = "is" if taken == 1 else "are"
            text += f", and {count(taken, 'eviction')} {are} already in flight"
        return text

    def used_up(self, keys: tuple[str, ...], *, ready: bool) -> tuple[str, ...]:
        """Return those of the PDBs that select a running pod which its eviction would use up."""
        if len(keys) == 1 and not ready and self._spares_unready(keys[0]):
            return ()
        return keys

    def _spares_unready(self, key: str) -> bool:
        """Return whether evicting a pod that is not ready does not use a PDB up."""
        pdb = self._cluster.pdbs.get(key)
        if pdb.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
            return True
        status = pdb.status
        return 0 < status.desired_healthy <= status.current_healthy
