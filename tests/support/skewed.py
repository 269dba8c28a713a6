"""The command line with a clock that is fast or slow compared with this machine's.

    python -m tests.support.skewed 70 run --kubeconfig FILE

runs the scheduler with its clock 70 seconds ahead. Only `run` reads a clock.
"""

import sys
from collections.abc import Sequence

from scheduler.cli import run
from scheduler.cli.main import parser
from scheduler.service.clock import Clock

__all__ = ["main"]


def main(argv: Sequence[str]) -> int:
    """Run the command line after the seconds that its clock is ahead by."""
    ahead = float(argv[0])
    here = Clock()
    return run.run(parser().parse_args(argv[1:]), Clock(wall=lambda: here.wall() + ahead))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
