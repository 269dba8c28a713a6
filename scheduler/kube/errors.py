"""The errors of requests to an API server.

    KubeError
    ├── ConnectionSettingsError   server or credentials cannot be derived from the settings
    ├── Unreachable               no readable answer: refused, reset, timed out, garbled
    │   └── NotServed             404 without a Status, as for a path that no API server has
    ├── HistoryReplaced           the versions of a resource have gone backwards
    └── ApiError                  the server answered, and refused
        ├── Unauthorized          401
        ├── Forbidden             403
        │   ├── MissingRight      the authorizer: this user lacks the right
        │   └── NamespaceTerminating  the namespace of the object is being deleted
        ├── Denied                an admission webhook or policy, with any status
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

A 403 has many causes: RBAC, a quota, a namespace that is being deleted, admission control. They are
told apart by what the API server itself writes. A webhook and a policy choose status, reason,
causes and the end of the message, but not its beginning, so they cannot pass for RBAC.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

__all__ = [
    "ApiError",
    "Conflict",
    "ConnectionSettingsError",
    "Denied",
    "Forbidden",
    "Gone",
    "HistoryReplaced",
    "KubeError",
    "MissingRight",
    "NamespaceTerminating",
    "NotFound",
    "NotServed",
    "ServerUnavailable",
    "TooManyRequests",
    "Unauthorized",
    "Unreachable",
    "classified",
    "prefixed",
    "refusal",
]

#: How much of a body is quoted that is not a Status: enough to recognise a proxy's error page.
QUOTED_BYTES = 200
#: The longest `Retry-After` that is obeyed.
MAX_RETRY_AFTER_SECONDS = 60.0

#: How the message of an authorizer begins; what follows is verb and resource, and perhaps a reason.
#: Source: apiserver v0.37.2 endpoints/handlers/responsewriters.ForbiddenStatusError,
#: apimachinery v0.37.2 api/errors.NewForbidden.
_BY_AUTHORIZER: Final = re.compile(r'(?:\S+(?: "[^"]*")? is )?forbidden: User "')
#: How API servers since v1.36 refuse a user who may write the status of claims, but not their
#: devices. They answer 422.
#: Source: kube-apiserver v1.37.2 pkg/registry/resource/utils.go, AuthorizedForBinding.
_BY_BINDING: Final = re.compile(
    r'\S+ "[^"]*" is invalid: \[?status\.\w+: Forbidden: changing status\.allocation or'
    r' status\.reservedFor requires resource="'
)
#: How the messages of admission webhooks and policies begin.
#: Source: apiserver v0.37.2 admission/plugin/webhook/errors.ToStatusErr,
#: admission/plugin/policy/validating.dispatcher.Dispatch.
_BY_ADMISSION: Final = re.compile(
    r"""admission webhook "|\S+(?: "[^"]*")? is forbidden: ValidatingAdmissionPolicy '"""
)
#: How the message of an API server ends whose admission plugins have not read the cluster yet.
#: Source: apiserver v0.37.2 admission/plugin/namespace/lifecycle.Admit.
_NOT_READY: Final = "is forbidden: not yet ready to handle request"
#: The cause of a 403 in a namespace that is being deleted; that never ends otherwise.
#: Source: api v0.37.2 core/v1.NamespaceTerminatingCause.
_TERMINATING: Final = "NamespaceTerminating"


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
    """The server does not allow it: a missing right, a quota, a namespace that is deleted."""


class MissingRight(Forbidden):
    """We lack the right; the message names verb and resource."""


class NamespaceTerminating(Forbidden):
    """The namespace is being deleted, so nothing is created in it any more."""


class Denied(ApiError):
    """An admission webhook or policy denies it; its status says nothing about the object."""


class NotFound(ApiError):
    """There is no such object, or no such resource."""


class Conflict(ApiError):
    """The object is not in the state that the request assumed."""


class Gone(ApiError):
    """The version that we want to continue from is no longer known to the server."""


class TooManyRequests(ApiError):
    """The server did not execute the request because it is busy, or has just started."""


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
    #: Read for `retryAfterSeconds` and `causes`; it may hold anything.
    details: msgspec.Raw = msgspec.Raw(b"{}")


class _Cause(msgspec.Struct):
    """One of the causes of a refusal."""

    reason: str = ""


class _Details(msgspec.Struct, rename="camel"):
    """The details of a refusal."""

    retry_after_seconds: float = 0.0
    causes: tuple[_Cause, ...] = ()


_DETAILS = msgspec.json.Decoder(_Details)
_STATUS = msgspec.json.Decoder(_Status)


def classified(
    status: int, reason: str, message: str, retry_after: float | None = None
) -> ApiError:
    """Return the error for an HTTP status."""
    return _kind_of(status)(status, reason, message, retry_after)


def _kind_of(status: int) -> type[ApiError]:
    return KINDS.get(status, ServerUnavailable if status >= 500 else ApiError)


def prefixed(error: ApiError, text: str) -> ApiError:
    """Return an error of the same kind whose message begins with a text."""
    return type(error)(error.status, error.reason, f"{text}: {error.message}")


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
        kind = _read_kind(status, answer) if is_status else None
        if kind is not None:
            return kind(status, answer.reason, message)
        return classified(status, answer.reason, message, _retry_after(headers, answer))
    if status == 404:
        return NotServed(message)
    return Unreachable(f"{message} (HTTP status {status} without a Status object)")


def _read_kind(status: int, answer: _Status) -> type[ApiError] | None:
    """Return the error that a Status itself tells; `None` leaves it to the HTTP status.

    A webhook that answers 429 or 500 asks for a retry, but for one object only: the pause that a
    response may ask for applies to all writes of a kind.
    """
    if _BY_ADMISSION.match(answer.message):
        return _kind_of(status) if status == 429 or status >= 500 else Denied
    if status == 422 and _BY_BINDING.match(answer.message):
        return MissingRight
    if status != 403:
        return None
    if answer.message.endswith(_NOT_READY):
        return TooManyRequests
    causes = _details(answer).causes
    if any(cause.reason == _TERMINATING for cause in causes):
        return NamespaceTerminating
    return MissingRight if not causes and _BY_AUTHORIZER.match(answer.message) else None


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
    return _details(answer).retry_after_seconds or -1.0


def _details(answer: _Status) -> _Details:
    """Return the details of a Status; none where they cannot be read."""
    try:
        return _DETAILS.decode(answer.details)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Details()
