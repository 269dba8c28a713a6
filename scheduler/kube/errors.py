"""What can go wrong between us and an API server.

    KubeError
    ├── ConnectionSettingsError   where the server is, or who we are, cannot be told
    ├── Unreachable               no readable answer: refused, reset, timed out, garbled
    └── ApiError                  the server answered, and refused
        ├── Unauthorized          401
        ├── Forbidden             403
        ├── NotFound              404
        ├── Conflict              409
        ├── Gone                  410
        ├── TooManyRequests       429
        └── ServerUnavailable     500 and above

An answer is classified once, by `refusal`. What a refusal means for an effect is said in
`scheduler.kube.writer`.
"""

from collections.abc import Mapping

import msgspec

__all__ = [
    "ApiError",
    "Conflict",
    "ConnectionSettingsError",
    "Forbidden",
    "Gone",
    "KubeError",
    "NotFound",
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


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: int = 0


class _Status(msgspec.Struct):
    """The body of a refusal."""

    reason: str = ""
    message: str = ""
    details: _Details | None = None


_STATUS = msgspec.json.Decoder(_Status)


def classified(
    status: int, reason: str, message: str, retry_after: float | None = None
) -> ApiError:
    """Return the error for an HTTP status."""
    kind = KINDS.get(status, ServerUnavailable if status >= 500 else ApiError)
    return kind(status, reason, message, retry_after)


def refusal(
    status: int, headers: Mapping[str, str], body: bytes, verb: str, resource: str
) -> ApiError:
    """Return the error for an answer that is not a success."""
    try:
        said = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = _Status(message=body[:QUOTED_BYTES].decode(errors="replace").strip())
    message = f"cannot {verb} {resource}: {said.message or f'HTTP status {status}'}"
    wished = said.details.retry_after_seconds if said.details is not None else 0
    return classified(status, said.reason, message, _retry_after(headers, wished))


def _retry_after(headers: Mapping[str, str], wished: int) -> float | None:
    """Return the seconds of `Retry-After`, or where it is missing those of the Status.

    A date, which API servers do not send, is ignored.
    """
    try:
        seconds = float(headers.get("retry-after", wished or ""))
    except ValueError:
        return None
    return min(seconds, LONGEST_RETRY_AFTER_SECONDS) if seconds >= 0 else None
