"""The errors of requests to an API server.

    KubeError
    ├── ConnectionSettingsError   server or credentials cannot be derived from the settings
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

A response is classified once, by `refusal`. `scheduler.kube.write.retry` defines what an error
means for an effect.

An API server refuses with a `Status` object. A response without one comes from something in
between, such as a proxy, and means nothing for the object: the request may have been executed.
There are three exceptions, because API servers also respond in plain text when they are busy (429),
fail (500 and above) or do not know a path (404).
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

#: How much of a body is quoted that is not a Status: enough to recognise a proxy's error page.
QUOTED_BYTES = 200
#: The longest `Retry-After` that is obeyed.
MAX_RETRY_AFTER_SECONDS = 60.0


class KubeError(Exception):
    """Base of all errors that this package raises."""


class ConnectionSettingsError(KubeError):
    """Server or credentials cannot be derived from the settings; the message is one line."""


class Unreachable(KubeError):
    """No readable answer came.

    Attributes:
        sent: Whether the server may have received, and executed, the request.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class NotServed(Unreachable):
    """The path is unknown: to an API server, or to something on the way to it."""


class HistoryReplaced(KubeError):
    """A resource version is below one that was seen before: etcd was restored from a backup."""


class ApiError(KubeError):
    """The API server answered, and refused.

    Attributes:
        status: The HTTP status.
        reason: The `reason` of the Status object, such as `AlreadyExists`; may be empty.
        message: The message of the server.
        retry_after: How many seconds the server asks us to wait, if it does.
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
    """The server does not accept our credentials."""


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
    #: Read only for `retryAfterSeconds`; it may hold anything.
    details: msgspec.Raw = msgspec.Raw(b"{}")


class _Details(msgspec.Struct, rename="camel"):
    """The details of a refusal."""

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
    answer = _status(body)
    is_status = answer.kind == "Status"
    message = f"cannot {verb} {resource}: {answer.message or f'HTTP status {status}'}"
    if is_status or status == 429 or status >= 500:
        return classified(status, answer.reason, message, _retry_after(headers, answer))
    if status == 404:
        return NotServed(message)
    return Unreachable(f"{message} (HTTP status {status} without a Status object)")


def _status(body: bytes) -> _Status:
    """Return the Status in a body; any other body is quoted as its message."""
    try:
        answer = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Status(message=body[:QUOTED_BYTES].decode(errors="replace").strip())
    return answer


def _retry_after(headers: Mapping[str, str], answer: _Status) -> float | None:
    """Return how many seconds to wait, from the header, else from the Status.

    A date in the header, which API servers do not send, is ignored.
    Source: apimachinery v0.36.3 api/errors.SuggestsClientDelay.
    """
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        seconds = _delay_of(answer)
    return min(seconds, MAX_RETRY_AFTER_SECONDS) if seconds >= 0 else None


def _delay_of(answer: _Status) -> float:
    """Return the seconds that a Status asks for; -1 where it does not."""
    try:
        return _DETAILS.decode(answer.details).retry_after_seconds or -1.0
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return -1.0
