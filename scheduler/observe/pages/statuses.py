"""Refusals in the format of the API server: objects of kind `Status`."""

import msgspec

from scheduler.model.rest.common import Status

__all__ = ["status"]


def status(code: int, reason: str, message: str) -> bytes:
    """Return a `Status` as JSON.

    Args:
        code: The HTTP status.
        reason: A word for programs, as `Forbidden`.
        message: Text for people.
    """
    return msgspec.json.encode(Status("Status", "v1", {}, "Failure", message, reason, code))
