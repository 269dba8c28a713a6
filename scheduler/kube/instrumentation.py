"""Hooks for metrics and logs: what this package reports about its own work.

The calls come from the event loop and must return at once. Gauges, such as queue lengths and the
age of a watch, are not reported but read: `Writer.lengths`, `Informer.health`.
"""

__all__ = ["Instrumentation"]


class Instrumentation:
    """Gets the events between this process and the API server; this one ignores them all."""

    def request_ended(self, verb: str, resource: str, code: str, seconds: float) -> None:
        """Report a request that got the HTTP status `code`, or no answer: `unreachable`."""

    def retried(self, verb: str, resource: str, problem: str) -> None:
        """Report a request that will be sent again because of `problem`."""

    def listed(self, resource: str, objects: int) -> None:
        """Report that all objects of a resource were listed."""

    def watched(self, resource: str, events: int) -> None:
        """Report a batch of watch events that was handed over."""

    def restarted(self, resource: str) -> None:
        """Report a list or watch that has failed and will be started again."""

    def interrupted(self, resource: str, problem: str) -> None:
        """Report why lists or watches fail, once until the reason changes or they work."""

    def undecodable(self, resource: str, key: str, problem: str) -> None:
        """Report an object that cannot be decoded, once until it can be decoded again."""

    def event_dropped(self) -> None:
        """Report an Event that is not written because too many wait."""

    def ledger_forbidden(self, problem: str) -> None:
        """Report that the right to read the ledger is missing; it is not read."""

    def ledger_unreadable(self, problem: str) -> None:
        """Report a ledger that could not be read and will be read again."""

    def ledger_changed(self, problem: str) -> None:
        """Report that something else has changed the ledger, which is written again."""

    def ledger_not_restored(self, problem: str) -> None:
        """Report why that failed; it will be tried again."""

    def unowned(self, problem: str) -> None:
        """Report why lease and ledger do not get the Deployment as their owner."""

    def extender_failed(self, extender: str, verb: str, problem: str) -> None:
        """Report an extender that gave no usable answer."""

    def policy_changed(self, name: str, verdict: str, detail: str) -> None:
        """Report a policy that is `accepted` (the generation), `refused` (why), or `gone`."""
