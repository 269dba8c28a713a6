"""Settings of an informer, and its health."""

from dataclasses import dataclass

__all__ = ["InformerSettings", "WatchHealth"]


@dataclass(frozen=True, slots=True)
class InformerSettings:
    """Page sizes, timeouts and pauses of an informer."""

    #: Objects in a part of a list; decoding one part blocks the loop for some 5 ms.
    page_objects: int = 500
    #: A watch without a byte for so long is dead; longer than the server lets any watch last.
    silence_seconds: float = 100.0
    #: The server is asked to end a watch after that long, or up to twice as long at random, so
    #: that watches spread over the servers again after one was restarted.
    watch_seconds: float = 45.0
    #: After so long without an event or a bookmark the version of the resource is requested.
    quiet_seconds: float = 300.0
    #: Pauses after failures, doubling from the first to the last.
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class WatchHealth:
    """The current state of an informer."""

    resource: str
    #: Whether everything was listed once.
    synced: bool
    #: Seconds since the watch sent something, even if only its end, or since the list that it
    #: continues; `None` before the first list. Any answer counts as a list while watches work.
    silent_seconds: float | None
    #: Why the list or watch does not work now; empty while it does.
    problem: str
    #: Objects that cannot be decoded.
    undecodable: int
    #: Objects that are known.
    objects: int
