"""Messages of kube-scheduler, shortened for one line of a terminal."""

import re
from typing import Final

__all__ = ["without_preamble"]

_PREAMBLE: Final = re.compile(r"^0/[0-9]+ nodes are available: ")


def without_preamble(message: str) -> str:
    """Return a message from its first reason on, as `12 Insufficient cpu.`."""
    return _PREAMBLE.sub("", message)
