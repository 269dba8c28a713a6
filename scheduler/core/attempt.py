"""One attempt: a pod against the cluster as it is. Nothing is changed.

    prepare -> the nominated node alone -> all nodes -> score and select -> Placed
                                             `-> nothing fits -> post filters -> Preempting
                                                                             `-> Unschedulable

Source: kube-scheduler v1.36.3 schedule_one.go schedulingAlgorithm. Differs: every node is looked
at and every feasible one is scored.

Axes: N rows, F feasible nodes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core import claims, message, select
from scheduler.core.classes import Classes, PodClass
from scheduler.core.filtering import Preparation
from scheduler.core.preemption.choose import Candidate
from scheduler.core.preemption.plan import plan
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import NO_NODE, Verdict, Verdicts
from scheduler.model.decisions import NodeTrace
from scheduler.model.objects import Pod
from scheduler.state.arrays import Codes, Int, Rows
from scheduler.state.cluster import Cluster

__all__ = ["Attempts", "Outcome"]

NO_NODES: Final = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attempt found. Exactly one of `node`, `candidate` and `message` decides."""

    #: The node that takes the pod.
    node: str | None = None
    #: The preemption that makes room for it.
    candidate: Candidate | None = None
    #: Why it fits nowhere; also set beside a candidate.
    message: str = ""
    #: Plugins that rejected it; empty when there were no nodes at all.
    rejectors: frozenset[str] = frozenset()
    #: Whether a nomination that the pod has stays in force although nothing was found.
    keeps_nomination: bool = False
    preemption_tried: bool = False
    nodes: int = 0
    feasible: int = 0
    trace: tuple[NodeTrace, ...] = ()


