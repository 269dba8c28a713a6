"""The command line. One module per command; each imports what it needs when it runs."""

import argparse
import sys
from collections.abc import Sequence

from scheduler import __version__
from scheduler.cli import check_config, console, plan, replay, run, version

__all__ = ["main"]

EXAMPLES = """\
examples:
  preemptive-scheduler run --kubeconfig ~/.kube/config
      schedule the pods of a cluster that name this scheduler
  preemptive-scheduler plan -f cluster.yaml --explain
      show what would happen to the pending pods of these objects, and why
  kubectl get nodes,pods,pdb -A -o yaml | preemptive-scheduler plan -f -
      the same for a live cluster, repeated until nothing changes any more
  preemptive-scheduler check-config config.yaml
      list every error of a configuration file, with its line
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name; return the exit code."""
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.func(arguments))
    except BrokenPipeError:
        # The reader of our output has closed it, so an error cannot be printed either.
        sys.stderr.close()
        return 1


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="preemptive-scheduler",
        description="A secondary scheduler for Kubernetes with the decisions of kube-scheduler.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (run, plan, replay, check_config, console, version):
        command.add_parser(commands)
    return top


if __name__ == "__main__":
    sys.exit(main())
