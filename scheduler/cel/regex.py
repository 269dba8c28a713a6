"""Regular expressions, by RE2: the syntax is that of Go, the time linear in the text.

Source: Go 1.26 regexp; RE2 is the library that it follows.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Final

import re2

from scheduler.cel.errors import Cancelled

__all__ = ["LARGEST", "Pattern", "RegexError", "compile_pattern"]

#: Bytes that a compiled pattern may take, and the patterns that are kept.
_MAX_MEMORY: Final = 1 << 20
_KEPT: Final = 64
#: The instructions of the largest program that fits, about; compiling it takes 50 ms.
LARGEST: Final = 50_000
#: Instructions times characters that one search may need, where each instruction reads each
#: character; this takes a quarter of a second at most.
_MAX_STEPS: Final = 4_000_000
#: Problems that Go names otherwise.
_PROBLEMS: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "pattern too large - compile failed": "expression too large",
    "trailing \\": "trailing backslash at end of expression",
}

_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = _MAX_MEMORY
# Groups make a search slower, and nobody reads them.
_OPTIONS.never_capture = True


class RegexError(ValueError):
    """A pattern that is malformed or too large; the text is that of Go.

    Attributes:
        too_large: whether it is well-formed, but its program does not fit.
    """

    def __init__(self, error: str) -> None:
        problem, _, part = error.partition(": ")
        problem = _PROBLEMS.get(problem, problem)
        super().__init__(f"error parsing regexp: {problem}: `{part}`")
        self.too_large: Final = problem == "expression too large"


class Pattern:
    """A compiled pattern.

    Raises:
        RegexError: the pattern is malformed or too large.
    """

    def __init__(self, pattern: str) -> None:
        try:
            self._compiled = re2.compile(pattern, _OPTIONS)
        except re2.error as error:
            raise RegexError(error.args[0].decode()) from None
        finally:
            re2.purge()  # the library would keep 128 patterns of any size
        #: How many instructions its program has.
        self.size: Final[int] = self._compiled.programsize

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches somewhere in a text."""
        self._check_steps(text)
        return self._compiled.search(text) is not None

    def find(self, text: str) -> str:
        """Return the leftmost match, "" if there is none."""
        self._check_steps(text)
        found = self._compiled.search(text)
        return "" if found is None else str(found.group())

    def find_all(self, text: str, most: int) -> list[str]:
        """Return the first matches that do not overlap; all if `most` is negative."""
        self._check_steps(text)
        return list(islice(self._all(text), None if most < 0 else most))

    def _all(self, text: str) -> Iterator[str]:
        end_before = -1
        for found in self._compiled.finditer(text):
            start, end = found.span()
            # An empty match right behind the one before does not count.
            if end > start or start != end_before:
                yield found.group()
            end_before = end

    def _check_steps(self, text: str) -> None:
        if self.size * len(text) > _MAX_STEPS:
            raise Cancelled


def compile_pattern(pattern: str) -> Pattern:
    """Return the compiled form of a pattern.

    Raises:
        RegexError: it is malformed or too large.
    """
    found = _compiled(pattern)
    if isinstance(found, RegexError):
        raise found
    return found


@lru_cache(_KEPT)
def _compiled(pattern: str) -> Pattern | RegexError:
    try:
        return Pattern(pattern)
    except RegexError as error:
        return error
