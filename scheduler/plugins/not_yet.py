"""Rules that are not there yet: they reject the pods that would need them.

A pod that asks for something which cannot be judged must not be placed as if it had not asked.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.framework.cluster_events import Wake
from scheduler.framework.plugin import Predicate, Prepared, Rejected
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.objects import Pod
from scheduler.state.arrays import Codes
from scheduler.state.cluster import Cluster
from scheduler.state.nodes import Nodes

__all__ = ["CONCERNS", "NotYet"]


def _uses_claims(pod: Pod) -> bool:
    volumes = pod.spec.volumes
    return any(each.persistent_volume_claim or each.ephemeral for each in volumes)


def _uses_disks(pod: Pod) -> bool:
    return any(
        each.gce_persistent_disk or each.aws_elastic_block_store or each.iscsi or each.rbd
        for each in pod.spec.volumes
    )


#: Which pods would need the rule, and what they ask for.
CONCERNS: Final[Mapping[str, tuple[Callable[[Pod], bool], str]]] = {
    "VolumeBinding": (_uses_claims, "volume claims are"),
    "VolumeRestrictions": (_uses_disks, "inline network disks are"),
}


class NotYet:
    """Rejects the pods that a missing rule concerns."""

    def __init__(self, plugin: str) -> None:
        """Stand in for the plugin of that name."""
        self.name = plugin
        self._concerns, what = CONCERNS[plugin]
        self._reason = f"{what} not supported by preemptive-scheduler yet"

    def predicate(self, pod: Pod, _cluster: Cluster, _verdicts: Verdicts) -> Predicate | None:
        if not self._concerns(pod):
            return None
        return _Unsupported(Verdict(self.name, (self._reason,), resolvable=False))

    def wakes(self) -> Sequence[Wake]:
        return ()


class _Unsupported(Predicate):
    """Rejects the pod as a whole."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def prepare(self) -> Prepared:
        return Rejected(self._verdict)

    def codes(self, nodes: Nodes) -> Codes:
        return np.zeros(len(nodes), dtype=np.uint16)
