"""What preemptions may know: a narrow view of the cluster, the queue, the ledger and other plans.

`cluster_facts` answers from the state of the machine, `core/attempt/fit_checks` where pods fit.
"""

from collections.abc import Set
from typing import NamedTuple, Protocol

from scheduler.core.eviction.plan import Placement, PolicyInputs, PreemptionPlan
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.model.times import Seconds

__all__ = ["Facts", "Needed"]


class Needed(NamedTuple):
    """Which victims of a placement have to be evicted now."""

    victims: list[Pod]
    #: Pods that terminate for other plans, and that are waited for in place of spared victims.
    awaited: tuple[Pod, ...] = ()


class Facts(Protocol):
    """What transitions read of the cluster, the queue, the ledger and other plans."""

    def remaining(self, placement: Placement) -> list[Pod]:
        """Return the victims that are still on the node, most important first."""

    def to_evict(self, placement: Placement) -> list[Pod]:
        """Return the victims that have yet to be evicted, most important first."""

    def needed(
        self, placement: Placement, to_evict: list[Pod], spared: Set[str], now: Seconds
    ) -> Needed | None:
        """Return which victims have to be evicted now; `None` where all are not enough."""

    def may_begin(self, plan: PreemptionPlan) -> bool:
        """Return whether nothing has to be written before the first victim is evicted."""

    def may_resume(
        self, plan: PreemptionPlan, placement: Placement, to_evict: tuple[Pod, ...], now: Seconds
    ) -> bool:
        """Return whether a new decision would let a preemptor evict the remaining victims."""

    def nominating_since(self, plan: PreemptionPlan) -> list[Seconds]:
        """Return when the nominations were decided that have no answer, on the nodes of a plan."""

    def policy_inputs(self, plan: PreemptionPlan) -> PolicyInputs:
        """Return what decides now which policies apply to a plan, for the victims still there."""

    def is_outdated(self, plan: PreemptionPlan) -> bool:
        """Return whether the charge of a plan was computed under other policies."""

    def is_bound(self, uid: str) -> bool:
        """Return whether a victim is bound, so that the API server has to evict it."""

    def is_stuck(self, plan: PreemptionPlan) -> bool:
        """Return whether a victim runs on that no plan evicts any more."""

    def undeallocated(self, placement: Placement) -> list[ResourceClaim]:
        """Return the claims of victims that are allocated although their pods are gone."""

    def is_placed(self, plan: PreemptionPlan) -> bool:
        """Return whether every preemptor is assumed on a node."""

    def nodes_exist(self, plan: PreemptionPlan) -> bool:
        """Return whether the cluster has all nodes of a plan."""
