"""What a request for a document consists of, and what can be wrong with it."""

import base64
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

__all__ = [
    "EVERY_NAME",
    "NO_NAME",
    "ApiPage",
    "ApiRequest",
    "NameAccess",
    "StatusError",
    "Stream",
    "continue_token",
    "continued",
    "continued_number",
    "limit_of",
]

#: Items of one page of a list: by default, and at most.
DEFAULT_LIMIT: Final = 500
MAX_LIMIT: Final = 5000


class NameAccess(Protocol):
    """The namespaces in which a caller may see the names of pods."""

    async def visible(self, namespaces: Collection[str]) -> Container[str]:
        """Return those of some namespaces in which the caller may `get` pods.

        Raises:
            ApiError: It cannot be found out at present.
        """


class _Everything:
    """Contains every namespace."""

    def __contains__(self, _namespace: object) -> bool:
        return True


class _EveryName:
    async def visible(self, _namespaces: Collection[str]) -> Container[str]:
        return _Everything()


class _NoName:
    async def visible(self, _namespaces: Collection[str]) -> Container[str]:
        return frozenset()


#: Of callers who need no review, and of callers of whom nothing is known.
EVERY_NAME: Final[NameAccess] = _EveryName()
NO_NAME: Final[NameAccess] = _NoName()


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request that is authorized for its path."""

    #: Query parameters, and the variable parts of the path.
    query: Mapping[str, str]
    #: Which pods the caller may know by name.
    names: NameAccess
    #: Who asks; empty where callers need no credentials.
    user: str = ""


class StatusError(Exception):
    """A request that is answered with a `Status`.

    Args:
        code: The HTTP status.
        reason: A word for programs, as `BadRequest`.
        message: Text for people.
        retry_after: Seconds after which the client may try again; 0 for no advice.
    """

    def __init__(self, code: int, reason: str, message: str, retry_after: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Stream:
    """A long answer, in parts."""

    parts: AsyncGenerator[bytes]
    content_type: str = "application/json"
    #: Whether it goes on until the client has read enough, or the server ends it.
    endless: bool = False
    #: The name of the file as which a browser stores it; it is not compressed then.
    filename: str = ""


#: Returns the document for a request: a structure, or a stream of its bytes. It runs in the
#: scheduler's loop. A `LookupError` becomes a 404 and a `ValueError` a 400, with its message.
ApiPage: TypeAlias = Callable[[ApiRequest], Awaitable[object]]


def limit_of(query: Mapping[str, str]) -> int:
    """Return how many items are wanted.

    Raises:
        ValueError: It is not a number from 1 to `MAX_LIMIT`.
    """
    text = query.get("limit", "")
    if not text:
        return DEFAULT_LIMIT
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_LIMIT:
        raise ValueError(f"limit must be a number from 1 to {MAX_LIMIT}")
    return int(text)


def continue_token(kind: str, last: str | int) -> str:
    """Return the `continue` of a page of a list, from which only this process learns anything.

    Args:
        kind: The list.
        last: What identifies the last item of the page: a name, or a number that counts items.
    """
    text = last if isinstance(last, str) else f"{last:020d}"
    sealed = _seal().encrypt(text.encode(), [kind.encode()])
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


@functools.cache
def _seal() -> "AESSIV":
    """Return what seals `continue`: a number tells how many items the caller may not see.

    Imported at the first use: the start of the scheduler must not wait for it.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415

    return AESSIV(AESSIV.generate_key(256))


def continued(query: Mapping[str, str], kind: str) -> str:
    """Return what identifies the last item of the page before; empty for the first page.

    Raises:
        ValueError: `continue` is of another list or process, or of none.
    """
    token = query.get("continue", "")
    if not token:
        return ""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as in `_seal`

    try:
        sealed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        return _seal().decrypt(sealed, [kind.encode()]).decode()
    except (ValueError, InvalidTag) as error:
        text = "continue is not a value that an earlier page of this list has returned"
        raise ValueError(text) from error


def continued_number(query: Mapping[str, str], kind: str) -> int | None:
    """Return the number of the last item of the page before; `None` for the first page.

    Raises:
        ValueError: `continue` is of another list or process, or of none.
    """
    last = continued(query, kind)
    return int(last) if last else None
