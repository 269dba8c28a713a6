"""`kubectl-preemptive`, which kubectl runs for `kubectl preemptive`."""

import argparse
import asyncio
import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from scheduler.kubectl import connection, parsing
from scheduler.kubectl.client import SchedulerClient
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.output import Output, complain
from scheduler.kubectl.session import Session
from scheduler.service.clock import Clock

__all__ = ["main"]

#: The exit codes after Ctrl-C, and after the reader of the output has closed it, as of shells.
INTERRUPTED: Final = 130
NO_READER: Final = 141
_SHADOW: Final = (
    "note: this scheduler runs in shadow mode: it binds and evicts no pod. Its pods are those of"
    " another scheduler; kubectl preemptive shadow compares the two"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a locale may lack the characters of a frame
        sys.stdout.reconfigure(errors="replace")
    try:
        code = _dispatched(given)
        sys.stdout.flush()
    except CommandError as error:
        for line in (f"error: {error}", *error.advice.splitlines()):
            complain(line)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # What is still buffered would fail again at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    return code


def _dispatched(given: Sequence[str]) -> int:
    if given[:1] == ["replay"]:  # argparse would take its flags for ours
        return _replay(given[1:])
    top = parsing.parser()
    if not given:
        top.print_help()
        return 0
    arguments = top.parsed(given)
    if arguments.command == "help":
        return main([arguments.about, "--help"] if arguments.about else [])
    return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.command == "replay":
        return _replay(arguments.rest)
    if arguments.command == "completion":
        from scheduler.kubectl import completion

        print(completion.script(arguments.shell), end="")
        return 0
    return asyncio.run(_asked(arguments))


def _replay(given: Sequence[str]) -> int:
    # It decides, with all that the scheduler needs; krew installs only what other commands need.
    if importlib.util.find_spec("numpy") is None:
        raise CommandError(
            "replay needs packages that this installation of the plugin does not have",
            "install the wheel of a release, or from a clone: pipx install .",
        )
    from scheduler.cli import main as program

    return program.main(["replay", *given])


async def _asked(arguments: argparse.Namespace) -> int:
    clock = Clock()
    way = connection.reach(arguments, os.environ, clock)
    command = importlib.import_module(f"scheduler.kubectl.commands.{arguments.command}")
    out = Output.standard()
    async with SchedulerClient(way.open, direct=bool(way.server)) as client:
        session = Session(arguments, client, out, clock.wall, way.selection)
        code: int = await command.run(session)
        out.flush()
        if client.is_shadow and arguments.command != "shadow":
            complain(_SHADOW)
        return code


if __name__ == "__main__":
    sys.exit(main())
