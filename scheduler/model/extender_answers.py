"""Responses of extenders, as values; `framework/extender_protocol` has their JSON format."""

from typing import TypeAlias

import msgspec

__all__ = ["ExtenderAnswer", "ExtenderVictims", "Filtered", "NoAnswer", "Scored", "VictimUids"]


class _Answer(msgspec.Struct, frozen=True, tag_field="kind"):
    """Base of the answers."""


class NoAnswer(_Answer, frozen=True, tag=True):
    """No usable answer: unreachable, timeout, invalid response, or an error of the extender."""

    error: str


class Filtered(_Answer, frozen=True, tag=True):
    """The answer to a filter call: the feasible nodes."""

    nodes: tuple[str, ...]
    #: Reasons by rejected node: those that evictions could resolve, and those they could not.
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}


class Scored(_Answer, frozen=True, tag=True):
    """Scores from 0 to 10 by node; a node may occur several times."""

    scores: tuple[tuple[str, int], ...]


class VictimUids(msgspec.Struct, frozen=True):
    """The victims on a node, by uid."""

    node: str
    uids: tuple[str, ...]
    #: The number of them whose eviction violates a disruption budget.
    violations: int = 0


class ExtenderVictims(_Answer, frozen=True, tag=True):
    """The answer to a preemption call: the allowed preemptions, with their victims."""

    nodes: tuple[VictimUids, ...]


ExtenderAnswer: TypeAlias = NoAnswer | Filtered | Scored | ExtenderVictims
