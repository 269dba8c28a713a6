"""The text of an expression, and compile errors that point into it."""

from bisect import bisect_right
from typing import Final

from scheduler.cel.errors import CompileError

__all__ = ["NOWHERE", "Source"]

#: The position of an error that concerns the expression as a whole.
NOWHERE: Final = -1


class Source:
    """The text of an expression and the starts of its lines.

    Source: cel-go v0.26.0 common.Error.ToDisplayString.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        for at, character in enumerate(text):
            if character == "\n":
                self._starts.append(at + 1)

    def error(self, position: int, message: str) -> CompileError:
        """Return a compile error that shows the line and column of a position."""
        if position == NOWHERE:
            return CompileError(f"compilation failed: ERROR: <input>:-1:0: {message}")
        line = bisect_right(self._starts, position) - 1
        start = self._starts[line]
        column = position - start
        shown = self.text[start:].split("\n", 1)[0]
        return CompileError(
            f"compilation failed: ERROR: <input>:{line + 1}:{column + 1}: {message}\n"
            f" | {shown}\n | {'.' * column}^"
        )
