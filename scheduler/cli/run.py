"""`preemptive-scheduler run`."""

import argparse

__all__ = ["add_parser", "run"]


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser("run", help="schedule the pods of a cluster")
    command.set_defaults(func=run)


def run(_arguments: argparse.Namespace) -> int:
    """Run the scheduler."""
    raise NotImplementedError
