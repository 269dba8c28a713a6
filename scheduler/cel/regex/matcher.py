"""Finds the leftmost match of a pattern, in time linear in the text.

The pattern becomes a program for many threads that read the text in step (Thompson, Pike). Earlier
threads have precedence, so the match is the one that a backtracking matcher would find first.

Source: Go 1.26 regexp/syntax compile.go, regexp/exec.go.
"""

from collections import OrderedDict
from typing import Final, TypeAlias

from scheduler.cel.errors import Cancelled
from scheduler.cel.regex.classes import CharacterSet
from scheduler.cel.regex.syntax import (
    Alternation,
    Assertion,
    Concatenation,
    Expression,
    One,
    RegexError,
    Repetition,
    parse_pattern,
)

__all__ = ["Pattern", "compile_pattern"]

#: The largest program.
_LARGEST: Final = 20_000
#: Instructions and characters of all patterns that are kept; an instruction takes 150 bytes.
_MOST_KEPT: Final = 60_000
#: How many steps one search may take.
_MAX_STEPS: Final = 2_000_000

_READ: Final = 0
_SPLIT: Final = 1
_PLACE: Final = 2
_MATCH: Final = 3

#: What an instruction does; the set or place that it needs; where it goes, the better way first.
_Instruction: TypeAlias = tuple[int, CharacterSet | str | None, tuple[int, ...]]
#: Threads that wait for the next character: where, and where their match began.
_Threads: TypeAlias = list[tuple[int, int]]


