"""Completion for shells: of `kubectl preemptive`, and of `kubectl-preemptive` itself.

kubectl runs `kubectl_complete-preemptive` with the words after `kubectl preemptive`, the last one
unfinished. It prints a candidate on each line and then a directive, as Cobra's programs do. The
scripts for `kubectl-preemptive` run the same program.

Source: kubectl v0.36.3 pkg/cmd/plugin/plugin_completion.go; Cobra v1.9 shell completions.
"""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from scheduler.kubectl import parsing
from scheduler.kubectl.errors import CommandError

if TYPE_CHECKING:
    from scheduler.kubectl.session import Session
    from scheduler.model.rest.preemptions import PreemptionView

__all__ = ["candidates", "main", "script"]

#: Directives: let the shell complete files, or not.
FILES, NO_FILES = 0, 4
#: A user waits for it.
ANSWER_SECONDS: Final = 3.0
_FILE_FLAGS: Final = frozenset({"FILE"})
#: Names of pods, nodes, namespaces and policies, and IDs of preemptions.
_PLAIN: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")

BASH: Final = """\
_kubectl_preemptive() {
    local lines directive
    mapfile -t lines < <(kubectl_complete-preemptive "${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null)
    directive=${lines[-1]#:}
    unset 'lines[-1]'
    if [ "$directive" = 0 ]; then
        mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
    else
        COMPREPLY=("${lines[@]}")
    fi
}
complete -F _kubectl_preemptive kubectl-preemptive
"""
ZSH: Final = """\
#compdef kubectl-preemptive
_kubectl_preemptive() {
    local -a lines
    lines=("${(@f)$(kubectl_complete-preemptive "${(@)words[2,CURRENT]}" 2> /dev/null)}")
    if [[ "${lines[-1]}" == ":0" ]]; then
        _files
    else
        lines[-1]=()
        compadd -- "${lines[@]}"
    fi
}
compdef _kubectl_preemptive kubectl-preemptive
"""
FISH: Final = """\
function __kubectl_preemptive
    set -l words (commandline -opc)[2..-1] (commandline -ct)
    set -l lines (kubectl_complete-preemptive $words 2> /dev/null)
    if test "$lines[-1]" = :0
        __fish_complete_path (commandline -ct)
    else
        printf '%s\\n' $lines[1..-2]
    end
end
complete -c kubectl-preemptive -f -a '(__kubectl_preemptive)'
"""


def script(shell: str) -> str:
    """Return the script for a shell."""
    return {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the candidates for the last word; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv) or [""]
    found, directive = candidates(words)
    for each in found:
        print(each)
    print(f":{directive}")
    return 0


def candidates(words: Sequence[str]) -> tuple[list[str], int]:
    """Return the completions of the last word, and the directive.

    Args:
        words: Those after `kubectl preemptive`; the last one is unfinished, or empty.
    """
    *before, last = words
    top = parsing.parser()
    command = next((word for word in before if word in top.commands), "")
    actions = (top.commands[command] if command else top)._actions
    flag = next((each for each in actions if before and before[-1] in each.option_strings), None)
    if flag is not None and flag.nargs != 0:
        return _values(command, flag, before[:-1], last)
    if last.startswith("-"):
        flags = sorted(name for each in actions for name in each.option_strings)
        return [name for name in flags if name.startswith(last)], NO_FILES
    if command in {"", "help"}:
        return [name for name in top.commands if name.startswith(last)], NO_FILES
    if command == "replay":
        return [], FILES
    places = [each for each in actions if not each.option_strings]
    given = _positional(before[before.index(command) + 1 :], actions)
    return _values(command, places[given], before, last) if given < len(places) else ([], NO_FILES)


def _positional(words: Sequence[str], actions: Sequence[argparse.Action]) -> int:
    """Return how many of the words are neither flags nor values of flags."""
    with_value = {name for each in actions if each.nargs != 0 for name in each.option_strings}
    pairs = zip(["", *words], words, strict=False)
    return sum(not word.startswith("-") and left not in with_value for left, word in pairs)


