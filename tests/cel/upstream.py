"""The other side: Kubernetes' own package of device selectors, as a program that answers lines.

Source: deploy/tools/controlplane/go/cel-oracle.
"""

import contextlib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.tools.controlplane import binaries
from scheduler.cel import CelDevice, CompileError, EvaluationError, Version, compile_selector
from scheduler.cel.device import Attribute
from scheduler.cel.errors import Cancelled
from scheduler.cel.planning.budget import COST
from scheduler.cel.planning.planner import plan
from scheduler.cel.selector import typed_tree
from scheduler.model.releases import Reference

__all__ = ["NAME", "Answer", "ask", "cost", "costs", "differs", "ours", "program"]

#: What deploy.tools.controlplane calls the program.
NAME = "cel-oracle"

#: Failures that come from defects of upstream: keys of maps that it cannot hash, or a value that
#: cannot be converted back. What is said instead does not matter.
_DEFECTS = (
    "internal error: runtime error",
    "internal error: hash of unhashable",
    "panic",
    "unsupported conversion to ref.Val",
)


@dataclass(frozen=True)
class Answer:
    """What an expression gives: the kind is "value", "error" or "invalid"."""

    kind: str
    text: str


def ours(device: CelDevice, expression: str, reference: Reference) -> Answer:
    """Evaluate an expression with this project's compiler."""
    try:
        return Answer("value", str(compile_selector(expression, reference).evaluate(device)))
    except CompileError as error:
        return Answer("invalid", str(error))
    except EvaluationError as error:
        return Answer("error", str(error))


def program(reference: Reference) -> Path:
    """Return the program with the package of a release."""
    return binaries.find(NAME, reference.version.replace("v1.", "v0."))


def ask(cases: Sequence[tuple[CelDevice, str]], reference: Reference) -> list[Answer]:
    """Evaluate expressions with upstream's package."""
    return [_answer(line) for line in _asked(cases, reference)]


def _asked(cases: Sequence[tuple[CelDevice, str]], reference: Reference) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(_request(device, text)) + "\n" for device, text in cases)
    answered = subprocess.run(
        [program(reference)], input=lines, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in answered.stdout.splitlines()]


def differs(own: Answer, other: Answer) -> str:
    """Return "" if two answers agree, "kind" or "text" if not; refusals may have other texts."""
    if other.kind == "error" and other.text.startswith(_DEFECTS):
        return ""
    if own.kind != other.kind or (own.kind == "value" and own.text != other.text):
        return "kind"
    return "text" if own.kind == "error" and own.text != other.text else ""


def cost(device: CelDevice, expression: str, reference: Reference) -> int:
    """Return what an evaluation costs with this project's compiler."""
    planned = plan(typed_tree(expression, reference), reference, tracked=True)
    environment = planned.environment(device.view.fields)
    with contextlib.suppress(Cancelled):
        planned.run(environment)
    return int(environment[COST])


def costs(cases: Sequence[tuple[CelDevice, str]], reference: Reference) -> list[int | None]:
    """Return what evaluations cost with upstream's package; None where they fail."""
    lines = _asked(cases, reference)
    return [None if {"error", "invalid"} & line.keys() else line["cost"] for line in lines]


def _request(device: CelDevice, expression: str) -> dict[str, Any]:
    return {
        "expression": expression,
        "driver": device.driver,
        "attributes": {name: _attribute(value) for name, value in device.attributes.items()},
        "capacity": {name: {"value": text} for name, text in device.capacity.items()},
        "allowMultipleAllocations": device.allow_multiple_allocations,
    }


def _attribute(value: Attribute) -> dict[str, Any]:
    if isinstance(value, list):
        return {f"{_kind(value[0])}s": value}
    return {_kind(value): value}


def _kind(value: Attribute) -> str:
    if isinstance(value, Version):
        return "version"
    if isinstance(value, bool):
        return "bool"
    return "int" if isinstance(value, int) else "string"


def _answer(line: dict[str, Any]) -> Answer:
    for kind in ("invalid", "error"):
        if kind in line:
            return Answer(kind, line[kind])
    return Answer("value", str(line["value"]))
