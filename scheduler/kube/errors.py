"""What can go wrong between us and an API server.

    KubeError
    ├── ConnectionSettingsError   where the server is, or who we are, cannot be told
    ├── Unreachable               no readable answer: refused, reset, timed out, garbled
    │   └── NotServed             404 without a Status, as for a path that no API server has
    ├── HistoryReplaced           the versions of a resource have gone backwards
    └── ApiError                  the server answered, and refused
        ├── Unauthorized          401
        ├── Forbidden             403
        ├── NotFound              404
        ├── Conflict              409
        ├── Gone                  410
        ├── TooManyRequests       429
        └── ServerUnavailable     500 and above

An answer is classified once, by `refusal`. What a refusal means for an effect is said in
`scheduler.kube.write.writer`.

An API server refuses with a `Status` object. An answer without one comes from something on the way,
such as a proxy, and tells nothing about the object: the request may have been executed. There are
three exceptions, because API servers answer in plain text as well when they are busy (429), fail
(500 and above) or do not know a path (404).
"""

from collections.abc import Mapping

import msgspec

__all__ = [
    "ApiError",
    "Conflict",
    "ConnectionSettingsError",
    "Forbidden",
    "Gone",
    "HistoryReplaced",
    "KubeError",
    "NotFound",
    "NotServed",
    "ServerUnavailable",
    "TooManyRequests",
    "Unauthorized",
    "Unreachable",
    "classified",
    "refusal",
]

#: A body that is no Status is quoted up to here: enough to recognise a proxy's error page.
QUOTED_BYTES = 200
#: No server may silence us for longer by one answer, whatever its `Retry-After` says.
LONGEST_RETRY_AFTER_SECONDS = 60.0


class KubeError(Exception):
    """Base of everything that this package raises for others to catch."""


class ConnectionSettingsError(KubeError):
    """The API server or our credentials cannot be told from the settings; one clear line."""


class Unreachable(KubeError):
    """No readable answer came.

    Attributes:
        sent: Whether the server may have received, and executed, the request.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class NotServed(Unreachable):
    """The path is not known: to an API server, or to something on the way to it."""


class HistoryReplaced(KubeError):
    """A resource version is below one that was seen before: etcd was restored from a backup."""


class ApiError(KubeError):
    """The API server answered, and refused.

    Attributes:
        status: The HTTP status.
        reason: The `reason` of the Status object, such as `AlreadyExists`; may be empty.
        message: What the server said.
        retry_after: How many seconds the server asks us to wait, if it said so.
    """

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class Unauthorized(ApiError):
    """The server does not know us."""


class Forbidden(ApiError):
    """We lack the right; the message names verb and resource."""


class NotFound(ApiError):
    """There is no such object, or no such resource."""


class Conflict(ApiError):
    """The object is not in the state that the request assumed."""


class Gone(ApiError):
    """The version that we want to continue from is no longer known to the server."""


class TooManyRequests(ApiError):
    """The server did not execute the request because it is busy."""


class ServerUnavailable(ApiError):
    """The server failed; whether it executed the request is unknown."""


KINDS: Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: TooManyRequests,
}


class _Status(msgspec.Struct):
    """The body of a refusal."""

    kind: str = ""
    reason: str = ""
    message: str = ""
    #: Read only for what it says about waiting; a Status is one whatever it holds.
    details: msgspec.Raw = msgspec.Raw(b"{}")


class _Details(msgspec.Struct, rename="camel"):
    """What a refusal is about."""

    retry_after_seconds: float = 0.0


_DETAILS = msgspec.json.Decoder(_Details)
_STATUS = msgspec.json.Decoder(_Status)


def classified(
    status: int, reason: str, message: str, retry_after: float | None = None
) -> ApiError:
    """Return the error for an HTTP status."""
    kind = KINDS.get(status, ServerUnavailable if status >= 500 else ApiError)
    return kind(status, reason, message, retry_after)


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, verb: str, resource: str
) -> KubeError:
    """Return the error for an answer that is not a success.

    Source: apiserver v0.36.3 endpoints/handlers/responsewriters.ErrorNegotiated writes a Status;
    server/filters/maxinflight.go and the handler of unknown paths write plain text.
    """
    said = _status(body)
    is_status = said.kind == "Status"
    message = f"cannot {verb} {resource}: {said.message or f'HTTP status {status}'}"
    if is_status or status == 429 or status >= 500:
        return classified(status, said.reason, message, _retry_after(headers, said))
    if status == 404:
        return NotServed(message)
    return Unreachable(f"{message} (HTTP status {status} without a Status object)")


def _status(body: bytes) -> _Status:
    """Return what the body of a refusal says; what is no Status is quoted as its message."""
    try:
        said = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Status(message=body[:QUOTED_BYTES].decode(errors="replace").strip())
    return said


def _retry_after(headers: Mapping[str, str], said: _Status) -> float | None:
    """Return how many seconds to wait: of the header, else of the Status.

    A date in the header, which API servers do not send, is ignored.
    Source: apimachinery v0.36.3 api/errors.SuggestsClientDelay.
    """
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        seconds = _delay_of(said)
    return min(seconds, LONGEST_RETRY_AFTER_SECONDS) if seconds >= 0 else None


def _delay_of(said: _Status) -> float:
    """Return the seconds that a Status asks for; -1 where it does not."""
    try:
        return _DETAILS.decode(said.details).retry_after_seconds or -1.0
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return -1.0
