"""Parts of messages that several packages write or shorten."""

import re
from typing import Final

__all__ = ["count", "without_preamble"]

_PREAMBLE: Final = re.compile(r"^0/[0-9]+ nodes are available: ")


def count(number: int, word: str) -> str:
    """Return a number with its noun: `1 pod`, `2 pods`."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def without_preamble(message: str) -> str:
    """Return a message of kube-scheduler from its first reason on, as `12 Insufficient cpu.`."""
    return _PREAMBLE.sub("", message)
