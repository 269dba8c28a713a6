"""Aggregates Events: which of them are written, and which are only counted.

Repeats become one Event with a growing count. The first one is created. The count is written when
it has doubled and a minute has passed, or after half an hour. So a pod that is retried for days
costs a handful of requests, and one that is retried often costs no more.

Source: client-go v0.36.3 tools/events, event_broadcaster.go.
Differs: upstream writes the count at the second repeat and in a sweep every half an hour; here
no timer runs, so the last repeats of a series may stay uncounted. Upstream begins a new Event after
every change of the pod, its own condition included; here the note has to differ by more than
numbers.
"""

import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from scheduler.kube.client import requests
from scheduler.kube.client.client import Request
from scheduler.model.effects import RecordEvent
from scheduler.model.times import Seconds

__all__ = ["EventRecorder", "Series"]

#: A repeat after so long a time begins a new Event.
CLOSED_SECONDS: Final = 6 * 60.0
REFRESH_SECONDS: Final = 30 * 60.0
#: The shortest time between two writes of one series.
APART_SECONDS: Final = 60.0
#: Series that are kept; the one without repeats for the longest time goes first.
REMEMBERED: Final = 4096

_NUMBERS: Final = re.compile(r"\d+")


@dataclass(slots=True)
class Series:
    """An Event and its repeats."""

    namespace: str
    name: str
    seen_at: Seconds
    written_at: Seconds
    count: int = 0
    #: The count that the API server knows; 0 while the Event is not created.
    written: int = 0
    #: The count in a request that is being sent; 0 when there is none.
    sending: int = 0


class EventRecorder:
    """Keeps the Events of the last minutes, and decides which requests are due."""

    def __init__(self, host: str, remembered: int = REMEMBERED) -> None:
        self._host = host
        self._remembered = remembered
        self._series: OrderedDict[tuple[str, ...], Series] = OrderedDict()
        self._last_nanoseconds = 0

    def record(self, effect: RecordEvent, now: Seconds) -> Series | None:
        """Count an Event; return its series if a request is due.

        The caller then sends `request`, and calls `written` or `failed` when it has ended.
        """
        key = _key(effect)
        series = self._series.pop(key, None)
        if series is None or now - series.seen_at > CLOSED_SECONDS:
            name = requests.event_name(effect.regarding.name, self._unique(now))
            series = Series(effect.regarding.namespace, name, seen_at=now, written_at=now)
        self._series[key] = series
        if len(self._series) > self._remembered:
            self._series.popitem(last=False)
        series.count += 1
        series.seen_at = now
        if series.sending or not _is_due(series, now):
            return None
        series.sending = series.count
        return series

    def request(self, effect: RecordEvent, series: Series, now: Seconds) -> Request:
        """Return the request that writes the current count of a series."""
        if series.written:
            return requests.repeat_event(series.namespace, series.name, series.sending, now)
        instance = f"{effect.scheduler_name}-{self._host}"
        return requests.create_event(effect, series.name, now, instance)

    def written(self, series: Series, now: Seconds) -> None:
        """Record that the API server has the count of the request."""
        series.written, series.sending = series.sending, 0
        series.written_at = now

    def failed(self, effect: RecordEvent, series: Series) -> None:
        """Forget a series that could not be written; its next repeat begins a new one."""
        series.sending = 0
        if self._series.get(_key(effect)) is series:
            del self._series[_key(effect)]

    def _unique(self, now: Seconds) -> int:
        """Return nanoseconds for a name that no other Event of this process has."""
        self._last_nanoseconds = max(int(now * 1e9), self._last_nanoseconds + 1)
        return self._last_nanoseconds


def _is_due(series: Series, now: Seconds) -> bool:
    """Return whether the count should be written now."""
    if not series.written:
        return True
    passed = now - series.written_at
    doubled = series.count >= 2 * series.written
    return (doubled and passed >= APART_SECONDS) or passed >= REFRESH_SECONDS


def _key(effect: RecordEvent) -> tuple[str, ...]:
    """Return the key that repeats share; the numbers in the note may differ."""
    return (
        effect.regarding.uid,
        _NUMBERS.sub("", requests.cut_note(effect.note)),
        effect.type,
        effect.reason,
        effect.action,
        effect.scheduler_name,
        "" if effect.related is None else effect.related.uid,
    )
