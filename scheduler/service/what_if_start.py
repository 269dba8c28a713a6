"""How the process that answers what-ifs starts: with a low priority and limits.

All else is imported after that: it takes a second of CPU time, which the scheduler needs more.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Final

__all__ = ["main"]

_PR_SET_PDEATHSIG: Final = 1
#: A tenth of the CPU time of the scheduler, where both want all of it.
_NICENESS: Final = 10


def main() -> None:
    """Answer requests until the input ends. The first argument is the most memory, in bytes."""
    _limit(int(sys.argv[1]))
    from scheduler.service import what_if_worker  # noqa: PLC0415 - at a low priority

    what_if_worker.main()


def _limit(memory: int) -> None:
    """Give up what is not needed, and bound the rest."""
    os.nice(_NICENESS)
    with contextlib.suppress(OSError, AttributeError):
        # The kernel ends this process with its parent.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        # Rather this process than the scheduler, if memory runs out.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


if __name__ == "__main__":
    main()
