"""Completion for shells: of `kubectl preemptive`, and of `kubectl-preemptive` itself.

kubectl runs `kubectl_complete-preemptive` with the words after `kubectl preemptive`, the last one
unfinished. It prints a candidate on each line and then a directive, as Cobra's programs do. The
scripts for `kubectl-preemptive` run the same program.

Source: kubectl v0.36.3 pkg/cmd/plugin/plugin_completion.go; Cobra v1.9 shell completions.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from scheduler.kubectl import parsing
from scheduler.kubectl.errors import CommandError

__all__ = ["candidates", "main", "script"]

#: Directives: let the shell complete files, or not.
FILES, NO_FILES = 0, 4
#: A user waits for it.
ANSWER_SECONDS: Final = 3.0
_FILE_FLAGS: Final = frozenset({"FILE"})

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
    commands = _commands(top)
    command = next((word for word in before if word in commands), "")
    actions = (commands[command] if command else top)._actions
    flag = next((each for each in actions if before and before[-1] in each.option_strings), None)
    if flag is not None and flag.nargs != 0:
        return _values(flag, last)
    if last.startswith("-"):
        flags = sorted(name for each in actions for name in each.option_strings)
        return [name for name in flags if name.startswith(last)], NO_FILES
    if not command:
        return [name for name in commands if name.startswith(last)], NO_FILES
    if command == "why" and not any(_is_pod(word, before) for word in before):
        return _pods(before, last), NO_FILES
    if command == "completion":
        return [name for name in ("bash", "zsh", "fish") if name.startswith(last)], NO_FILES
    return [], FILES if command == "replay" else NO_FILES


def _commands(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _values(flag: argparse.Action, last: str) -> tuple[list[str], int]:
    if flag.choices:
        return [str(each) for each in flag.choices if str(each).startswith(last)], NO_FILES
    return [], FILES if flag.metavar in _FILE_FLAGS else NO_FILES


def _is_pod(word: str, before: Sequence[str]) -> bool:
    """Return whether a word is the argument of `why`, and not a flag or the value of one."""
    index = before.index(word)
    return word != "why" and not word.startswith("-") and not before[index - 1].startswith("-")


def _pods(before: Sequence[str], last: str) -> list[str]:
    """Return the names of pending pods; none if the scheduler does not answer soon."""
    try:
        arguments = parsing.parser().parse_args([*before, last or "x"])
        return asyncio.run(_pending(arguments, last))
    except (CommandError, SystemExit, TimeoutError, OSError):
        return []


async def _pending(arguments: Any, last: str) -> list[str]:
    from scheduler.config.names import subdomain
    from scheduler.kubectl import connection
    from scheduler.kubectl.client import SchedulerClient
    from scheduler.kubectl.output import Output
    from scheduler.kubectl.session import Session
    from scheduler.model.rest.cluster import PendingPodsDocument
    from scheduler.service.clock import Clock

    clock = Clock()
    way = connection.reach(arguments, os.environ, clock)
    async with asyncio.timeout(ANSWER_SECONDS), SchedulerClient(way.open) as client:
        session = Session(arguments, client, Output.standard(), clock.wall, way.selection)
        answer = await client.get("/pods", PendingPodsDocument, namespace=session.namespace())
        # Shells insert them as they are, and nobody knows who answers at `--server`.
        names = (each.pod.name for each in answer.document.items if not subdomain(each.pod.name))
        return [name for name in names if name.startswith(last)]
