"""The signals that stop the process.

Imported before everything else at the start, so the import must cost nothing.
"""

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Final, NoReturn

__all__ = ["STOPPING", "ending_at_once"]

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """Let a signal end the process with exit code 0, until a graceful stop is possible.

    The first process of a container gets no signal for which it has no handler: without one, a
    SIGTERM during the imports would be lost, and the pod would use up its grace period.
    """
    before = {number: signal.signal(number, _end) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)
