"""The document of shadow mode: the verdict, the counts, and the pods that differ."""

from collections.abc import AsyncGenerator, Container, Mapping, Sequence
from typing import Final

from scheduler.model import times
from scheduler.model.rest.common import PodView
from scheduler.model.rest.shadow import ShadowDocument, ShadowOutcome, ShadowPod
from scheduler.observe.api import lists
from scheduler.observe.api.requests import ApiRequest, limit_of
from scheduler.observe.api.views import stamp
from scheduler.observe.shadow.comparison import AGREEING, PLACEMENTS, Outcome
from scheduler.observe.shadow.shadow import Difference, Shadow

__all__ = ["ABSENT", "MEANINGS", "page", "verdict"]

ABSENT: Final = (
    "this scheduler does not run in shadow mode: it schedules; start one with run --shadow"
    " default-scheduler, or install the chart with shadow.enabled=true"
)
MEANINGS: Final[Mapping[Outcome, str]] = {
    Outcome.SAME_NODE: "bound to the node that this scheduler would choose",
    Outcome.EQUAL_NODE: "bound to a node with the same score",
    Outcome.OTHER_NODE: "bound to a feasible node with a lower score",
    Outcome.NODE_INFEASIBLE: "bound to a node that this scheduler finds infeasible",
    Outcome.NO_ROOM: "bound, but this scheduler would find no room",
    Outcome.BOTH_UNSCHEDULABLE: "both find no room",
    Outcome.WOULD_PLACE: "left pending, but this scheduler would place it",
    Outcome.SAME_PREEMPTION: "the same pods are evicted",
    Outcome.EQUAL_PREEMPTION: "as many pods of the same priorities are evicted",
    Outcome.OTHER_PREEMPTION: "other pods are evicted",
    Outcome.PREEMPTION_AVOIDED: "pods are evicted, but this scheduler would evict none",
    Outcome.PREEMPTION_ADDED: "no pod is evicted, but this scheduler would evict some",
    Outcome.NOT_COMPARED: "not compared",
}
#: The other scheduler has evicted pods.
_THEIR_PREEMPTIONS: Final = (
    Outcome.SAME_PREEMPTION, Outcome.EQUAL_PREEMPTION, Outcome.OTHER_PREEMPTION,
    Outcome.PREEMPTION_AVOIDED,
)  # fmt: skip


async def page(
    shadow: Shadow | None, request: ApiRequest, *, leader: bool
) -> AsyncGenerator[bytes]:
    """Return the document.

    Args:
        shadow: What was found; `None` where this is not shadow mode.
        request: The request.
        leader: Whether this replica compares.

    Raises:
        LookupError: This is not shadow mode.
        ValueError: The query is malformed.
    """
    if shadow is None:
        raise LookupError(ABSENT)
    limit, known = limit_of(request.query), list(reversed(shadow.differences))
    namespaces = {each.pod.namespace for each in known}
    namespaces.update(
        victim.namespace
        for each in known
        for victims in (each.their_victims, each.our_victims)
        for victim in victims
    )
    visible = await request.names.visible(namespaces)
    shown = [each for each in known if each.pod.namespace in visible]
    found = shadow.outcomes
    rest = ShadowDocument(
        verdict=verdict(shadow),
        impact="none",
        schedulers=shadow.schedulers,
        leader=leader,
        since=stamp(shadow.began),
        placements=sum(found[each] for each in PLACEMENTS),
        agreeing=sum(found[each] for each in AGREEING),
        outcomes=tuple(ShadowOutcome(each.value, MEANINGS[each], found[each]) for each in Outcome),
        their_victims=shadow.their_cost.victims,
        our_victims=shadow.our_cost.victims,
        their_cost=shadow.their_cost.amounts(),
        our_cost=shadow.our_cost.amounts(),
        hidden=len(known) - len(shown),
        remaining=max(0, len(shown) - limit),
    )
    return lists.document(
        shown[:limit], lambda part: [_item(each, visible) for each in part], lambda: rest
    )


def verdict(shadow: Shadow) -> str:
    """Return what was found, in one sentence."""
    found = shadow.outcomes
    placements = sum(found[each] for each in PLACEMENTS)
    agreeing = sum(found[each] for each in AGREEING)
    names = " and ".join(shadow.schedulers)
    how = " without a preemption" if any(found[each] for each in _THEIR_PREEMPTIONS) else ""
    parts = [f"No pod of {names} was placed{how} yet, so no placement is compared"]
    if placements:
        share = 100 * agreeing / placements
        verb = "was" if agreeing == 1 else "were"
        pods = f"Of {_number(placements, 'pod')} of {names}, {agreeing:,} ({share:.1f} %)"
        parts = [f"{pods} {verb} placed on the same or an equally good node"]
    for outcome, noun, what in (
        (Outcome.PREEMPTION_AVOIDED, "preemption", "would have been avoided"),
        (Outcome.PREEMPTION_ADDED, "preemption", "would have been added"),
        (Outcome.OTHER_PREEMPTION, "preemption", "would have had other victims"),
        (Outcome.WOULD_PLACE, "pending pod", "would have been placed"),
    ):
        if found[outcome]:
            parts.append(f"{_number(found[outcome], noun)} {what}")
    return f"{'; '.join(parts)}."


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _item(found: Difference, visible: Container[str]) -> ShadowPod:
    theirs, ours = _seen(found.their_victims, visible), _seen(found.our_victims, visible)
    everything = len(theirs) == len(found.their_victims) and len(ours) == len(found.our_victims)
    return ShadowPod(
        pod=found.pod,
        at=times.stamp(found.at),
        outcome=found.outcome.value,
        their_node=found.their_node,
        our_node=found.our_node,
        why=found.why,
        their_victims=theirs,
        our_victims=ours,
        their_victims_total=found.their_cost.victims,
        our_victims_total=found.our_cost.victims,
        their_cost=found.their_cost.amounts() if everything else {},
        our_cost=found.our_cost.amounts() if everything else {},
    )


def _seen(victims: Sequence[PodView], visible: Container[str]) -> tuple[PodView, ...]:
    return tuple(victim for victim in victims if victim.namespace in visible)
