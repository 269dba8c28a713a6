"""`preemptive-scheduler version`."""

import argparse
import platform

from scheduler import __version__

__all__ = ["add_parser", "run"]

#: The release whose decisions are reproduced.
REFERENCE = "v1.36.3"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser("version", help="print the version")
    command.set_defaults(func=run)


def run(_arguments: argparse.Namespace) -> int:
    """Print the version, the kube-scheduler release that it follows, and that of Python."""
    print(f"preemptive-scheduler {__version__}")
    print(f"decides as kube-scheduler {REFERENCE}; Python {platform.python_version()}")
    return 0
