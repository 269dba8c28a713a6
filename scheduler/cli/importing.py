"""Imports without what a start does not need."""

import contextlib
import gc
import sys
from collections.abc import Iterator

__all__ = ["lean"]

#: structlog imports it where it is installed, for colours that `run` does not print.
_LEFT_OUT = "rich"


@contextlib.contextmanager
def lean() -> Iterator[None]:
    """Import without rich and without looking for garbage; both take a tenth of a start.

    What was imported stays for ever, so garbage is never looked for there.
    """
    left_out = sys.modules.setdefault(_LEFT_OUT, None) is None  # type: ignore[arg-type]
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        if left_out:
            del sys.modules[_LEFT_OUT]