def _values(
    command: str, action: argparse.Action, before: Sequence[str], last: str
) -> tuple[list[str], int]:
    """Return the values of a flag or of an argument."""
    if action.choices:
        return [str(each) for each in action.choices if str(each).startswith(last)], NO_FILES
    names = _NAMES.get(action.dest) or _NAMES.get(f"{command} {action.dest}")
    if names is not None:
        return _served(names, before, last), NO_FILES
    return [], FILES if action.metavar in _FILE_FLAGS else NO_FILES


def _served(names: "_Names", before: Sequence[str], last: str) -> list[str]:
    """Return names that the scheduler knows; none if it does not answer soon."""
    try:
        arguments, _ = parsing.common_flags().parse_known_args(before)
        found = asyncio.run(_asked(names, arguments))
    except (CommandError, SystemExit, TimeoutError, OSError):
        return []
    # Shells insert them as they are, and nobody knows who answers at `--server`.
    plain = dict.fromkeys(name for name in found if _PLAIN.fullmatch(name))
    return [name for name in plain if name.startswith(last)]


async def _asked(names: "_Names", arguments: argparse.Namespace) -> list[str]:
    from scheduler.kubectl import connection
    from scheduler.kubectl.client import SchedulerClient
    from scheduler.kubectl.output import Output
    from scheduler.kubectl.session import Session
    from scheduler.service.clock import Clock

    clock = Clock()
    way = connection.reach(arguments, os.environ, clock)
    async with asyncio.timeout(ANSWER_SECONDS), SchedulerClient(way.open) as client:
        return await names(Session(arguments, client, Output.standard(), clock.wall, way.selection))


async def _pods(session: "Session") -> list[str]:
    from scheduler.model.rest.cluster import PendingPodsDocument

    answer = await session.client.get("/pods", PendingPodsDocument, namespace=session.namespace())
    return [each.pod.name for each in answer.document.items]


async def _nodes(session: "Session") -> list[str]:
    from scheduler.model.rest.cluster import NodesDocument

    answer = await session.client.get("/nodes", NodesDocument)
    return [each.name for each in answer.document.items]


async def _preemptions(session: "Session") -> list[str]:
    """Return the names of preemptors, then those of victims, then IDs."""
    found = await _all_preemptions(session)
    victims = (victim.pod.name for each in found for victim in each.victims)
    return [*(each.preemptor.name for each in found), *victims, *(each.id for each in found)]


async def _policies(session: "Session") -> list[str]:
    from scheduler.model.rest.preemptions import PoliciesDocument

    answer = await session.client.get("/policies", PoliciesDocument)
    return [each.name for each in answer.document.items]


async def _namespaces(session: "Session") -> list[str]:
    """Return the namespaces of pending pods, and of pods that preempt or were evicted."""
    from scheduler.model.rest.cluster import PendingPodsDocument

    answer = await session.client.get("/pods", PendingPodsDocument)
    pods = [each.pod for each in answer.document.items]
    for each in await _all_preemptions(session):
        pods += [each.preemptor, *(victim.pod for victim in each.victims)]
    return [pod.namespace for pod in pods]


async def _all_preemptions(session: "Session") -> "Sequence[PreemptionView]":
    from scheduler.model.rest.preemptions import PreemptionsDocument

    return (await session.client.get("/preemptions", PreemptionsDocument)).document.items


_Names: TypeAlias = "Callable[[Session], Coroutine[Any, Any, list[str]]]"
#: What completes a flag of all commands, or an argument or a flag of one, by its `dest`.
_NAMES: Final[dict[str, _Names]] = {
    "namespace": _namespaces,
    "plan drain": _nodes,
    "policies name": _policies,
    "preemptions name": _preemptions,
    "why pod": _pods,
}
