"""What is wrong with a configuration: every problem, each with its place in the file.

Reading goes on after a problem, so that one look at the report is enough to repair the file. A
`ErrorReport` travels through all stages (document, codecs, validation, profiles); `load` raises its
content at the end. The words of a problem are those of the Kubernetes field errors.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, NoReturn

__all__ = ["ConfigError", "ErrorReport", "Problem", "UnreadableConfigError", "child", "suggestion"]

#: How alike a known name must be to be suggested: one that differs by a word is none of the user's
#: typing errors.
_NEAR: Final = 0.8


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that must change before the configuration can be used."""

    #: Field path, as `profiles[0].plugins.score.enabled[1].name`; empty for the whole document.
    path: str
    #: 1-based line of the field, or of the nearest parent that the file holds; None when there is
    #: no file or the format tells no lines (JSON).
    line: int | None
    #: What is wrong, with the value that was found.
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(Exception):
    """The configuration cannot be used; `problems` holds all that was found, in file order."""

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(source, problems)
        self.source = source
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return one line of text per problem: `SOURCE:LINE: path: message`."""
        return [
            f"{self.source}: {each}" if each.line is None else f"{self.source}:{each.line}: {each}"
            for each in self.problems
        ]


class UnreadableConfigError(ConfigError):
    """The text is not YAML or JSON at all, so nothing in it could be judged."""


class ErrorReport:
    """Collects problems; knows on which line each field stands.

    A field whose value could not be decoded is *broken*: its default stands in for it, so later
    findings about it, or about anything in it, would mislead and are dropped.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._problems: list[Problem] = []
        self._lines: dict[str, int] = {}
        self._broken: set[str] = set()

    def locate(self, path: str, line: int | None) -> None:
        """Remember the line on which a field stands."""
        if line is not None:
            self._lines[path] = line

    def broken(self, path: str, message: str) -> None:
        """Report a field whose value could not be decoded."""
        self._broken.add(path)
        self._add(path, message)

    def is_whole(self, path: str) -> bool:
        """Tell whether the field at this path and everything in it could be decoded."""
        return not any(_contains(path, each) or _contains(each, path) for each in self._broken)

    def say(self, path: str, message: str) -> None:
        """Report a problem in words that need no frame."""
        if not any(_contains(each, path) for each in self._broken):
            self._add(path, message)

    def invalid(self, path: str, value: object, detail: str) -> None:
        """Report a value that breaks a rule."""
        self.say(path, f"Invalid value: {_shown(value)}: {detail}")

    def required(self, path: str, detail: str = "") -> None:
        """Report a field that must be set."""
        self.say(path, f"Required value: {detail}" if detail else "Required value")

    def forbidden(self, path: str, detail: str) -> None:
        """Report a field that must not be set."""
        self.say(path, f"Forbidden: {detail}")

    def duplicate(self, path: str, value: object, detail: str = "") -> None:
        """Report a value that another entry has already."""
        message = f"Duplicate value: {_shown(value)}"
        self.say(path, f"{message}: {detail}" if detail else message)

    def unsupported(self, path: str, value: str, allowed: Iterable[str]) -> None:
        """Report a word that is not one of the allowed ones."""
        listed = ", ".join(_shown(each) for each in sorted(allowed))
        self.say(path, f"Unsupported value: {_shown(value)}: supported values: {listed}")

    def unreadable(self, line: int | None, message: str) -> NoReturn:
        """Give up: the text has no structure that could be judged.

        Raises:
            UnreadableConfigError: Always.
        """
        raise UnreadableConfigError(self.source, (Problem("", line, message),))

    def finish(self) -> None:
        """Raise what was found.

        Raises:
            ConfigError: At least one problem was reported.
        """
        if self._problems:
            in_order = sorted(self._problems, key=lambda each: each.line or 0)
            raise ConfigError(self.source, tuple(in_order))

    def _add(self, path: str, message: str) -> None:
        problem = Problem(path, self._line(path), message)
        if problem not in self._problems:
            self._problems.append(problem)

    def _line(self, path: str) -> int | None:
        while path and path not in self._lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self._lines.get(path)


def child(path: str, name: str) -> str:
    """Return the path of a field inside the object at `path`."""
    return f"{path}.{name}" if path else name


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean "…"?` for the nearest known name, or nothing when none is near."""
    by_fold = {each.lower(): each for each in sorted(known)}
    near = get_close_matches(name.lower(), by_fold, n=1, cutoff=_NEAR)
    return f', did you mean "{by_fold[near[0]]}"?' if near else ""


def _contains(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
