"""Tables that several commands print: verdicts, victims and compared candidates."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from scheduler.kubectl import text
from scheduler.kubectl.output import Output
from scheduler.model.rest.common import SHIFTED_SUM, TIME, CriterionView, Impact
from scheduler.model.rest.explanations import PossiblePreemption, RejectionGroup
from scheduler.model.rest.preemptions import (
    CandidateView,
    PolicyVeto,
    PreemptionDevices,
    PreemptionView,
    Replacement,
    VictimView,
)
from scheduler.model.rest.what_if import SimulatedPod

__all__ = ["compared", "devices", "fate", "meaning", "verdict", "verdicts", "vetoes", "victims"]

#: The criterion that counts victims.
_VICTIMS: Final = "victims"
#: What has candidates.
Compared: TypeAlias = PreemptionView | PossiblePreemption | SimulatedPod


def verdicts(out: Output, found: Sequence[RejectionGroup], *, wide: bool) -> None:
    """Print what groups of nodes say."""
    head = ["NODES", "EVICTION HELPS", "PLUGIN", "REASON"]
    rows = [[str(each.nodes), each.eviction, each.plugin, each.reason] for each in found]
    if wide:
        head.append("EXAMPLES")
        for row, each in zip(rows, found, strict=True):
            row.append(",".join(each.examples))
    out.table(head, rows, wide=wide)


def verdict(out: Output, sentence: str, impact: Impact) -> None:
    """Print the answer, set apart from what it rests on; red is only for harm."""
    for line in text.paragraph(sentence, out.width).split("\n"):
        out.line(line, _STYLES[impact])


#: The colours of answers, by what they cost.
_STYLES: Final[dict[Impact, str]] = {"none": "bold", "evictions": "yellow", "budgets": "red"}


def victims(out: Output, found: Sequence[VictimView], hidden: int, *, wide: bool) -> None:
    """Print the victims of one preemption."""
    columns: dict[str, list[str]] = {
        "VICTIM": [text.pod_name(each.pod) for each in found],
        "PRIORITY": [str(each.pod.priority) for each in found],
        "RAN": [text.age(each.ran_seconds) for each in found],
        "REQUESTS": [text.amounts(each.pod.requests) for each in found],
    }
    if wide or any(each.violates_pdb for each in found):
        columns["BUDGET"] = [_budget(each) for each in found]
    if wide:
        columns["OWNER"] = [text.owner_name(each.pod) for each in found]
    head, rows = list(columns), list(zip(*columns.values(), strict=True))
    out.table(head, rows, wide=wide, indent="  ")
    if hidden:
        out.line(f"  and {text.count(hidden, 'pod')} that you may not see")


def devices(out: Output, found: PreemptionDevices | None, now: float, title: str) -> None:
    """Print the devices of one preemption, and the claims that keep them."""
    if found is None:
        return
    out.line()
    out.line(title, "bold")
    rows = [
        [
            each.full_name,
            f"{each.namespace}/{each.claim}" if each.claim else "-",
            (each.pod or "-") + (f" and {each.more_pods} more" if each.more_pods else ""),
        ]
        for each in found.items
    ]
    if rows:
        out.table(["DEVICE", "CLAIM", "POD"], rows, indent="  ")
    if found.more:
        out.line(f"  and {text.count(found.more, 'device' if not rows else 'more device')}")
    if not found.claims and not found.more_claims:
        return
    out.line()
    lasting = text.since(found.victims_gone_at, now)
    out.line(f"Not deallocated yet, {lasting} after their pods were gone:", "yellow")
    for claim in found.claims:
        whose = f", reserved for pod {claim.pod}" if claim.pod else ", reserved for nobody"
        out.paragraph(f"{claim.namespace}/{claim.name}{whose}", "  ")
    if found.more_claims:
        out.line(f"  and {text.count(found.more_claims, 'more claim')}")


def _budget(victim: VictimView) -> str:
    if not victim.violates_pdb:
        return "ok"
    return f"violates {', '.join(victim.budgets)}" if victim.budgets else "violated"


def meaning(found: Compared) -> str:
    """Return what decided between the candidates, in words; empty if there was only one."""
    known = {each.name: each.meaning for each in found.criteria}
    return text.clean(known.get(found.criterion, found.criterion))


def compared(out: Output, found: Compared, *, wide: bool) -> None:
    """Print the candidates that were compared, the chosen one first."""
    shown = [
        each for each in found.criteria
        if each.title and (wide or each.measure != TIME)  # the time of day would be cut
    ]  # fmt: skip
    head = ["NODE", *(text.clean(each.short_title).upper() for each in shown), "LOST BY"]
    rows = [
        [
            each.node,
            *(_value(each, criterion, wide=wide) for criterion in shown),
            each.lost_by or "chosen",
        ]
        for each in found.candidates
    ]
    out.table(head, rows, wide=wide, indent="  ")
    more = found.candidates_total - len(found.candidates)
    if more > 0:
        out.line(f"  and {text.count(more, 'node')} more")
    counts = {each.values.get(_VICTIMS) for each in found.candidates}
    sums = {each.name for each in found.criteria if each.measure == SHIFTED_SUM}
    if len(counts) > 1 and any(each.lost_by in sums for each in found.candidates):
        out.paragraph("Of two sums, the one of fewer victims counts as lower.", "  ")


def _value(candidate: CandidateView, criterion: CriterionView, *, wide: bool) -> str:
    """Return a value of a criterion.

    In a sum of priorities each victim counts 2**31 more, which hides the priorities: it is left
    out unless everything is wanted.
    """
    value, victims = candidate.values.get(criterion.name, "-"), candidate.values.get(_VICTIMS)
    if (
        criterion.measure != SHIFTED_SUM
        or not isinstance(value, int)
        or not isinstance(victims, int)
    ):
        return str(value)
    rest = value - victims * 2**31
    return f"{rest}+{victims}x2^31" if wide else str(rest)


def vetoes(out: Output, found: Sequence[PolicyVeto]) -> None:
    """Print what policies, and earlier wasted preemptions, forbid; the messages name policies."""
    for each in found:
        ruled = f", {each.count} ruled out" if each.count else ""
        out.paragraph(f"{each.message}; rule {each.rule}{ruled}", "  - ")


def fate(replacement: Replacement | None) -> str:
    """Return what became of the work of a victim, or will."""
    if replacement is None:
        return "-"
    if replacement.node:
        return f"{text.pod_name(replacement.pod)} on {text.clean(replacement.node)}"
    return f"{text.pod_name(replacement.pod)}, pending"
