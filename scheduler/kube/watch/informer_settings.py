"""How patient an informer is, and what it tells of itself."""

from dataclasses import dataclass

__all__ = ["InformerSettings", "WatchHealth"]


@dataclass(frozen=True, slots=True)
class InformerSettings:
    """How patient an informer is."""

    #: Objects in a page of a list; decoding one page blocks the loop for some 5 ms.
    page_objects: int = 500
    #: Without a byte for so long a watch is dead; longer than the server lets any watch last.
    silence_seconds: float = 100.0
    #: The server is asked to end a watch after that long, or up to twice as long at random, so
    #: that watches spread over the servers again after one was restarted.
    watch_seconds: float = 45.0
    #: After so long without an event or a bookmark the version of the resource is asked for.
    quiet_seconds: float = 300.0
    #: Pauses after failures, doubling from the first to the last.
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class WatchHealth:
    """How an informer does."""

    resource: str
    #: Whether everything was listed once.
    synced: bool
    #: Seconds since the watch said something, if only that it ends, or since the list that it
    #: continues; `None` before the first. An answer counts as a list while watches work.
    silent_seconds: float | None
    #: Why the list or watch does not work now; empty while it does.
    problem: str
    #: Objects that cannot be read.
    undecodable: int
    #: Objects that are known.
    objects: int
