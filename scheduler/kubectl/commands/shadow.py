"""`shadow`: how another scheduler compares with what this one would have done."""

from collections.abc import Sequence
from typing import Final

from scheduler.kubectl import text
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session
from scheduler.model.messages import without_preamble
from scheduler.model.rest.common import PodView
from scheduler.model.rest.shadow import ShadowDocument, ShadowPod

__all__ = ["run"]

#: How many pods are listed without `-o wide`.
_FEW: Final = 20
#: All that are kept.
_ALL: Final = 1000


async def run(session: Session) -> int:
    """Print the comparison; return the exit code."""
    answer = await session.client.get("/shadow", ShadowDocument, limit=_ALL)
    if not session.printed(answer):
        _show(session.out, answer.document, session.now(), wide=session.wide)
    return 0


def _show(out: Output, found: ShadowDocument, now: float, *, wide: bool) -> None:
    out.paragraph(found.verdict)
    out.line()
    schedulers = text.clean(", ".join(found.schedulers))
    if found.since:
        out.line(f"Compared with {schedulers} for {text.since(found.since, now)}.")
    else:
        out.line("This replica stands by, and compares nothing yet.", "yellow")
    counted = [each for each in found.outcomes if each.count]
    if counted:
        out.line()
        out.table(["COUNT", "PODS"], [[f"{each.count:,}", each.meaning] for each in counted])
    if found.their_victims or found.our_victims:
        out.line()
        out.table(
            ["PREEMPTIONS OF", "EVICTED", "LOST"],
            [
                [schedulers, str(found.their_victims), text.spent(found.their_cost) or "-"],
                ["this scheduler", str(found.our_victims), text.spent(found.our_cost) or "-"],
            ],
        )
    _differences(out, found, now, wide=wide)


def _differences(out: Output, found: ShadowDocument, now: float, *, wide: bool) -> None:
    if found.items:
        out.line()
        head = ["AGE", "POD", "OUTCOME", "THEIRS", "OURS", "WHY"]
        shown = found.items if wide else found.items[:_FEW]
        out.table(head, [_row(each, now, wide=wide) for each in shown], wide=wide)
    hidden = len(found.items) - (len(found.items) if wide else min(_FEW, len(found.items)))
    if hidden:
        out.line(f"and {text.count(hidden, 'pod')} more: -o wide")
    if found.hidden:
        out.line(f"and {text.count(found.hidden, 'pod')} that you may not see")


def _row(each: ShadowPod, now: float, *, wide: bool) -> list[str]:
    return [
        text.since(each.at, now),
        text.pod_name(each.pod),
        each.outcome.replace("_", " "),
        _side(each.their_node, each.their_victims, each.their_victims_total, wide=wide),
        _side(each.our_node, each.our_victims, each.our_victims_total, wide=wide),
        (each.why if wide else without_preamble(each.why)) or "-",
    ]


def _side(node: str, victims: Sequence[PodView], total: int, *, wide: bool) -> str:
    """Return what one side does: a node, and how many pods it evicts there."""
    if not total:
        return node or "pending"
    evicted = f"{node}, evicts {total}"
    if not wide or not victims:
        return evicted
    return f"{evicted}: {', '.join(map(text.pod_name, victims))}"
