"""What a side makes of a cluster, in one form for both."""

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Answer", "Attempt", "Found"]


@dataclass(frozen=True)
class Found:
    """What was found on one node."""

    #: `Plugin: reason, reason`; `None` where the pod fits.
    rejection: str | None
    #: Weighted scores by plugin; those that are 0 may be left out.
    scores: dict[str, int]
    #: Why no pod may be evicted there now; only this scheduler's side knows.
    vetoes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attempt:
    """One pod, one decision."""

    pod: str
    decision: str
    node: str | None
    victims: tuple[str, ...]
    violations: int
    message: str
    #: Plugins whose events can wake the pod.
    rejectors: tuple[str, ...]
    nodes: dict[str, Found]
    #: Whether a victim is not evicted after all; only this scheduler's side knows.
    spares: bool = False
    #: Nodes that are all as good as the chosen one; only kube-scheduler's side knows.
    best: tuple[str, ...] = ()
    #: Victims and violations by node; only kube-scheduler's side knows.
    candidates: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    best_candidates: tuple[str, ...] = ()
    #: What fails on some node, when the attempt has failed; only kube-scheduler's side knows.
    errors: tuple[str, ...] = ()
    #: The state of every resource claim after the attempt, by namespace and name.
    claims: dict[str, Any] = field(default_factory=dict)
    #: The container, the resource, and the request of the claim for extended resources.
    mappings: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Answer:
    """All attempts on one cluster, in order."""

    attempts: tuple[Attempt, ...]
    #: Where each pod ended; empty unless the cluster was settled.
    final: dict[str, str | None] = field(default_factory=dict)
    #: Why there is no answer; empty when there is one.
    error: str = ""
