"""Plans the pending pods of a cluster that consists of the objects in files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler.config.settings import Settings
from scheduler.model import times
from scheduler.model.decisions import Detail
from scheduler.model.rest.what_if import WhatIfAnswer, WhatIfRequest
from scheduler.model.times import Seconds
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim import manifests, workloads
from scheduler.sim.expanded import Expanded
from scheduler.sim.manifests import Manifests, RawObjects
from scheduler.sim.object_fields import is_stored
from scheduler.sim.what_if import (
    adopted,
    cordoned,
    foreign_scheduler,
    run,
    scheduler_names,
    with_drained,
)
from scheduler.sim.what_if_answer import AnswerBuilder
from scheduler.sim.what_if_cluster import CallExtenders, WhatIfCluster, WhatIfOptions

__all__ = ["FilePlan"]


@dataclass(slots=True)
class FilePlan:
    """The objects of files, with the pods of workloads."""

    objects: Manifests
    _expanded: Expanded
    _request: WhatIfRequest
    #: Uids of pods that an API server has returned.
    _stored: frozenset[str]

    @classmethod
    def read(
        cls, loaded: Sequence[tuple[str, Any]], request: WhatIfRequest, now: Seconds, *, raw: bool
    ) -> "FilePlan":
        """Read documents.

        Args:
            loaded: Pairs of a document's place, which errors name, and the document.
            request: What is asked; its objects do not count.
            now: The time of the plan.
            raw: Whether to keep pods and nodes with all their fields, too.

        Raises:
            ManifestError: A document is invalid, or the files lack a drained node.
        """
        created, namespace = times.stamp(now), request.namespace
        expanded = workloads.expand(loaded, Manifests(), created, namespace, strict=True)
        objects = Manifests(raw=RawObjects() if raw else None)
        for _, document in loaded:
            objects.reference = manifests.reference_of(document) or objects.reference
        manifests.collect(expanded.documents, objects)
        request = with_drained(objects.nodes, request)
        objects.nodes = cordoned(objects.nodes, request.drain)
        flat = (each for where, item in loaded for _, each in manifests.flattened(item, where))
        stored = {each["metadata"].get("uid") for each in flat if is_stored(each)}
        return cls(objects, expanded, request, frozenset(stored))

    def decided(
        self, settings: Settings, now: Seconds, ask: CallExtenders | None = None
    ) -> WhatIfAnswer:
        """Return what would happen.

        Args:
            settings: How the scheduler decides.
            now: The time of the plan.
            ask: Calls extenders; `None` if none is configured.

        Raises:
            ManifestError: The settings have no profile of the name that is asked for.
        """
        request = self._request
        names = scheduler_names(settings, request)
        pods = self.objects.pods
        if request.scheduler_name:
            pods = [adopted(pod, names, request.scheduler_name) for pod in pods]
        foreign = {pod.uid: problem for pod in pods if (problem := foreign_scheduler(pod, names))}
        others = Counter(
            pod.spec.scheduler_name
            for pod in pods
            if pod.uid in foreign and pod.uid in self._stored
        )
        if others:
            self._expanded.warn(
                f"pending pods of other schedulers are not planned: {others.total()} of"
                f" {', '.join(sorted(others))}"
            )
        options = WhatIfOptions(
            request.scheduler_name,
            explain=request.explain,
            ask=ask,
            now=now,
            detail=Detail.COUNTS,
            adopts=False,
            recreates=True,
        )
        backoff = PodBackoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds)
        profiles = registry.profiles(settings)
        cluster = WhatIfCluster(replace(self.objects, pods=pods), profiles, backoff, options)
        asked = {reference.uid for reference in cluster.pending}
        cluster.drain(request.drain)
        run(cluster, request)
        new = {uid: text for uid, text in foreign.items() if uid not in self._stored}
        return AnswerBuilder(now, request, self._expanded, cluster, None, new).answer(asked, ())
