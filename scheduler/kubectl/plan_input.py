"""What both `plan` commands have in common: flags, the files that they read, and exit codes."""

import argparse
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from scheduler.kubectl.errors import CommandError
from scheduler.model.rest.what_if import WhatIfAnswer, WhatIfRequest
from scheduler.sim.what_if_verdict import NOT_PLANNED, is_pending

__all__ = ["EXIT_CODES", "add_flags", "exit_code", "loaded", "request"]

_FAIL_ON: Final = ("eviction", "budget", "pending", "none")
#: The endings of the files of a folder that are read, as by kubectl.
_ENDINGS: Final = (".json", ".yaml", ".yml")
_KUSTOMIZE_SECONDS: Final = 120.0
EVICTS, FOREIGN, BUDGET, PENDING = 3, 4, 5, 6
EXIT_CODES: Final = """\
exit codes: 0 planned; 1 an error; 2 wrong flags; 3 a pod would be evicted; 4 a
pod is of another scheduler; 5 a disruption budget would be violated, or stops a
drain; 6 a pod would stay pending. --fail-on selects 3, 5 and 6. If several
hold, 4 comes first, then 5, 3, 6.
"""


def add_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags that both commands have."""
    command.add_argument(
        "-f", "--filename", dest="files", action="append", default=[], metavar="FILE",
        help="file or folder with objects in YAML or JSON; - is standard input; repeatable",
    )  # fmt: skip
    command.add_argument(
        "-R", "--recursive", action="store_true", help="with -f FOLDER: also the folders in it"
    )
    command.add_argument(
        "-k", "--kustomize", action="append", default=[], metavar="FOLDER",
        help="objects that `kubectl kustomize FOLDER` makes; repeatable",
    )  # fmt: skip
    command.add_argument(
        "--drain", action="append", default=[], metavar="NODE",
        help="also drain this node, or the nodes with labels as zone=a, within disruption budgets;"
        " repeatable",
    )  # fmt: skip
    command.add_argument(
        "--scheduler-name", default="", metavar="NAME",
        help="only pods of this scheduler; those of other schedulers count as if they named it",
    )  # fmt: skip
    command.add_argument(
        "--fail-on", action="append", type=_conditions, metavar="CONDITION",
        help="exit with another code than 0 if a pod would be evicted (eviction), a disruption"
        " budget would be violated or stops a drain (budget), or a pod would stay pending"
        " (pending); none for none of them; repeatable, or a list with commas (default: eviction,"
        " with --drain also budget)",
    )  # fmt: skip
    command.add_argument(
        "--no-settle", dest="settle", action="store_false",
        help="stop after the first round: evicted pods are not re-created",
    )  # fmt: skip
    command.add_argument("--explain", action="store_true", help="add the results of nodes")
    command.add_argument("--diff", action="store_true", help="print what would change, by node")
    command.add_argument(
        "-o", "--output", choices=("wide", "json", "yaml"), default="", help="output format"
    )


def _conditions(text: str) -> frozenset[str]:
    found = frozenset(text.split(","))
    if unknown := found - set(_FAIL_ON):
        raise argparse.ArgumentTypeError(f"{sorted(unknown)[0]!r} is none of {', '.join(_FAIL_ON)}")
    return found


def loaded(arguments: argparse.Namespace) -> list[tuple[str, Any]]:
    """Return the documents that the flags name, each with its place.

    Raises:
        CommandError: One cannot be read, or there is nothing to plan.
    """
    from scheduler.sim import manifests  # its import takes long

    try:
        found: list[tuple[str, Any]] = []
        for name in arguments.files:
            for path in _paths(name, recursive=arguments.recursive):
                found += manifests.load(path)
        for folder in arguments.kustomize:
            found += manifests.parsed(_kustomized(folder), f"kustomize {folder}")
    except manifests.ManifestError as error:
        raise CommandError(str(error)) from error
    found = [(place, document) for place, document in found if document is not None]
    sources = [*arguments.files, *arguments.kustomize]
    if sources and not found:
        raise CommandError(f"{', '.join(sources)}: nothing to plan, there are no objects")
    if not found and not arguments.drain:
        raise CommandError("nothing to plan", "name files with -f FILE, or nodes with --drain NODE")
    return found


def _paths(name: str, *, recursive: bool) -> Iterator[str]:
    """Yield a file, or the files of a folder in the order of kubectl; links to folders are left."""
    if name == "-" or not Path(name).is_dir():
        yield name
        return
    count = 0
    for folder, inner, files in os.walk(name):
        inner[:] = sorted(inner) if recursive else []
        for each in sorted(files):
            if each.endswith(_ENDINGS):
                count += 1
                yield str(Path(folder, each))
    if not count:
        advice = "" if recursive else "-R reads the folders in it, too"
        raise CommandError(f"{name}: no file ends with {', '.join(_ENDINGS)}", advice)


def _kustomized(folder: str) -> bytes:
    program = shutil.which("kubectl")
    if program is None:
        raise CommandError(
            "-k needs kubectl, which is not in the PATH", "or: kustomize build FOLDER | … -f -"
        )
    try:
        done = subprocess.run(
            [program, "kustomize", "--", folder],
            capture_output=True,
            check=False,
            timeout=_KUSTOMIZE_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"kubectl kustomize {folder} takes longer than 2 minutes") from error
    if done.returncode:
        problem = done.stderr.decode(errors="replace").strip()
        logged = re.search(r' err="(.*)"$', problem)
        raise CommandError(
            f"kubectl kustomize {folder}: {logged[1] if logged else problem or done.returncode}"
        )
    return done.stdout


def request(
    arguments: argparse.Namespace, namespace: str, objects: Sequence[dict[str, Any]] = ()
) -> WhatIfRequest:
    """Return what the flags ask."""
    return WhatIfRequest(
        objects=tuple(objects),
        drain=tuple(arguments.drain),
        namespace=namespace,
        scheduler_name=arguments.scheduler_name,
        settle=arguments.settle,
        explain=arguments.explain or arguments.output == "wide",
    )


def exit_code(answer: WhatIfAnswer, fail_on: Sequence[frozenset[str]] | None) -> int:
    """Return the exit code; the first condition that holds decides."""
    usual = frozenset({"eviction", "budget"} if answer.drain else {"eviction"})
    chosen = frozenset().union(*(fail_on or [usual]))
    conditions = (
        (FOREIGN, any(each.decision == NOT_PLANNED for each in answer.items)),
        (BUDGET, "budget" in chosen and _breaks(answer)),
        (EVICTS, "eviction" in chosen and answer.evicts),
        (PENDING, "pending" in chosen and _leaves_pending(answer)),
    )
    return next((code for code, holds in conditions if holds), 0)


def _breaks(answer: WhatIfAnswer) -> bool:
    return bool(answer.budgets or answer.hidden_budgets or answer.blockers)


def _leaves_pending(answer: WhatIfAnswer) -> bool:
    made = (each.replacement for each in answer.displaced)
    return any(is_pending(each.decision, each.final_node) for each in answer.items) or any(
        each is not None and not each.node for each in made
    )
