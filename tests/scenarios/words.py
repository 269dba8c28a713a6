"""The words of the notation, and what they have in common."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

__all__ = ["DELETED", "Api", "NotationError", "Words", "node_term", "present", "spelled", "stamp"]

Api = dict[str, Any]

#: Where the time of scenarios starts, and when pods that are terminating were deleted.
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
DELETED: Final = 86_400
AMOUNTS: Final = {"cpu": "cpu", "memory": "memory", "storage": "ephemeral-storage", "pods": "pods"}


class NotationError(Exception):
    """Words that are not part of the notation."""


def stamp(seconds: float) -> str:
    """Return a time stamp, so many seconds after the start."""
    return (START + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


class Words:
    """Words of which every one must be understood."""

    def __init__(self, what: str, text: str) -> None:
        self._what = what
        self._words = text.split()

    def flag(self, word: str) -> bool:
        """Take a word that stands alone."""
        found = word in self._words
        self._words = [each for each in self._words if each != word]
        return found

    def every(self, name: str) -> list[str]:
        """Take all values of `name=value`."""
        found = [each for each in self._words if each.startswith(f"{name}=")]
        self._words = [each for each in self._words if each not in found]
        return [each[len(name) + 1 :] for each in found]

    def one(self, name: str, default: str | None = None) -> str | None:
        """Take the value of `name=value`."""
        return next(iter(self.every(name)), default)

    def _matching(self, which: Callable[[str], bool]) -> list[str]:
        found = [each for each in self._words if which(each)]
        self._words = [each for each in self._words if not which(each)]
        return found

    def amounts(self, prefix: str = "") -> dict[str, str]:
        """Take resource amounts: the native ones by short names, the others by full names."""
        found = {}
        for word in self._matching(lambda word: _is_amount(word, prefix)):
            name, _, amount = word[len(prefix) :].partition("=")
            found[AMOUNTS.get(name, name)] = amount
        return found

    def labels(self) -> dict[str, str]:
        """Take `key:value` pairs."""
        pairs = self._matching(lambda word: ":" in word and "=" not in word and word[0] != "!")
        return dict(pair.split(":", 1) for pair in pairs)

    def expressions(self) -> list[Api]:
        """Take `key@Operator=value|value` expressions."""
        return [expression(word) for word in self._matching(lambda word: "@" in word)]

    def taints(self) -> list[Api]:
        """Take `!key=value:Effect` taints."""
        found = []
        for word in self._matching(lambda word: word.startswith("!")):
            pair, _, effect = word[1:].rpartition(":")
            key, _, value = pair.partition("=")
            found.append({"key": key, "value": value, "effect": effect})
        return found

    def first(self) -> str:
        """Take the first word."""
        return self._words.pop(0)

    def end(self) -> None:
        """Assert that nothing is left."""
        if self._words:
            raise NotationError(f"{self._what}: what is {' '.join(self._words)!r}?")


def _is_amount(word: str, prefix: str) -> bool:
    name, equals, _ = word.removeprefix(prefix).partition("=")
    known = (name in AMOUNTS or "/" in name) and ":" not in name
    return word.startswith(prefix) and bool(equals) and known


def expression(word: str) -> Api:
    key, _, rest = word.partition("@")
    operator, equals, values = rest.partition("=")
    return {"key": key, "operator": operator, **({"values": values.split("|")} if equals else {})}


def present(**fields: Any) -> Api:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, False)}


def spelled(given: Any) -> Api:
    """Return a mapping, of an object that is given by words alone too."""
    return dict(given) if isinstance(given, dict) else {"is": given or ""}


def node_term(text: str) -> Api:
    words = Words("node term", text)
    found = words.expressions()
    words.end()
    return present(
        matchExpressions=[each for each in found if each["key"] != "metadata.name"],
        matchFields=[each for each in found if each["key"] == "metadata.name"],
    )
