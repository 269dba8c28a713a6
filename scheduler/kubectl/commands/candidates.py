"""Tables that several commands print: verdicts, victims and compared candidates."""

from collections.abc import Sequence
from typing import Final

from scheduler.kubectl import text
from scheduler.kubectl.output import Output
from scheduler.model.rest.explanations import Verdict
from scheduler.model.rest.preemptions import CandidateView, PolicyVeto, Replacement, VictimView

__all__ = ["CRITERIA", "compared", "fate", "verdicts", "vetoes", "victims"]

#: What a criterion means, in the order of comparison.
CRITERIA: Final = {
    "pdbViolations": "fewest disruption budgets violated",
    "highestPriority": "lowest priority of its most important victim",
    "prioritySum": "lowest sum of priorities",
    "victims": "fewest victims",
    "earliestStart": "its most important victims started last",
    "nominatedNode": "already nominated",
    "freedResources": "resources there are already being freed",
    "relocation": "its victims can run elsewhere",
    "hash": "hash of the names, all else being equal",
}


def verdicts(out: Output, found: Sequence[Verdict], *, wide: bool) -> None:
    """Print what groups of nodes say."""
    head = ["NODES", "EVICTION HELPS", "PLUGIN", "REASON"]
    rows = [
        [str(each.nodes), "maybe" if each.resolvable else "no", each.plugin, each.reason]
        for each in found
    ]
    if wide:
        head.append("EXAMPLES")
        for row, each in zip(rows, found, strict=True):
            row.append(",".join(each.examples))
    out.table(head, rows, wide=wide)


def victims(out: Output, found: Sequence[VictimView], hidden: int, *, wide: bool) -> None:
    """Print the victims of one preemption."""
    columns: dict[str, list[str]] = {
        "VICTIM": [text.pod_name(each.pod) for each in found],
        "PRIORITY": [str(each.pod.priority) for each in found],
        "RAN": [text.age(each.ran_seconds) for each in found],
        "REQUESTS": [text.amounts(each.pod.requests) for each in found],
    }
    if wide or any(each.violates_pdb for each in found):
        columns["BUDGET"] = ["violated" if each.violates_pdb else "ok" for each in found]
    if wide:
        columns["OWNER"] = [text.owner_name(each.pod) for each in found]
    head, rows = list(columns), list(zip(*columns.values(), strict=True))
    out.table(head, rows, wide=wide, indent="  ")
    if hidden:
        out.line(f"  and {text.count(hidden, 'pod')} that you may not see")


def compared(out: Output, found: Sequence[CandidateView], total: int, *, wide: bool) -> None:
    """Print the candidates that were compared, the chosen one first."""
    head = ["NODE", "BUDGETS", "HIGHEST", "SUM", "VICTIMS", "STARTED", "LOST BY"]
    rows = [
        [
            each.node,
            str(each.pdb_violations),
            str(each.highest_priority),
            str(each.priority_sum),
            str(each.victims),
            each.earliest_start or "-",
            each.lost_by or "chosen",
        ]
        for each in found
    ]
    if not wide:  # the time of day would be cut
        head = [name for name in head if name != "STARTED"]
        rows = [row[:5] + row[6:] for row in rows]
    out.table(head, rows, wide=wide, indent="  ")
    if total > len(found):
        out.line(f"  and {text.count(total - len(found), 'node')} more")


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
