"""Prints a plan for people: the verdict, then the pods, and what becomes of those that go."""

from collections.abc import Iterable, Sequence
from typing import Final

from scheduler.kubectl import text
from scheduler.kubectl.commands import candidates, plan_diff
from scheduler.kubectl.output import Output
from scheduler.model.messages import without_preamble
from scheduler.model.rest.what_if import DisplacedPod, EvaluatedNode, SimulatedPod, WhatIfAnswer
from scheduler.sim.what_if_verdict import NOT_PLANNED

__all__ = ["nodes", "rows", "show"]

#: The colour of a verdict, by impact.
_COLORS: Final = {"none": "green", "evictions": "yellow", "budgets": "red"}
_HEAD: Final = ["POD", "DECISION", "NODE", "VICTIMS", "WHY"]
_WORDS: Final = {NOT_PLANNED: "not planned"}


def show(
    out: Output, answer: WhatIfAnswer, *, wide: bool = False, explain: bool = False,
    diff: bool = False,
) -> None:  # fmt: skip
    """Print what would happen; with `diff` only the verdict, and the changes by node."""
    out.paragraph(answer.verdict, style=_COLORS.get(answer.impact, "red"))
    if diff:
        plan_diff.show(out, answer)
        return
    if answer.items:
        out.line()
        rows(out, answer.items, wide=wide)
    if any(each.decision == NOT_PLANNED for each in answer.items):
        out.paragraph("--scheduler-name NAME plans them as if they named that scheduler.")
    for each in answer.items:
        _details(out, each, wide=wide, explain=explain)
    drained = [each for each in answer.displaced if each.cause == "drain"]
    evicted = [each for each in answer.displaced if each.cause != "drain"]
    _displaced(out, "Drained pods, and what becomes of them:", drained, wide=wide)
    others = " for them" if drained else ""
    title = f"Pods that would be evicted{others}, and what becomes of them:"
    _displaced(out, title, evicted, wide=wide)
    if answer.blockers:
        out.line()
        out.line("Pods at which drains stop:", "bold")
        stops = [
            [text.pod_name(each.pod), each.node, ", ".join(each.budgets) or text.HIDDEN]
            for each in answer.blockers
        ]
        out.table(["POD", "NODE", "BUDGET"], stops, wide=wide)
    if answer.others:
        out.line()
        out.line("Pending pods that would get a different result:", "bold")
        rows(out, answer.others, wide=wide)


def rows(out: Output, found: Iterable[SimulatedPod], *, wide: bool = False) -> None:
    """Print a table with a row for each pod."""
    head = [*_HEAD, "SOURCE"] if wide else _HEAD
    out.table(head, [_row(each, wide=wide) for each in found], wide=wide)


def _row(each: SimulatedPod, *, wide: bool) -> list[str]:
    victims = len(each.victims) + each.hidden_victims
    node = each.node or "-"
    if each.final_node not in {"", each.node}:
        node = f"{node}, then {each.final_node}"
    why = each.message if wide else without_preamble(each.message)
    decision = _WORDS.get(each.decision, each.decision)
    row = [text.pod_name(each.pod), decision, node, str(victims or "-"), why or "-"]
    return [*row, each.source or "-"] if wide else row


def _details(out: Output, each: SimulatedPod, *, wide: bool = False, explain: bool = False) -> None:
    """Print victims, candidates, vetoes and the results of nodes of one pod."""
    if each.victims or each.hidden_victims:
        number = len(each.victims) + each.hidden_victims
        out.line()
        out.line(
            f"{text.pod_name(each.pod)} would evict {text.count(number, 'pod')} on node"
            f" {text.clean(each.node)}:",
            "yellow",
        )
        candidates.victims(out, each.victims, each.hidden_victims, wide=wide)
        if len(each.candidates) > 1:
            meaning = candidates.meaning(each)
            out.line(f"  chosen of {text.count(each.candidates_total, 'node')} by: {meaning}")
            if wide:
                candidates.compared(out, each, wide=wide)
        title = f"Devices for {text.pod_name(each.pod)}:"
        candidates.devices(out, each.devices, 0.0, title)
    if each.policies:
        out.line(f"Policies forbid victims of {text.pod_name(each.pod)}:")
        candidates.vetoes(out, each.policies)
    if (wide or explain) and each.verdicts and not each.nodes:
        out.line()
        out.line(f"Node results for {text.pod_name(each.pod)}:")
        candidates.verdicts(out, each.verdicts, wide=True)
    if each.nodes:
        out.line()
        out.line(f"Node results for {text.pod_name(each.pod)}:")
        nodes(out, each.nodes)


def nodes(out: Output, found: Iterable[EvaluatedNode]) -> None:
    """Print the result of each node."""
    lines = [
        [
            each.name,
            "; ".join((each.rejection or "fits", *each.vetoes)),
            str(each.total) if each.scores else "-",
            ", ".join(f"{plugin} {score}" for plugin, score in each.scores.items()) or "-",
        ]
        for each in found
    ]
    out.table(["NODE", "RESULT", "TOTAL", "SCORES"], lines, wide=True)


def _displaced(out: Output, title: str, found: Sequence[DisplacedPod], *, wide: bool) -> None:
    if not found:
        return
    rows = [[text.pod_name(each.pod), each.from_node, _then(each)] for each in found]
    out.line()
    out.line(title, "bold")
    out.table(["POD", "NODE", "THEN"], rows, wide=wide)


def _then(each: DisplacedPod) -> str:
    if each.replacement is not None:
        # The end of a text is cut first, and what becomes of a pod matters more than its new name.
        node = each.replacement.node
        where = f"on {text.clean(node)}" if node else "pending"
        return f"{where}, as {text.pod_name(each.replacement.pod)}"
    if each.recreated:
        return "re-created by its owner"
    return "not re-created: it has no controller"
