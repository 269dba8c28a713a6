"""Signals that ask the process to end.

Imported before everything else that a start needs, so it must cost nothing.
"""

import signal
import sys
from types import FrameType
from typing import Final, NoReturn

__all__ = ["STOPPING", "end_at_once"]

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


def end_at_once() -> None:
    """Have a signal end the process with exit code 0, until there is something to stop in order.

    The first process of a container gets no signal that it has no handler for: without one, a
    SIGTERM during the imports would be lost, and the pod would end with its grace period.
    """
    for number in STOPPING:
        signal.signal(number, _end)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)
