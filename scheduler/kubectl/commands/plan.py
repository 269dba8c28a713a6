"""`plan -f FILE`: what would happen if objects were applied now."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from scheduler.kubectl import priority_classes, text
from scheduler.kubectl.commands import candidates, plan_diff
from scheduler.kubectl.errors import PluginError
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session
from scheduler.model.rest.plans import PlanAnswer, PlannedPod, PlanRequest

__all__ = ["EVICTS", "run"]

#: The exit code if a pod would be evicted.
EVICTS: Final = 3
_STYLES: Final = {"Scheduled": "green", "Preempting": "yellow"}


async def run(session: Session) -> int:
    """Print a plan; return the exit code."""
    arguments = session.arguments
    objects = tuple(read(arguments.files))
    if not objects and not arguments.drain:
        raise PluginError("nothing to plan", "name files with -f FILE, or nodes with --drain NODE")
    classes, problem = await _priority_classes(session, objects)
    request = PlanRequest(
        objects=(*classes, *objects),
        drain=tuple(arguments.drain),
        namespace=session.namespace(),
        scheduler_name=arguments.scheduler_name,
        settle=arguments.settle,
        explain=session.wide,
    )
    answer = await session.client.plan(request, PlanAnswer)
    warnings = [*([problem] if problem else ()), *answer.document.warnings]
    if session.printed(answer):
        _warn(warnings if problem else ())
    elif arguments.diff:
        plan_diff.show(session.out, answer.document)
        _warn(warnings)
    else:
        show(session.out, answer.document, warnings, wide=session.wide)
    return EVICTS if answer.document.evicts else 0


async def _priority_classes(
    session: Session, objects: Sequence[dict[str, Any]]
) -> tuple[list[dict[str, Any]], str]:
    """Return the PriorityClasses that the plan needs, and why they could not be read.

    With an address, the kubeconfig may be that of another cluster.
    """
    if session.arguments.server or not priority_classes.needed(objects):
        return [], ""
    return await priority_classes.read(session)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        print(f"warning: {text.clean(warning)}", file=sys.stderr)


def read(names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the objects of files; `-` is standard input. Lists are taken apart.

    Raises:
        PluginError: A file cannot be read, or has something else.
    """
    for name in names:
        for document in _documents(name):
            if not isinstance(document, dict) or "kind" not in document:
                raise PluginError(
                    f"{name}: has a document that is not an object of Kubernetes",
                    "each one needs apiVersion, kind and metadata",
                )
            items = document.get("items")
            is_list = str(document["kind"]).endswith("List") and isinstance(items, list)
            yield from (items or ()) if is_list else (document,)


def _documents(name: str) -> list[Any]:
    try:
        content = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return [each for each in yaml.load_all(content, loader) if each is not None]
    except OSError as error:
        raise PluginError(f"{name}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise PluginError(f"{name}: is not YAML: {' '.join(str(error).split())}") from error


def show(out: Output, answer: PlanAnswer, warnings: Sequence[str], *, wide: bool) -> None:
    """Print what would happen."""
    if answer.items:
        head = ["POD", "DECISION", "NODE", "VICTIMS", "WHY"]
        out.table([*head, "SOURCE"] if wide else head,
                  [_row(each, wide=wide) for each in answer.items], wide=wide)  # fmt: skip
    for each in answer.items:
        _details(out, each, wide=wide)
    _displaced(out, answer, wide=wide)
    if answer.others:
        out.line()
        out.line("Pending pods that would be decided otherwise:", "bold")
        out.table(["POD", "DECISION", "NODE", "VICTIMS", "WHY"],
                  [_row(each, wide=False) for each in answer.others], wide=wide)  # fmt: skip
    for warning in warnings:
        out.paragraph(f"warning: {warning}")
    if answer.items or answer.displaced or warnings:
        out.line()
    out.line(closing(answer), "yellow" if answer.evicts else "green")


def _row(each: PlannedPod, *, wide: bool) -> list[str]:
    victims = len(each.victims) + each.hidden_victims
    node = each.node or "-"
    if each.final_node not in {"", each.node}:
        node = f"{node}, then {each.final_node}"
    row = [text.pod_name(each.pod), each.decision, node, str(victims or "-"), each.message or "-"]
    return [*row, each.source or "-"] if wide else row


def _details(out: Output, each: PlannedPod, *, wide: bool) -> None:
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
            meaning = candidates.CRITERIA.get(each.criterion, text.clean(each.criterion))
            out.line(f"  chosen of {text.count(each.candidates_total, 'node')} by: {meaning}")
            if wide:
                candidates.compared(out, each.candidates, each.candidates_total, wide=wide)
    if each.policies:
        out.line(f"Policies forbid victims of {text.pod_name(each.pod)}:")
        candidates.vetoes(out, each.policies)
    if wide and each.verdicts:
        out.line()
        out.line(f"What the nodes say to {text.pod_name(each.pod)}:")
        candidates.verdicts(out, each.verdicts, wide=True)


def _displaced(out: Output, answer: PlanAnswer, *, wide: bool) -> None:
    if not answer.displaced:
        return
    rows = [
        [
            text.pod_name(each.pod),
            each.from_node,
            candidates.fate(each.replacement)
            if each.replacement is not None
            else ("made again by its owner" if each.recreated else "lost: it has no owner"),
        ]
        for each in answer.displaced
    ]
    if answer.items:
        out.line()
    out.line("Pods that would be evicted, and what becomes of them:", "bold")
    out.table(["POD", "NODE", "THEN"], rows, wide=wide)


def closing(answer: PlanAnswer) -> str:
    """Return the last line: how many pods get which decision, and what is evicted."""
    counts: dict[str, int] = {}
    for each in answer.items:
        counts[each.decision] = counts.get(each.decision, 0) + 1
    decided = ", ".join(f"{number} {text.clean(name)}" for name, number in counts.items())
    evicted = evictions(answer.items, len(answer.displaced))
    end = (
        f"{text.count(evicted, 'pod')} would be evicted" if answer.evicts else "nothing is evicted"
    )
    return f"{text.count(len(answer.items), 'pod')}: {decided or 'none'}; {end}."


def evictions(items: Sequence[PlannedPod], displaced: int) -> int:
    """Return how many pods would be evicted."""
    return max(displaced, sum(len(each.victims) + each.hidden_victims for each in items))