class Attempts:
    """Decides for one pod at a time."""

    def __init__(
        self, profiles: Mapping[str, Profile], cluster: Cluster, verdicts: Verdicts
    ) -> None:
        self._cluster = cluster
        self._verdicts = verdicts
        self._classes = Classes(profiles, cluster, verdicts)

    def decide(self, pod: Pod, key: bytes, *, explain: bool) -> Outcome:
        """Decide for a pod of the class with this key."""
        columns = self._cluster.columns
        if columns.node_count == 0:
            return Outcome(message=NO_NODES)
        pod_class = self._classes.get(pod, key)
        prepared = pod_class.filtering.prepare()
        if prepared.rejected is not None:
            return self._rejected_as_a_whole(pod, pod_class, prepared, explain=explain)
        codes = nominated = self._codes_on_nominated(pod, pod_class, prepared)
        if codes is None or not (codes == 0).any():
            codes = self._codes(pod, pod_class, prepared, nominated)
        feasible: Rows = np.flatnonzero(codes == 0)
        if not feasible.shape[0]:
            return self._fits_nowhere(pod, pod_class, prepared, codes, explain=explain)
        return self._placed(pod, pod_class, codes, feasible, explain=explain)

    def _codes(
        self, pod: Pod, pod_class: PodClass, prepared: Preparation, nominated: Codes | None
    ) -> Codes:
        """Return, (N,), the verdict on every row.

        What was found on the nominated node stands, also where it is none of the only nodes; its
        plugin is then named with those that left the others out.
        """
        if prepared.only is None:
            codes = pod_class.filtering.judge_all(prepared)
            return claims.with_claims(codes, pod, self._cluster, prepared.predicates)
        columns = self._cluster.columns
        rows = columns.rows_of(prepared.only)
        looked_at = NO_NODE if nominated is None else int(nominated.min())
        plugins = " ".join(sorted({*prepared.narrowed_by, *self._plugin(looked_at)}))
        left_out = Verdict("", (f"node(s) didn't satisfy plugin(s) [{plugins}]",), resolvable=False)
        outside = self._verdicts.code(left_out)
        codes = np.where(columns.exists(), outside, NO_NODE).astype(np.uint16)
        codes[rows] = pod_class.filtering.judge_rows(rows, prepared)
        codes = claims.with_claims(codes, pod, self._cluster, prepared.predicates, rows)
        return codes if nominated is None else np.where(nominated != NO_NODE, nominated, codes)

    def _plugin(self, code: int) -> tuple[str, ...]:
        """Return the plugin of a verdict, if it is one."""
        return () if code == NO_NODE else (self._verdicts[code].plugin,)

    def _codes_on_nominated(
        self, pod: Pod, pod_class: PodClass, prepared: Preparation
    ) -> Codes | None:
        """Return, (N,), the verdict on the node that the pod is nominated to, `NO_NODE` elsewhere.

        Returns:
            `None` when the pod has no nomination, or to a node that is gone.
        """
        node = self._cluster.nominations.node(pod.uid)
        columns = self._cluster.columns
        row = None if node is None else columns.row(node)
        if row is None or columns.nodes[row] is None:
            return None
        rows: Rows = np.array([row], dtype=np.int64)
        codes = np.full(columns.size, NO_NODE, dtype=np.uint16)
        codes[rows] = pod_class.filtering.judge_rows(rows, prepared)
        return claims.with_claims(codes, pod, self._cluster, prepared.predicates, rows)

    def _placed(
        self, pod: Pod, pod_class: PodClass, codes: Codes, feasible: Rows, *, explain: bool
    ) -> Outcome:
        columns = self._cluster.columns
        if feasible.shape[0] == 1:
            row = int(feasible[0])
        else:
            ranking = pod_class.scoring.ranking(feasible)
            row = select.best(feasible, ranking, pod.uid, columns)
        return Outcome(
            node=columns.names[row],
            nodes=columns.node_count,
            feasible=feasible.shape[0],
            trace=self._trace(codes, pod_class, feasible) if explain else (),
        )

    def _fits_nowhere(
        self,
        pod: Pod,
        pod_class: PodClass,
        prepared: Preparation,
        codes: Codes,
        *,
        explain: bool,
    ) -> Outcome:
        """Build the message and look for a cure."""
        present = np.unique(codes[codes != NO_NODE]).tolist()
        rejectors = {self._verdicts[code].plugin for code in present} - {""}
        cure = self._post_filter(pod, pod_class, prepared, codes)
        reasons = message.counted(codes, self._verdicts)
        nodes = self._cluster.columns.node_count
        return Outcome(
            candidate=cure.candidate,
            message=message.fit_error(nodes, reasons.items(), post_filter=cure.message),
            rejectors=frozenset(rejectors) | prepared.blamed,
            keeps_nomination=cure.keeps_nomination,
            preemption_tried=cure.preemption_tried,
            nodes=nodes,
            trace=self._trace(codes, pod_class, codes[:0].astype(np.int64)) if explain else (),
        )

    def _rejected_as_a_whole(
        self, pod: Pod, pod_class: PodClass, prepared: Preparation, *, explain: bool
    ) -> Outcome:
        """Handle a pod that was rejected before any node was looked at."""
        rejected = prepared.rejected or Verdict("", (), resolvable=False)
        code = self._verdicts.code(rejected)
        codes = np.where(self._cluster.columns.exists(), code, NO_NODE).astype(np.uint16)
        cure = self._post_filter(pod, pod_class, prepared, codes)
        nodes = self._cluster.columns.node_count
        prefilter = ", ".join(rejected.reasons)
        return Outcome(
            candidate=cure.candidate,
            message=message.fit_error(nodes, (), prefilter=prefilter, post_filter=cure.message),
            rejectors=prepared.blamed,
            keeps_nomination=cure.keeps_nomination,
            preemption_tried=cure.preemption_tried,
            nodes=nodes,
            trace=self._trace(codes, pod_class, codes[:0].astype(np.int64)) if explain else (),
        )

    def _post_filter(
        self, pod: Pod, pod_class: PodClass, prepared: Preparation, codes: Codes
    ) -> "_Cure":
        """Ask the post filters in order.

        Source: kube-scheduler v1.36.3 framework/runtime.RunPostFilterPlugins.
        """
        rejected = prepared.rejected
        by = rejected.plugin if rejected is not None and not rejected.resolvable else None
        said: list[str] = []
        # Without any post filter a nomination is cleared; one that says nothing of it keeps it.
        keeps = bool(pod_class.profile.post_filters)
        tried = False
        for plugin in pod_class.profile.post_filters:
            if isinstance(plugin, str):
                tried = True
                found = plan(
                    pod, self._cluster, prepared.predicates, codes, self._verdicts,
                    pod_class.outlook,
                )  # fmt: skip
                if isinstance(found, Candidate):
                    return _Cure(candidate=found, preemption_tried=True)
                said.append(f"preemption: {found.message}")
                keeps = found.keeps_nomination
            else:
                spoken = plugin.post_filter(pod, prefilter_rejected_by=by)
                said.append(spoken.message)
                if spoken.ends:
                    keeps = True
                    break
        return _Cure(None, ", ".join(said), keeps, tried)

    def _trace(self, codes: Codes, pod_class: PodClass, feasible: Int) -> tuple[NodeTrace, ...]:
        """Return what was found on each node, in name order."""
        columns = self._cluster.columns
        scored = pod_class.scoring.weighted(feasible) if feasible.shape[0] > 1 else {}
        place = {int(row): position for position, row in enumerate(feasible)}
        traces = []
        for row in np.flatnonzero(codes != NO_NODE).tolist():
            code = int(codes[row])
            scores = {
                plugin: int(values[place[row]]) for plugin, values in scored.items() if row in place
            }
            rejection = None if code == 0 else str(self._verdicts[code])
            traces.append(NodeTrace(columns.names[row], rejection, scores))
        return tuple(sorted(traces, key=lambda trace: trace.name))


@dataclass(frozen=True, slots=True)
class _Cure:
    """What the post filters found."""

    candidate: Candidate | None = None
    message: str = ""
    keeps_nomination: bool = False
    preemption_tried: bool = False
