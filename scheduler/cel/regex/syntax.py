r"""Parses a pattern in the syntax of RE2.

There are no back references and no look-around in it. Two things of Go are refused here: scripts
such as `\p{Greek}`, which Python has no tables for, and patterns that grow beyond the limits below.

Source: Go 1.26 regexp/syntax Parse.
"""

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from scheduler.cel.regex.classes import (
    ANY,
    NOT_NEWLINE,
    PERL,
    POSIX,
    CharacterSet,
    category_set,
)

__all__ = [
    "Alternation",
    "Assertion",
    "Concatenation",
    "Expression",
    "One",
    "RegexError",
    "Repetition",
    "check_pattern",
    "parse_pattern",
]

#: The longest pattern, and how deep groups may be nested in it.
_LONGEST: Final = 10 * 1024
_DEEPEST: Final = 120
#: The largest number in `x{n,m}`, also for nested ones together.
_MAX_REPEATS: Final = 1000

_ESCAPES: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_OCTAL: Final = frozenset("01234567")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class RegexError(ValueError):
    """A pattern that is malformed; the text is that of Go."""

    def __init__(self, problem: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{part}`")


@dataclass(frozen=True, slots=True)
class One:
    """One character of a set."""

    allowed: CharacterSet


@dataclass(frozen=True, slots=True)
class Assertion:
    """A place: "text start", "text end", "line start", "line end", "word", "no word"."""

    kind: str


@dataclass(frozen=True, slots=True)
class Concatenation:
    """One after the other."""

    parts: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of them, the first that leads to a match."""

    options: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Repetition:
    """Several times; `most` None is without end; greedy takes as many as it can."""

    part: "Expression"
    least: int
    most: int | None
    greedy: bool


Expression: TypeAlias = One | Assertion | Concatenation | Alternation | Repetition


@dataclass(frozen=True, slots=True)
class _Flags:
    folded: bool = False
    lines: bool = False
    all_characters: bool = False
    lazy: bool = False


@dataclass(slots=True)
class _Group:
    """A group that is being read."""

    flags: _Flags
    options: list[Expression]
    parts: list[Expression]


def check_pattern(pattern: str) -> None:
    """Check that a pattern can be parsed.

    Raises:
        RegexError: it cannot.
    """
    parse_pattern(pattern)


def parse_pattern(pattern: str) -> Expression:
    """Return the expression of a pattern.

    Raises:
        RegexError: it is malformed or too large.
    """
    if len(pattern) > _LONGEST:
        raise RegexError("expression too large", pattern[:40])
    return _Parser(pattern).parse()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._flags = _Flags()
        self._open: list[_Group] = []
        self._options: list[Expression] = []
        self._parts: list[Expression] = []
        self._names: set[str] = set()
        #: Whether the last part was a repetition, which must not be repeated again.
        self._repeated_from: int | None = None

    def parse(self) -> Expression:
        while self._at < len(self._text):
            self._step()
        if self._open:
            raise RegexError("missing closing )", self._text)
        return self._close_options()

    def _step(self) -> None:
        character = self._text[self._at]
        if character in "*+?" or (character == "{" and self._counts() is not None):
            self._repeat()
            return
        self._repeated_from = None
        if character == "(":
            self._open_group()
        elif character == ")":
            self._close_group()
        elif character == "|":
            self._options.append(_sequence(self._parts))
            self._parts = []
            self._at += 1
        else:
            self._parts.extend(self._single(character))

    def _close_options(self) -> Expression:
        options = [*self._options, _sequence(self._parts)]
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    # Groups.

    def _open_group(self) -> None:
        if len(self._open) >= _DEEPEST:
            raise RegexError("expression nests too deeply", self._text)
        before = self._flags
        self._at += 1
        if self._text.startswith("?", self._at) and not self._group_prefix():
            return
        self._open.append(_Group(before, self._options, self._parts))
        self._options, self._parts = [], []

    def _close_group(self) -> None:
        if not self._open:
            raise RegexError("unexpected )", self._text)
        inner = self._close_options()
        group = self._open.pop()
        self._options, self._parts, self._flags = group.options, group.parts, group.flags
        self._parts.append(inner)
        self._at += 1

    def _group_prefix(self) -> bool:
        """Read `?P<name>`, `?:` or flags; return whether a group begins."""
        start = self._at - 1
        for prefix in ("?P<", "?<"):
            if self._text.startswith(prefix, self._at):
                self._group_name(start, self._at + len(prefix))
                return True
        self._at += 1
        flags, on, seen = self._flags, True, False
        while self._at < len(self._text):
            character = self._text[self._at]
            self._at += 1
            if character in ":)":
                self._flags = flags
                if not on and not seen:
                    break
                return character == ":"
            if character == "-" and on:
                on, seen = False, False
            elif character in "imsU":
                flags, seen = _with_flag(flags, character, on), True
            else:
                break
        raise RegexError("invalid or unsupported Perl syntax", self._text[start : self._at])

    def _group_name(self, start: int, at: int) -> None:
        end = self._text.find(">", at)
        if end < 0:
            raise RegexError("invalid named capture", self._text[start:])
        name = self._text[at:end]
        if not name or not set(name) <= _NAME:
            raise RegexError("invalid named capture", self._text[start : end + 1])
        if name in self._names:
            raise RegexError("duplicate capture group name", name)
        self._names.add(name)
        self._at = end + 1

    # Repetitions.

    def _counts(self) -> tuple[int, int | None, int] | None:
        """Return n, m and the end of `{n,m}`; None if it is not one."""
        end = self._text.find("}", self._at)
        if end < 0:
            return None
        first, comma, second = self._text[self._at + 1 : end].partition(",")
        if not _is_count(first) or (second and not _is_count(second)):
            return None
        least = int(first[:9])
        most = (int(second[:9]) if second else None) if comma else least
        return least, most, end + 1

    def _repeat(self) -> None:
        start = self._at
        counts = self._counts() if self._text[start] == "{" else None
        if counts is None:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self._text[start]]
            self._at += 1
        else:
            least, most, self._at = counts
            self._check_counts(least, most, self._text[start : self._at])
        lazy = self._text.startswith("?", self._at)
        self._at += lazy
        part = self._text[start : self._at]
        if not self._parts:
            raise RegexError("missing argument to repetition operator", part)
        if self._repeated_from is not None:
            operators = self._text[self._repeated_from : self._at]
            raise RegexError("invalid nested repetition operator", operators)
        self._repeated_from = start
        greedy = lazy is self._flags.lazy
        repetition = Repetition(self._parts[-1], least, most, greedy)
        if counts is not None and _repeats(repetition) > _MAX_REPEATS:
            raise RegexError("invalid repeat count", part)
        self._parts[-1] = repetition

    def _check_counts(self, least: int, most: int | None, part: str) -> None:
        if max(least, most or 0) > _MAX_REPEATS or (most is not None and least > most):
            raise RegexError("invalid repeat count", part)

    # Single characters and classes.

    def _single(self, character: str) -> list[Expression]:
        if character == "[":
            return [self._class()]
        if character == "\\":
            return self._escape()
        self._at += 1
        if character == ".":
            return [One(ANY if self._flags.all_characters else NOT_NEWLINE)]
        if character == "^":
            return [Assertion("line start" if self._flags.lines else "text start")]
        if character == "$":
            return [Assertion("line end" if self._flags.lines else "text end")]
        return [self._literal(character)]

    def _literal(self, character: str) -> Expression:
        code = ord(character)
        return One(CharacterSet([(code, code)], folded=self._flags.folded))

    def _escape(self) -> list[Expression]:
        letter = self._text[self._at + 1 : self._at + 2]
        places = {"A": "text start", "z": "text end", "b": "word", "B": "no word"}
        if letter in places and letter:
            self._at += 2
            return [Assertion(places[letter])]
        if letter == "Q":
            end = self._text.find("\\E", self._at + 2)
            quoted = self._text[self._at + 2 : end if end >= 0 else None]
            self._at = end + 2 if end >= 0 else len(self._text)
            return [self._literal(each) for each in quoted]
        found = self._shorthand()
        return [One(found)] if found is not None else [self._literal(self._escaped())]

    def _shorthand(self) -> CharacterSet | None:
        r"""Read `\d` or `\p{L}`."""
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in PERL:
            self._at += 2
            return PERL[letter]
        if letter not in ("p", "P"):
            return None
        start = self._at
        end = start + 3
        if self._text.startswith("{", start + 2):
            end = self._text.find("}", start) + 1
        name = self._text[start + 2 : end].strip("{}")
        found = category_set(name, negated=letter == "P") if end > 0 and name else None
        if found is None:
            raise RegexError("invalid character class range", self._text[start : max(end, start)])
        self._at = end
        return found

    def _escaped(self) -> str:
        """Read an escape that stands for one character."""
        start = self._at
        letter = self._text[start + 1 : start + 2]
        if not letter:
            raise RegexError("trailing backslash at end of expression", "")
        self._at += 2
        if letter in _ESCAPES:
            return chr(_ESCAPES[letter])
        if letter in _PUNCTUATION:
            return letter
        if letter == "x":
            return self._hex(start)
        second = self._text[self._at : self._at + 1]
        if letter == "0" or (letter in _OCTAL and second and second in _OCTAL):
            return self._octal(letter)
        raise RegexError("invalid escape sequence", self._text[start : self._at])

    def _octal(self, digits: str) -> str:
        while len(digits) < 3 and self._text[self._at : self._at + 1] in _OCTAL:
            digits += self._text[self._at]
            self._at += 1
        return chr(int(digits, 8))

    def _hex(self, start: int) -> str:
        if self._text.startswith("{", self._at):
            end = self._text.find("}", self._at)
            digits, self._at = self._text[self._at + 1 : end], end + 1
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += 2
            digits = digits if len(digits) == 2 else ""
        if not digits or not set(digits) <= _HEX or int(digits[-8:], 16) > 0x10FFFF:
            raise RegexError(
                "invalid escape sequence", self._text[start : max(self._at, start + 2)]
            )
        return chr(int(digits[-8:], 16))

    def _class(self) -> Expression:
        start = self._at
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        ranges: list[tuple[int, int]] = []
        members: list[CharacterSet] = []
        first = True
        while first or not self._text.startswith("]", self._at):
            if self._at >= len(self._text):
                raise RegexError("missing closing ]", self._text[start:])
            first = False
            self._class_item(ranges, members, start)
        self._at += 1
        folded = self._flags.folded
        return One(CharacterSet(ranges, members=members, negated=negated, folded=folded))

    def _class_item(
        self, ranges: list[tuple[int, int]], members: list[CharacterSet], start: int
    ) -> None:
        if self._text.startswith("[:", self._at) and (end := self._text.find(":]", self._at)) > 0:
            name = self._text[self._at + 2 : end]
            found = POSIX.get(name.removeprefix("^"))
            if found is None:
                part = self._text[self._at : end + 2]
                raise RegexError("invalid character class range", part)
            members.append(CharacterSet(found, negated=name.startswith("^")))
            self._at = end + 2
            return
        shorthand = self._shorthand() if self._text[self._at] == "\\" else None
        if shorthand is not None:
            members.append(shorthand)
            return
        self._class_range(ranges, start)

    def _class_range(self, ranges: list[tuple[int, int]], start: int) -> None:
        began = self._at
        low = high = self._class_character(start)
        following = self._text[self._at + 1 : self._at + 2]
        if self._text.startswith("-", self._at) and following not in ("", "]"):
            self._at += 1
            high = self._class_character(start)
        if low > high:
            raise RegexError("invalid character class range", self._text[began : self._at])
        ranges.append((ord(low), ord(high)))

    def _class_character(self, start: int) -> str:
        if self._at >= len(self._text):
            raise RegexError("missing closing ]", self._text[start:])
        if self._text[self._at] == "\\":
            return self._escaped()
        self._at += 1
        return self._text[self._at - 1]


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")


def _with_flag(flags: _Flags, letter: str, on: bool) -> _Flags:
    if letter == "i":
        return replace(flags, folded=on)
    if letter == "m":
        return replace(flags, lines=on)
    if letter == "s":
        return replace(flags, all_characters=on)
    return replace(flags, lazy=on)


def _sequence(parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))


def _repeats(expression: Expression) -> int:
    """Return how often the innermost part of nested `{n,m}` is repeated at most."""
    match expression:
        case Repetition():
            own = max(expression.least, expression.most or 0, 1)
            return own * _repeats(expression.part)
        case Concatenation():
            return max(map(_repeats, expression.parts), default=1)
        case Alternation():
            return max(map(_repeats, expression.options), default=1)
        case _:
            return 1
