"""Calls real extenders about a simulated cluster, one request after the other.

`plan` uses only the calls that change nothing: filter, prioritize and preempt. Bindings are
simulated, even if an extender would bind the pod.
"""

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import msgspec

from scheduler.config.settings import Extender
from scheduler.kube.extenders import Extenders
from scheduler.model.api.objects import Pod
from scheduler.model.effects import Ask, PodRef
from scheduler.model.extender_answers import ExtenderAnswer
from scheduler.sim.manifests import RawObjects

__all__ = ["ExtenderClient"]


class ExtenderClient:
    """Calls extenders. Use it as a context manager.

    Raises:
        ConnectionSettingsError: The TLS settings of an extender are unusable.
    """

    def __init__(self, settings: Sequence[Extender], raw: RawObjects) -> None:
        self._pods = _SimulatedPods(raw.pods)
        self._extenders = Extenders(settings, self._pods, raw.nodes)
        self._runner = asyncio.Runner()

    def __enter__(self) -> "ExtenderClient":
        self._runner.run(self._extenders.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runner.run(self._extenders.__aexit__(kind, error, trace))
        self._runner.close()

    def __call__(self, effect: Ask, pods: Mapping[str, Pod]) -> tuple[ExtenderAnswer, ...]:
        """Call them and wait for the answers; `pods` are those of the simulated cluster, by uid."""
        self._pods.now = pods
        return self._runner.run(self._extenders.ask(effect))


class _SimulatedPods:
    """Pods as the files have them, with the changes that the simulation has made."""

    def __init__(self, documents: Mapping[str, bytes]) -> None:
        self._documents = documents
        self.now: Mapping[str, Pod] = {}

    async def get(self, pod: PodRef, version: str = "") -> bytes:  # noqa: ARG002 - there is only one
        """Return a pod as JSON."""
        now = self.now[pod.uid]
        # A pod that its controller has re-created is in no file.
        known = self._documents.get(pod.uid) or msgspec.json.encode(now)
        document: dict[str, Any] = msgspec.json.decode(known)
        spec = document.setdefault("spec", {})
        spec["schedulerName"] = now.spec.scheduler_name
        if now.spec.node_name:
            spec["nodeName"] = now.spec.node_name
        status = document.setdefault("status", {})
        status["nominatedNodeName"] = now.status.nominated_node_name
        if now.terminating:
            document["metadata"]["deletionTimestamp"] = now.metadata.deletion_timestamp
        return msgspec.json.encode(document)
