"""A believable document of shadow mode, and the comparisons behind it."""

from scheduler.core.machine import Machine
from scheduler.model.rest.common import PodView
from scheduler.model.rest.shadow import ShadowDocument, ShadowOutcome, ShadowPod
from scheduler.observe.api.shadow import MEANINGS, verdict
from scheduler.observe.shadow.comparison import Outcome
from scheduler.observe.shadow.shadow import Shadow
from scheduler.queue.backoff_duration import PodBackoff
from tests.support.cluster import profiles

__all__ = ["COUNTS", "document"]

COUNTS = {
    Outcome.SAME_NODE: 842,
    Outcome.EQUAL_NODE: 338,
    Outcome.OTHER_NODE: 21,
    Outcome.NODE_INFEASIBLE: 3,
    Outcome.BOTH_UNSCHEDULABLE: 17,
    Outcome.SAME_PREEMPTION: 9,
    Outcome.PREEMPTION_AVOIDED: 3,
}


def shadow() -> Shadow:
    """Return what would have been counted."""
    made = Shadow(Machine(profiles("profiles: [{schedulerName: default-scheduler}]"), PodBackoff()))
    made.outcomes.update(COUNTS)
    return made


def document(since: str, ago: list[str]) -> ShadowDocument:
    """Return the document.

    Args:
        since: When the comparison began.
        ago: When two pods were compared, the newest first.
    """
    hour = 3600.0
    low = tuple(PodView("batch", f"etl-{i}", f"uid-etl-{i}") for i in range(3))
    return ShadowDocument(
        verdict=verdict(shadow()),
        impact="none",
        schedulers=("default-scheduler",),
        leader=True,
        since=since,
        placements=1204,
        agreeing=1180,
        outcomes=tuple(
            ShadowOutcome(each.value, MEANINGS[each], COUNTS.get(each, 0)) for each in Outcome
        ),
        their_victims=31,
        our_victims=12,
        their_cost={"pods": 93 * hour, "cpu": 372_000 * hour, "memory": 744 * 2.0**30 * hour},
        our_cost={"pods": 6 * hour, "cpu": 24_000 * hour, "memory": 48 * 2.0**30 * hour},
        items=(
            ShadowPod(
                PodView("prod", "api-7", "uid-api-7", priority=100_000),
                ago[0],
                Outcome.PREEMPTION_AVOIDED.value,
                their_node="node-12",
                why="0/12 nodes are available: 12 Insufficient cpu. preemption: 0/12 nodes are"
                ' available: 12 PreemptionPolicy "small-steps" refuses: at most 1 victim.',
                their_victims=low,
                their_victims_total=3,
                their_cost={"pods": 9 * hour, "cpu": 36_000 * hour},
            ),
            ShadowPod(
                PodView("prod", "web-3", "uid-web-3"),
                ago[1],
                Outcome.OTHER_NODE.value,
                their_node="node-4",
                our_node="node-9",
                why="the score is 21 lower; NodeResourcesFit alone gives 25 less",
            ),
        ),
        hidden=22,
    )
