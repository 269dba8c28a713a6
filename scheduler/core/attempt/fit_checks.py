"""Checks where a pod fits, apart from attempts: without some pods, or as things are.

Preemptions that are carried out ask these.
"""

from collections.abc import Mapping

from scheduler.core.attempt import extenders
from scheduler.core.attempt.equivalence import EquivalenceClasses, PodClass
from scheduler.core.feasibility.filters import Preparation, rejects
from scheduler.core.preemption.evaluate.victims import (
    expected_devices,
    fits_without,
    still_needed,
)
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import PluginError
from scheduler.framework.profile import CLAIMS
from scheduler.model.api.devices import Allocation
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.effects import Verb
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.views.node_view import NOBODY, GonePods

__all__ = ["FitChecks"]


class FitChecks:
    """Checks for pods of all classes."""

    def __init__(self, classes: EquivalenceClasses, cluster: Cluster) -> None:
        self._classes = classes
        self._cluster = cluster

    def still_needed(
        self,
        classified: ClassifiedPod,
        node: str,
        victims: frozenset[str],
        now: Seconds,
        terminating: frozenset[str] = frozenset(),
        gone: GonePods = NOBODY,
    ) -> frozenset[str] | None:
        """Return which victims of a plan for a pod must go; see `victims.still_needed`.

        Where extenders have chosen the victims, all of them count as needed.
        """
        pod_class, prepared, row = self._pre_filtered(classified, node, now)
        if row is None:
            return None
        if extenders.has_verb(pod_class.extenders, Verb.PREEMPT) or prepared.rejected is not None:
            return victims
        return still_needed(
            classified.pod, self._cluster, prepared.predicates, row, victims, terminating, gone
        )

    def fits_without(
        self,
        classified: ClassifiedPod,
        node: str,
        victims: frozenset[str],
        now: Seconds,
        gone: GonePods = NOBODY,
    ) -> bool:
        """Return whether a pod fits without the victims, nominated pods ignored."""
        _, prepared, row = self._pre_filtered(classified, node, now)
        if row is None or prepared.rejected is not None:
            return row is not None
        if not victims and gone is NOBODY and rejects(prepared.predicates, row):
            return False
        return fits_without(self._cluster, prepared.predicates, row, victims, gone)

    def expected_devices(
        self,
        classified: ClassifiedPod,
        node: str,
        victims: frozenset[str],
        now: Seconds,
        gone: GonePods = NOBODY,
    ) -> Mapping[str, Allocation]:
        """Return the devices that a pod would get without the victims, by uid of its claim.

        None where evictions free no devices for it.
        """
        nothing: Mapping[str, Allocation] = {}
        used = self._cluster.held_devices.is_used
        if not used or not self._classes.get(classified).filters.has(CLAIMS):
            return nothing
        _, prepared, row = self._pre_filtered(classified, node, now)
        if row is None or prepared.rejected is not None:
            return nothing
        try:
            return expected_devices(self._cluster, prepared.predicates, row, victims, gone)
        except PluginError:
            return nothing

    def fits(self, classified: ClassifiedPod, node: str, now: Seconds) -> bool:
        """Return whether a pod fits on a node, nominated pods included; extenders are not asked."""
        _, prepared, row = self._pre_filtered(classified, node, now)
        if row is None or prepared.rejected is not None or rejects(prepared.predicates, row):
            return False
        none: frozenset[str] = frozenset()
        pod, predicates = classified.pod, prepared.predicates
        return still_needed(pod, self._cluster, predicates, row, none) is not None

    def _pre_filtered(
        self, classified: ClassifiedPod, node: str, now: Seconds
    ) -> tuple[PodClass, Preparation, int | None]:
        """Return class, PreFilter result and row; no row where the pod can never fit."""
        pod_class = self._classes.get(classified)
        prepared = pod_class.filters.pre_filter(AttemptState(classified.pod, now))
        rejected, only = prepared.rejected, prepared.only
        possible = (rejected is None or rejected.resolvable) and (only is None or node in only)
        row = self._cluster.columns.row(node) if possible else None
        exists = row is not None and self._cluster.columns.nodes[row] is not None
        return pod_class, prepared, row if exists else None

    def has_filter_extender(self, classified: ClassifiedPod) -> bool:
        """Return whether extenders decide which nodes the pod fits on."""
        return extenders.has_verb(self._classes.get(classified).extenders, Verb.FILTER)
