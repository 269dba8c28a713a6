"""Simulates disruption budgets: the eviction API, which drains use, and their controller.

An eviction that a budget does not allow is refused, and `kubectl drain` repeats it until it is
allowed: when a replacement of an evicted pod runs elsewhere. Preemption asks no budget, so its
victims are counted, until their replacements run: several preemptions can together violate a budget
that each of them alone respects.

Source: kubernetes v1.36.3 pkg/registry/core/pod/storage/eviction.go EvictionREST.Create;
pkg/controller/disruption updatePdbStatus.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from scheduler.model.api.objects import Pod, PodDisruptionBudget
from scheduler.state.pods.pdb_index import PdbIndex

__all__ = ["SimulatedBudgets"]

#: A pod that has not started, or has ended, is evicted without asking a budget.
_UNPROTECTED_PHASES: Final = frozenset({"Pending", "Succeeded", "Failed"})
_ALWAYS: Final = "AlwaysAllow"


@dataclass(slots=True)
class SimulatedBudgets:
    """The disruption budgets of a cluster while pods are evicted."""

    _index: PdbIndex
    #: The budgets that evictions were charged to, by uid of the pod that replaces the evicted one.
    _charged: dict[str, str] = field(default_factory=dict)
    #: By budget, the victims of preemptions without a running replacement, each with the uid of its
    #: replacement; empty as long as there is none.
    _victims: dict[str, dict[str, str]] = field(default_factory=dict)
    #: The budgets that preemptions violate, each with the uids of the victims that do it together.
    violations: dict[str, set[str]] = field(default_factory=dict)

    def refusing(self, pod: Pod) -> tuple[str, ...]:
        """Return the budgets because of which the eviction of a pod is refused, by key.

        They are several if several protect the pod: the API server refuses to evict such a pod.
        """
        keys = self._asked(pod)
        if len(keys) != 1:
            return keys
        pdb = self._index.get(keys[0])
        outdated = pdb.status.observed_generation < pdb.metadata.generation
        return keys if outdated or pdb.status.disruptions_allowed <= 0 else ()

    def evicted(self, pod: Pod, replacement: Pod | None) -> PodDisruptionBudget | None:
        """Charge the eviction of a pod to its budget, and return this; `None` if it has none."""
        keys = self._asked(pod)
        if not keys:
            return None
        if replacement is not None:
            self._charged[replacement.uid] = keys[0]
        return self._changed(keys[0], -1)

    def preempted(self, victims: Iterable[Pod]) -> None:
        """Count the victims of one preemption; find the budgets that they violate."""
        for victim in victims:
            for key in self._index.protecting(victim):
                if victim.metadata.name not in self._index.disrupted(key):
                    self._victims.setdefault(key, {}).setdefault(victim.uid, "")
        for key, together in self._victims.items():
            if len(together) > max(0, self._index.allowed(key)):
                self.violations.setdefault(key, set()).update(together)

    def replaced(self, pod: Pod, replacement: Pod) -> None:
        """Take note of the pod that replaces a victim."""
        for together in self._victims.values():
            if pod.uid in together:
                together[pod.uid] = replacement.uid

    def placed(self, pods: Mapping[str, Pod]) -> Iterator[PodDisruptionBudget]:
        """Yield the budgets that allow more because replacements run; `pods` are by uid.

        Victims of preemptions whose replacements run count no longer.
        """
        for key, together in self._victims.items():
            self._victims[key] = {
                uid: made for uid, made in together.items() if not _runs(pods.get(made))
            }
        for uid in [*self._charged]:
            if _runs(pods.get(uid)):
                yield self._changed(self._charged.pop(uid), 1)

    def _asked(self, pod: Pod) -> tuple[str, ...]:
        """Return the budgets that an eviction of a pod is charged to, by key."""
        if pod.terminating or pod.status.phase in _UNPROTECTED_PHASES:
            return ()
        keys = self._index.protecting(pod)
        if len(keys) == 1 and not _is_ready(pod) and _spares_unready(self._index.get(keys[0])):
            return ()
        return keys

    def _changed(self, key: str, difference: int) -> PodDisruptionBudget:
        pdb = self._index.get(key)
        status = pdb.status
        changed = replace(
            status,
            disruptions_allowed=status.disruptions_allowed + difference,
            current_healthy=status.current_healthy + difference,
        )
        return replace(pdb, status=changed)


def _runs(pod: Pod | None) -> bool:
    return pod is not None and bool(pod.spec.node_name)


def _is_ready(pod: Pod) -> bool:
    ready = pod.condition("Ready")
    return ready is not None and ready.status == "True"


def _spares_unready(pdb: PodDisruptionBudget) -> bool:
    """Return whether a pod that is not ready is evicted without using the budget up."""
    status = pdb.status
    healthy = 0 < status.desired_healthy <= status.current_healthy
    return pdb.spec.unhealthy_pod_eviction_policy == _ALWAYS or healthy
