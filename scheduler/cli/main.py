"""The command line: one command a file, imported when it is asked for."""

import argparse
import sys
from collections.abc import Sequence

from scheduler import __version__
from scheduler.cli import check_config, plan, replay, run, version

__all__ = ["main"]

EXAMPLES = """\
examples:
  preemptive-scheduler run --kubeconfig ~/.kube/config
      schedule the pods of a cluster that name this scheduler
  preemptive-scheduler plan -f cluster.yaml --explain
      what would happen to the pending pods of these objects, and why
  kubectl get nodes,pods,pdb -A -o yaml | preemptive-scheduler plan -f - --settle
      the same for a live cluster, until nothing changes any more
  preemptive-scheduler check-config config.yaml
      every mistake of a configuration file, each with its place
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit code."""
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.func(arguments))
    except BrokenPipeError:
        # Whoever read our output has left; there is nobody to tell.
        sys.stderr.close()
        return 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="preemptive-scheduler",
        description="A Kubernetes secondary scheduler that decides as kube-scheduler decides.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (run, plan, replay, check_config, version):
        command.add_parser(commands)
    return top


if __name__ == "__main__":
    sys.exit(main())