class _Patterns:
    """The patterns that were used last."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Pattern] = OrderedDict()
        self._size = 0

    def get(self, pattern: str) -> "Pattern":
        known = self._known.get(pattern)
        if known is not None:
            self._known.move_to_end(pattern)
            return known
        made = self._known[pattern] = Pattern(parse_pattern(pattern), pattern)
        self._size += made.size + len(pattern)
        while self._size > _MOST_KEPT and len(self._known) > 1:
            text, oldest = self._known.popitem(last=False)
            self._size -= oldest.size + len(text)
        return made


def compile_pattern(pattern: str) -> "Pattern":
    """Return the compiled form of a pattern.

    Raises:
        RegexError: it is malformed or too large.
    """
    return _PATTERNS.get(pattern)


class _Compiler:
    """Writes the program from its end to its beginning."""

    def __init__(self, pattern: str) -> None:
        self.program: list[_Instruction] = [(_MATCH, None, ())]
        self._pattern = pattern

    def _add(self, what: int, needs: CharacterSet | str | None, *to: int) -> int:
        if len(self.program) >= _LARGEST:
            raise RegexError("expression too large", self._pattern[:40])
        self.program.append((what, needs, to))
        return len(self.program) - 1

    def compile(self, expression: Expression, then: int) -> int:
        """Add an expression, and return where it begins."""
        match expression:
            case One():
                return self._add(_READ, expression.allowed, then)
            case Assertion():
                return self._add(_PLACE, expression.kind, then)
            case Concatenation():
                for part in reversed(expression.parts):
                    then = self.compile(part, then)
                return then
            case Alternation():
                return self._add(
                    _SPLIT, None, *[self.compile(each, then) for each in expression.options]
                )
            case Repetition():
                return self._repetition(expression, then)

    def _repetition(self, node: Repetition, then: int) -> int:
        if node.most is None:
            then = self._loop(node, then)
            # A loop reads its part at least once.
            least = node.least - 1 if node.least else 0
        else:
            end = then
            for _ in range(node.most - node.least):
                then = self._choice(self.compile(node.part, then), end, node.greedy)
            least = node.least
        for _ in range(least):
            then = self.compile(node.part, then)
        return then

    def _choice(self, first: int, second: int, greedy: bool) -> int:
        return self._add(_SPLIT, None, *((first, second) if greedy else (second, first)))

    def _loop(self, node: Repetition, then: int) -> int:
        """Add `x+` or `x*`."""
        split = self._add(_SPLIT, None)
        start = self.compile(node.part, split)
        ways = (start, then) if node.greedy else (then, start)
        self.program[split] = (_SPLIT, None, ways)
        if node.least:
            return start
        # What can be empty is `(x+)?`, as in Go: else its precedence would be another one.
        return self._choice(start, then, node.greedy) if _may_be_empty(node.part) else split


def _may_be_empty(expression: Expression) -> bool:
    match expression:
        case One():
            return False
        case Assertion():
            return True
        case Concatenation():
            return all(map(_may_be_empty, expression.parts))
        case Alternation():
            return any(map(_may_be_empty, expression.options))
        case Repetition():
            return expression.least == 0 or _may_be_empty(expression.part)


class Pattern:
    """A compiled pattern."""

    def __init__(self, expression: Expression, pattern: str) -> None:
        compiler = _Compiler(pattern)
        self._start = compiler.compile(expression, 0)
        self._program = compiler.program
        #: How many instructions it has.
        self.size: Final = len(self._program)

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches somewhere in a text."""
        return self._search(text, 0, any_match=True) is not None

    def find(self, text: str) -> str:
        """Return the leftmost match, "" if there is none."""
        found = self._search(text, 0)
        return "" if found is None else text[found[0] : found[1]]

    def find_all(self, text: str, most: int) -> list[str]:
        """Return the first matches that do not overlap; all if `most` is negative."""
        matches: list[str] = []
        at, end_before = 0, -1
        while at <= len(text) and len(matches) != most:
            found = self._search(text, at)
            if found is None:
                break
            start, end = found
            # An empty match right behind the one before does not count.
            if end > start or start != end_before:
                matches.append(text[start:end])
            end_before = end
            at = end if end > at and end > start else max(end, at) + 1
            if end == start:
                at = end + 1
        return matches

    def _search(self, text: str, start: int, *, any_match: bool = False) -> tuple[int, int] | None:
        found: tuple[int, int] | None = None
        threads: _Threads = []
        steps = 0
        for at in range(start, len(text) + 1):
            seen: set[int] = set()
            current: _Threads = []
            if found is None:
                threads.append((self._start, at))
            for pc, began in threads:
                if self._follow(pc, began, text, at, seen, current):
                    found = (began, at)
                    break
            if found is not None and any_match:
                return found
            steps += len(seen) + 1
            if steps > _MAX_STEPS:
                raise Cancelled
            if at == len(text) or (not current and found is not None):
                break
            threads = self._read(text[at], current)
        return found

    def _read(self, character: str, current: _Threads) -> _Threads:
        """Return the threads that go on after a character."""
        threads: _Threads = []
        for pc, began in current:
            _, allowed, (then,) = self._program[pc]
            if character in allowed:  # type: ignore[operator]
                threads.append((then, began))
        return threads

    def _follow(
        self, start: int, began: int, text: str, at: int, seen: set[int], current: _Threads
    ) -> bool:
        """Add the threads that a place in the program leads to; return whether it is a match."""
        pending = [start]
        while pending:
            pc = pending.pop()
            if pc in seen:
                continue
            seen.add(pc)
            what, needs, to = self._program[pc]
            if what == _READ:
                current.append((pc, began))
            elif what == _MATCH:
                return True
            elif what == _SPLIT or _holds(str(needs), text, at):
                pending.extend(reversed(to))
        return False


_PATTERNS: Final = _Patterns()


def _holds(kind: str, text: str, at: int) -> bool:
    if kind == "text start":
        return at == 0
    if kind == "text end":
        return at == len(text)
    if kind == "line start":
        return at == 0 or text[at - 1] == "\n"
    if kind == "line end":
        return at == len(text) or text[at] == "\n"
    before = at > 0 and _is_word(text[at - 1])
    after = at < len(text) and _is_word(text[at])
    return (before != after) is (kind == "word")


def _is_word(character: str) -> bool:
    return character == "_" or (character.isascii() and character.isalnum())
