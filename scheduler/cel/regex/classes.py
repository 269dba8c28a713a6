"""Sets of characters.

Source: Go 1.26 regexp/syntax, perl_groups.go; unicode.SimpleFold.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

__all__ = ["ANY", "NOT_NEWLINE", "PERL", "POSIX", "CharacterSet", "category_set", "variants"]

_LAST: Final = 0x10FFFF


class CharacterSet:
    """Characters in ranges, or of Unicode categories, or all others.

    Attributes:
        folded: whether a character also counts if it is there in another case.
    """

    __slots__ = ("_categories", "_ends", "_members", "_negated", "_starts", "folded")

    def __init__(
        self,
        ranges: Iterable[tuple[int, int]] = (),
        *,
        members: Iterable["CharacterSet"] = (),
        categories: tuple[str, ...] = (),
        negated: bool = False,
        folded: bool = False,
    ) -> None:
        ordered = _merged(ranges)
        self._starts = [start for start, _ in ordered]
        self._ends = [end for _, end in ordered]
        # A pattern may name the same class thousands of times.
        self._members = tuple(dict.fromkeys(members))
        self._categories = categories
        self._negated = negated
        self.folded = folded

    def __contains__(self, character: str) -> bool:
        if self.folded:
            found = any(self._has(each) for each in variants(character))
        else:
            found = self._has(character)
        return found is not self._negated

    def _has(self, character: str) -> bool:
        code = ord(character)
        at = bisect_right(self._starts, code) - 1
        if at >= 0 and code <= self._ends[at]:
            return True
        if self._categories and unicodedata.category(character).startswith(self._categories):
            return True
        return any(character in each for each in self._members)


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


@lru_cache(maxsize=4096)
def variants(character: str) -> tuple[str, ...]:
    """Return a character in all its cases."""
    found = {character}
    for _ in range(2):
        for each in tuple(found):
            found.update(form for form in (each.lower(), each.upper()) if len(form) == 1)
    return tuple(sorted(found))


def _ascii(text: str) -> list[tuple[int, int]]:
    """Return the ranges of pairs of characters: "azAZ" is a to z and A to Z."""
    return [(ord(text[at]), ord(text[at + 1])) for at in range(0, len(text), 2)]


#: `(?s).`
ANY: Final = CharacterSet([(0, _LAST)])
#: `.`
NOT_NEWLINE: Final = CharacterSet([(10, 10)], negated=True)

_DIGIT: Final = _ascii("09")
_SPACE: Final = _ascii("\t\n\f\r  ")
_WORD: Final = _ascii("09AZaz__")

#: `\d`, `\s`, `\w` and their opposites.
PERL: Final = {
    "d": CharacterSet(_DIGIT),
    "D": CharacterSet(_DIGIT, negated=True),
    "s": CharacterSet(_SPACE),
    "S": CharacterSet(_SPACE, negated=True),
    "w": CharacterSet(_WORD),
    "W": CharacterSet(_WORD, negated=True),
}

#: `[:alnum:]` and so on.
POSIX: Final = {
    "alnum": _ascii("09AZaz"),
    "alpha": _ascii("AZaz"),
    "ascii": _ascii("\x00\x7f"),
    "blank": _ascii("\t\t  "),
    "cntrl": _ascii("\x00\x1f\x7f\x7f"),
    "digit": _DIGIT,
    "graph": _ascii("!~"),
    "lower": _ascii("az"),
    "print": _ascii(" ~"),
    "punct": _ascii("!/:@[`{~"),
    "space": _ascii("\t\r  "),
    "upper": _ascii("AZ"),
    "word": _WORD,
    "xdigit": _ascii("09AFaf"),
}

_CATEGORIES: Final = frozenset(
    [
        "C",
        "Cc",
        "Cf",
        "Co",
        "Cs",
        "L",
        "Ll",
        "Lm",
        "Lo",
        "Lt",
        "Lu",
        "M",
        "Mc",
        "Me",
        "Mn",
        "N",
        "Nd",
        "Nl",
        "No",
        "P",
        "Pc",
        "Pd",
        "Pe",
        "Pf",
        "Pi",
        "Po",
        "Ps",
        "S",
        "Sc",
        "Sk",
        "Sm",
        "So",
        "Z",
        "Zl",
        "Zp",
        "Zs",
    ]
)


def category_set(name: str, *, negated: bool) -> CharacterSet | None:
    """Return the characters of a Unicode category; None for a name that is not supported."""
    if name.startswith("^"):
        name, negated = name[1:], not negated
    if name == "Any":
        return CharacterSet([(0, _LAST)], negated=negated)
    if name == "C":
        return CharacterSet(categories=("Cc", "Cf", "Co", "Cs"), negated=negated)
    if name not in _CATEGORIES:
        return None
    return CharacterSet(categories=(name,), negated=negated)
