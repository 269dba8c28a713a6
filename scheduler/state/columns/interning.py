"""Small integers for values that recur, so that arrays can hold them."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

__all__ = ["Interner"]

T = TypeVar("T", bound=Hashable)


class Interner(Generic[T]):
    """Gives equal values the same code, counted up from 0; codes are never freed."""

    __slots__ = ("_codes", "values")

    def __init__(self, *first: T) -> None:
        #: The value of each code.
        self.values: list[T] = list(first)
        self._codes: dict[T, int] = {value: code for code, value in enumerate(first)}

    def __len__(self) -> int:
        return len(self.values)

    def code(self, value: T) -> int:
        """Return the code of a value, a new one for a new value."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def find(self, value: T) -> int | None:
        """Return the code of a value; `None` if it has none."""
        return self._codes.get(value)

    def find_all(self, values: Iterable[T], missing: int) -> list[int]:
        """Return the codes of values, and `missing` for values without one."""
        find = self._codes.get
        return [find(value, missing) for value in values]
