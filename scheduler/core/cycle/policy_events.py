"""Applies events of objects that only preemption policies and disruption budgets depend on.

No plugin listens to these events. They requeue no pods, or only pods that policies block.
"""

from scheduler.core.eviction.preemptions import Preemptions
from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.model.events import (
    BudgetGone,
    BudgetObserved,
    ClockAhead,
    LedgerLoaded,
    NamespaceGone,
    NamespaceObserved,
    PolicyGone,
    PolicyObserved,
    WorkloadGone,
    WorkloadObserved,
)
from scheduler.model.policy_vetoes import Rule
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.preemption.ledger import Ledger

__all__ = ["PolicyEventHandlers"]


class PolicyEventHandlers:
    """Handlers of the events that no plugin listens to."""

    def __init__(
        self,
        cluster: Cluster,
        ledger: Ledger,
        policies: PolicyEngine,
        wakeups: Wakeups,
        preemptions: Preemptions,
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._policies = policies
        self._wakeups = wakeups
        self._blocked = wakeups.blocked
        self._preemptions = preemptions

    def on_pdb(self, event: BudgetObserved | BudgetGone, now: Seconds) -> None:
        """Apply the state of a disruption budget, or delete it.

        As in kube-scheduler this wakes no pods, except those that this very PDB blocks.
        """
        cluster, policies = self._cluster, self._policies
        if isinstance(event, BudgetObserved):
            cluster.write_pdb(event.budget)
            policies.pdb_updated(event.budget)
            key = event.budget.metadata.key
        else:
            cluster.erase_pdb(event.key)
            policies.pdb_gone(event.key)
            key = event.key
        if len(self._blocked):
            self._blocked.wake_for_pdbs(now, {key, *policies.relieved_pdbs(now)})

    def on_namespace(self, event: NamespaceObserved | NamespaceGone, now: Seconds) -> None:
        """Apply the labels of a namespace, or delete it; policies may select other namespaces."""
        cluster = self._cluster
        before = cluster.namespaces_version
        if isinstance(event, NamespaceObserved):
            cluster.write_namespace(event.namespace)
        else:
            cluster.erase_namespace(event.name)
        if cluster.namespaces_version != before:
            self._blocked.wake(now, "NamespaceChange")

    def on_policy(self, event: PolicyObserved | PolicyGone, now: Seconds) -> None:
        """Apply a policy, or delete it; pods that policies block are tried again.

        A stop also counts for what is under way: no eviction is requested after it.
        """
        policies = self._cluster.policies
        if isinstance(event, PolicyObserved):
            changed = policies.write(event.policy)
        else:
            changed = policies.erase(event.name)
        if changed:
            self._ledger.set_windows(policies.windows(), policies.shortest_window())
            self._blocked.wake(now, "PreemptionPolicyChange")
            if policies.stop is not None:
                self._preemptions.stop_all(now)

    def on_workload(self, event: WorkloadObserved | WorkloadGone, _now: Seconds) -> None:
        """Apply the state of a workload, or delete it."""
        if isinstance(event, WorkloadObserved):
            self._cluster.workloads.write(event.workload)
        else:
            self._cluster.workloads.erase(event.kind, event.key)

    def on_ledger(self, event: LedgerLoaded, now: Seconds) -> None:
        """Merge the ledger that an earlier leader has written.

        Raises:
            LedgerError: The text cannot be read; nothing is changed then.
        """
        self._ledger.merge(event.text, now)

    def on_clock_ahead(self, event: ClockAhead, now: Seconds) -> None:
        """Apply how far our clock is ahead, which `victimMinRuntime` depends on."""
        if self._cluster.clock_ahead != event.seconds:
            self._cluster.clock_ahead = event.seconds
            self._blocked.wake(now, "ClockChange", Rule.MIN_RUNTIME)
