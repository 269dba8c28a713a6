"""`preemptive-scheduler version`."""

import argparse
import platform

from scheduler import __version__
from scheduler.model.releases import REFERENCES

__all__ = ["add_parser", "run"]


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser("version", help="print the version")
    command.set_defaults(func=run)


def run(_arguments: argparse.Namespace) -> int:
    """Print the version, the kube-scheduler release that it follows, and that of Python."""
    print(f"preemptive-scheduler {__version__}")
    releases = " or ".join(reference.version for reference in REFERENCES.values())
    print(f"decides as kube-scheduler {releases}; Python {platform.python_version()}")
    return 0
