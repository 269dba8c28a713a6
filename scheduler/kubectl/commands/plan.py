"""`plan -f FILE`: what would happen if objects were applied now."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from scheduler.kubectl import priority_classes, text
from scheduler.kubectl.commands import candidates, plan_diff
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session
from scheduler.model.messages import without_preamble
from scheduler.model.rest.what_if import SimulatedPod, WhatIfAnswer, WhatIfRequest

__all__ = ["EVICTS", "run"]

#: The exit code if a pod would be evicted.
EVICTS: Final = 3
#: How the scheduler names an object of a request.
_OBJECT: Final = re.compile(r"\bobjects\[(\d{1,7})\]")


async def run(session: Session) -> int:
    """Print a plan; return the exit code."""
    arguments = session.arguments
    found = list(read(arguments.files))
    if arguments.files and not found:
        raise CommandError(f"{', '.join(arguments.files)}: nothing to plan, there are no objects")
    if not found and not arguments.drain:
        raise CommandError("nothing to plan", "name files with -f FILE, or nodes with --drain NODE")
    places = [place for place, _ in found]
    objects, problem = await priority_classes.added(session, [each for _, each in found])
    request = WhatIfRequest(
        objects=tuple(objects),
        drain=tuple(arguments.drain),
        namespace=session.namespace(),
        scheduler_name=arguments.scheduler_name,
        settle=arguments.settle,
        explain=session.wide,
    )
    try:
        answer = await session.client.plan(request, WhatIfAnswer)
    except CommandError as error:
        raise CommandError(_placed(str(error), places), error.advice, error.status) from error
    said = (_placed(each, places) for each in answer.document.warnings)
    warnings = [*([problem] if problem else ()), *said]
    if session.printed(answer):
        _warn(warnings if problem else ())
    elif arguments.diff:
        plan_diff.show(session.out, answer.document)
        _warn(warnings)
    else:
        show(session.out, answer.document, warnings, wide=session.wide)
    return EVICTS if answer.document.evicts else 0


def _placed(message: str, places: Sequence[str]) -> str:
    """Return a message of the scheduler with the places of objects in files, not in the request."""

    def place(found: re.Match[str]) -> str:
        index = int(found[1])
        return places[index] if index < len(places) else found[0]

    return _OBJECT.sub(place, message)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        print(f"warning: {text.clean(warning)}", file=sys.stderr)


def read(names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of files, each with its place; `-` is standard input.

    Lists are taken apart.

    Raises:
        PluginError: A file cannot be read, or has something else.
    """
    for name in names:
        shown = "standard input" if name == "-" else name
        for number, document in enumerate(_documents(name), 1):
            place = f"{shown}, document {number}"
            if document is None:
                continue
            if not isinstance(document, dict) or "kind" not in document:
                raise CommandError(
                    f"{place}: not an object of Kubernetes",
                    "each one needs apiVersion, kind and metadata",
                )
            items = document.get("items")
            if document["kind"] == "List" and isinstance(items, list):
                for index, item in enumerate(items, 1):
                    yield f"{place}, item {index}", item
            else:
                yield place, document


def _documents(name: str) -> list[Any]:
    try:
        content = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return list(yaml.load_all(content, loader))
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise CommandError(f"{name}: is not YAML: {' '.join(str(error).split())}") from error


def show(out: Output, answer: WhatIfAnswer, warnings: Sequence[str], *, wide: bool) -> None:
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
        out.line("Pending pods that would get a different result:", "bold")
        out.table(["POD", "DECISION", "NODE", "VICTIMS", "WHY"],
                  [_row(each, wide=wide)[:5] for each in answer.others], wide=wide)  # fmt: skip
    for warning in warnings:
        out.paragraph(f"warning: {warning}")
    if answer.items or answer.displaced or warnings:
        out.line()
    out.line(closing(answer), "yellow" if answer.evicts else "green")


def _row(each: SimulatedPod, *, wide: bool) -> list[str]:
    victims = len(each.victims) + each.hidden_victims
    node = each.node or "-"
    if each.final_node not in {"", each.node}:
        node = f"{node}, then {each.final_node}"
    why = each.message if wide else without_preamble(each.message)
    row = [text.pod_name(each.pod), each.decision, node, str(victims or "-"), why or "-"]
    return [*row, each.source or "-"] if wide else row


def _details(out: Output, each: SimulatedPod, *, wide: bool) -> None:
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
    if each.policies:
        out.line(f"Policies forbid victims of {text.pod_name(each.pod)}:")
        candidates.vetoes(out, each.policies)
    if wide and each.verdicts:
        out.line()
        out.line(f"Node results for {text.pod_name(each.pod)}:")
        candidates.verdicts(out, each.verdicts, wide=True)


def _displaced(out: Output, answer: WhatIfAnswer, *, wide: bool) -> None:
    if not answer.displaced:
        return
    rows = [
        [
            text.pod_name(each.pod),
            each.from_node,
            candidates.fate(each.replacement)
            if each.replacement is not None
            else (
                "re-created by its owner"
                if each.recreated
                else "not re-created: it has no controller"
            ),
        ]
        for each in answer.displaced
    ]
    if answer.items:
        out.line()
    out.line("Pods that would be evicted, and what becomes of them:", "bold")
    out.table(["POD", "NODE", "THEN"], rows, wide=wide)


def closing(answer: WhatIfAnswer) -> str:
    """Return the last line: how many pods get which decision, and what is evicted."""
    counts: dict[str, int] = {}
    for each in answer.items:
        counts[each.decision] = counts.get(each.decision, 0) + 1
    decided = ", ".join(f"{number} {text.clean(name)}" for name, number in counts.items())
    evicted = evictions(answer.items, len(answer.displaced))
    end = (
        f"{text.count(evicted, 'pod')} would be evicted" if answer.evicts else "nothing is evicted"
    )
    if not answer.items:  # only nodes are drained
        return f"{end[0].upper()}{end[1:]}."
    return f"{text.count(len(answer.items), 'pod')}: {decided}; {end}."


def evictions(items: Sequence[SimulatedPod], displaced: int) -> int:
    """Return how many pods would be evicted."""
    return max(displaced, sum(len(each.victims) + each.hidden_victims for each in items))
