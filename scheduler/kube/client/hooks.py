"""What this package tells about itself while it works; metrics and logs listen.

The calls come from the event loop and must return at once. Levels, such as queue lengths and the
age of a watch, are not told but asked for: `Writer.waiting`, `Informer.health`.
"""

__all__ = ["ClientHooks"]


class ClientHooks:
    """Hears what happens between us and the API server; this one ignores it all."""

    def request_ended(self, verb: str, resource: str, code: str, seconds: float) -> None:
        """Hear that a request got the HTTP status `code`, or no answer: `unreachable`."""

    def retried(self, verb: str, resource: str, problem: str) -> None:
        """Hear that a request will be sent again because of `problem`."""

    def listed(self, resource: str, objects: int) -> None:
        """Hear that all objects of a resource were listed."""

    def watched(self, resource: str, events: int) -> None:
        """Hear that a batch of watch events was handed over."""

    def restarted(self, resource: str) -> None:
        """Hear that a list or watch failed and will be started again."""

    def interrupted(self, resource: str, problem: str) -> None:
        """Hear why lists or watches fail; told once until it changes, or until they work."""

    def undecodable(self, resource: str, key: str, problem: str) -> None:
        """Hear that an object cannot be read; told once until it can be read again."""

    def event_dropped(self) -> None:
        """Hear that an Event was not written because too many wait."""

    def ledger_forbidden(self, problem: str) -> None:
        """Hear that the right to read the ledger is missing; it is not read."""

    def ledger_unreadable(self, problem: str) -> None:
        """Hear that the ledger could not be read; it is tried again."""

    def extender_failed(self, extender: str, verb: str, problem: str) -> None:
        """Hear that an extender gave no answer that can be used."""

    def policy_told(self, name: str, verdict: str, detail: str) -> None:
        """Hear that a policy was `accepted` (in that generation), `refused` (why), or is `gone`."""
