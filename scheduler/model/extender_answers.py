"""What extenders answer, as values; how it looks on the wire is said in `framework.extenders`."""

from typing import TypeAlias

import msgspec

__all__ = ["ExtenderAnswer", "ExtenderVictims", "Filtered", "NoAnswer", "Scored", "VictimUids"]


class _Answer(msgspec.Struct, frozen=True, tag_field="kind"):
    """Base of the answers."""


class NoAnswer(_Answer, frozen=True, tag=True):
    """None that can be used: unreachable, too late, garbled, or an error of the extender."""

    error: str


class Filtered(_Answer, frozen=True, tag=True):
    """Which nodes take the pod."""

    nodes: tuple[str, ...]
    #: Why others do not, by node: what the removal of pods could change, and what it could not.
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}


class Scored(_Answer, frozen=True, tag=True):
    """How good nodes are, from 0 to 10; by node, which may come several times."""

    scores: tuple[tuple[str, int], ...]


class VictimUids(msgspec.Struct, frozen=True):
    """Who has to leave a node, by uid."""

    node: str
    uids: tuple[str, ...]
    #: How many of them a budget would have protected.
    violations: int = 0


class ExtenderVictims(_Answer, frozen=True, tag=True):
    """Which preemptions may happen, and whom they cost; others may not."""

    nodes: tuple[VictimUids, ...]


ExtenderAnswer: TypeAlias = NoAnswer | Filtered | Scored | ExtenderVictims
