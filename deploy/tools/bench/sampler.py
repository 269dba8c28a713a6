"""Runs a program and samples where its CPU time goes.

    python -m deploy.tools.bench.sampler FILE.svg MODULE ARGUMENT...

Writes a flame graph when the program ends. Only the main thread is seen, and what a C library does
counts for the Python function that called it.
"""

import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

from deploy.tools.bench import plots

#: CPU seconds between two samples.
INTERVAL_SECONDS: Final = 0.002

#: Frames of these modules are left out: they only call what follows.
_PLUMBING: Final = ("runpy", "deploy.tools.bench.sampler")


class Sampler:
    """Counts stacks, outermost function first."""

    def __init__(self) -> None:
        self.stacks: Counter[tuple[str, ...]] = Counter()

    def start(self) -> None:
        """Begin to sample."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)

    def stop(self) -> None:
        """End it."""
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        names = []
        while frame is not None:
            module = frame.f_globals.get("__name__", "?")
            if module not in _PLUMBING:
                names.append(f"{module}.{frame.f_code.co_qualname}")
            frame = frame.f_back
        self.stacks[tuple(reversed(names))] += 1


def main() -> None:
    """Run the program of the command line."""
    target, module = Path(sys.argv[1]), sys.argv[2]
    sys.argv = sys.argv[2:]
    sampler = Sampler()
    sampler.start()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sampler.stop()
        target.write_text(plots.flames(module, sampler.stacks))


if __name__ == "__main__":
    main()
