"""The document of shadow mode."""

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model.rest.common import Document, PodView

__all__ = ["MODE_HEADER", "SHADOW", "ShadowDocument", "ShadowOutcome", "ShadowPod"]

#: The header of all responses of a scheduler in shadow mode, and its value.
MODE_HEADER: Final = "Preemptive-Scheduler-Mode"
SHADOW: Final = "shadow"


class ShadowOutcome(Document, frozen=True):
    """How often an act of another scheduler compared in one way."""

    name: str
    #: The same in words, about one pod.
    meaning: str
    count: int = msgspec.field(default=0)


class ShadowPod(Document, frozen=True):
    """A pod that another scheduler treated differently."""

    pod: PodView
    at: str
    #: The name of an outcome.
    outcome: str
    #: The node to which they bound the pod, or from which they evicted; empty for none.
    their_node: str = ""
    our_node: str = ""
    #: The reason in the words of a rule; empty if the outcome says it all.
    why: str = ""
    #: The first 20 that the caller may see, and how many there are in all.
    their_victims: tuple[PodView, ...] = ()
    our_victims: tuple[PodView, ...] = ()
    their_victims_total: int = 0
    our_victims_total: int = 0
    #: Amount times the seconds that the victims had run: `pods`, `cpu`, `memory`. Left out if the
    #: caller may not see all victims.
    their_cost: Mapping[str, float] = {}
    our_cost: Mapping[str, float] = {}


class ShadowDocument(Document, frozen=True):
    """`GET /api/v1/shadow?limit=`: how this scheduler compares with others, in shadow mode.

    Not found where the scheduler schedules. Everything is since the replica began to lead.
    """

    #: What was found, in one sentence.
    verdict: str
    #: Always `none`: nothing is evicted or bound.
    impact: str
    schedulers: tuple[str, ...]
    leader: bool
    #: Since when acts are compared; empty on a replica that stands by.
    since: str = ""
    #: Pods that were bound without a preemption, and those of them on the same or an equally good
    #: node.
    placements: int = 0
    agreeing: int = 0
    outcomes: tuple[ShadowOutcome, ...] = ()
    #: All victims, and what was lost with them: amount times seconds.
    their_victims: int = 0
    our_victims: int = 0
    their_cost: Mapping[str, float] = {}
    our_cost: Mapping[str, float] = {}
    #: Newest first. The last 1,000 are kept.
    items: tuple[ShadowPod, ...] = ()
    #: How many of them the caller may not see.
    hidden: int = 0
    remaining: int = 0
