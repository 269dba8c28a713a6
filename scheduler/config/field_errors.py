"""Collects all errors of a configuration, each with its place in the file.

Reading continues after an error, so that one report is enough to fix the file. All stages
(document, codecs, validation, profiles) add to one `ErrorReport`; `load` raises its content at the
end. Messages have the form of Kubernetes field errors.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, NoReturn

__all__ = ["ConfigError", "ErrorReport", "Problem", "UnreadableConfigError", "child", "suggestion"]

#: The least similarity of a known name that is suggested: a name that differs by a whole word is
#: not a typing error.
_NEAR: Final = 0.8


@dataclass(frozen=True, slots=True)
class Problem:
    """One error of the configuration."""

    #: Field path, as `profiles[0].plugins.score.enabled[1].name`; empty for the whole document.
    path: str
    #: 1-based line of the field, or of its nearest parent in the file; None if there is no file or
    #: the format has no lines (JSON).
    line: int | None
    #: The error, with the actual value.
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(Exception):
    """The configuration is invalid; `problems` holds all errors in file order."""

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(source, problems)
        self.source = source
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return one line of text per problem: `SOURCE:LINE: path: message`."""
        return [self._line(problem) for problem in self.problems]

    def _line(self, problem: Problem) -> str:
        place = self.source if problem.line is None else f"{self.source}:{problem.line}"
        return f"{place}: {problem}"


class UnreadableConfigError(ConfigError):
    """The text is neither YAML nor JSON, so nothing in it could be checked."""


class ErrorReport:
    """Collects errors; knows the line of each field.

    A field whose value could not be decoded is *broken*: its default replaces it, so later errors
    about it, or about a field in it, would be misleading and are dropped.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._problems: list[Problem] = []
        self._lines: dict[str, int] = {}
        self._broken: set[str] = set()

    def locate(self, path: str, line: int | None) -> None:
        """Record the line of a field."""
        if line is not None:
            self._lines[path] = line

    def broken(self, path: str, message: str) -> None:
        """Report a field whose value could not be decoded."""
        self._broken.add(path)
        self._add(path, message)

    def is_whole(self, path: str) -> bool:
        """Return whether the field at this path and everything in it could be decoded."""
        broken = self._broken
        return not any(_contains(path, field) or _contains(field, path) for field in broken)

    def say(self, path: str, message: str) -> None:
        """Report an error with a complete message."""
        if not any(_contains(field, path) for field in self._broken):
            self._add(path, message)

    def invalid(self, path: str, value: object, detail: str) -> None:
        """Report an invalid value."""
        self.say(path, f"Invalid value: {_shown(value)}: {detail}")

    def required(self, path: str, detail: str = "") -> None:
        """Report a field that must be set."""
        self.say(path, f"Required value: {detail}" if detail else "Required value")

    def forbidden(self, path: str, detail: str) -> None:
        """Report a field that must not be set."""
        self.say(path, f"Forbidden: {detail}")

    def duplicate(self, path: str, value: object, detail: str = "") -> None:
        """Report a value that another entry already has."""
        message = f"Duplicate value: {_shown(value)}"
        self.say(path, f"{message}: {detail}" if detail else message)

    def unsupported(self, path: str, value: str, allowed: Iterable[str]) -> None:
        """Report a value that is not one of the allowed ones."""
        listed = ", ".join(map(_shown, sorted(allowed)))
        self.say(path, f"Unsupported value: {_shown(value)}: supported values: {listed}")

    def unreadable(self, line: int | None, message: str) -> NoReturn:
        """Stop reading: the text has no structure that could be checked.

        Raises:
            UnreadableConfigError: Always.
        """
        raise UnreadableConfigError(self.source, (Problem("", line, message),))

    def finish(self) -> None:
        """Raise the errors, if there are any.

        Raises:
            ConfigError: At least one error was reported.
        """
        if self._problems:
            in_order = sorted(self._problems, key=lambda problem: problem.line or 0)
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
    """Return `, did you mean "…"?` with the most similar known name, or "" if none is similar."""
    by_fold = {candidate.lower(): candidate for candidate in sorted(known)}
    near = get_close_matches(name.lower(), by_fold, n=1, cutoff=_NEAR)
    return f', did you mean "{by_fold[near[0]]}"?' if near else ""


def _contains(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
