"""Refusals in the format of the API server: objects of kind `Status`."""

import msgspec

__all__ = ["status"]


def status(code: int, reason: str, message: str) -> bytes:
    """Return a `Status` as JSON.

    Args:
        code: The HTTP status.
        reason: A word for programs, as `Forbidden`.
        message: Text for people.
    """
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
    )
