"""Server-sent events, in whatever parts they arrive."""

import pytest

from scheduler.kubectl import event_stream
from scheduler.kubectl.event_stream import Event, EventParser

STREAM = (
    b": ping\n\nevent: update\nid: 7\ndata: {}\n\nevent: resync\ndata: \n\n"
    b"data: a\r\ndata: b\r\n\r\n"
)
EVENTS = [Event("update", b"{}", "7"), Event("resync", b"", "7"), Event("message", b"a\nb", "7")]


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1000])
def test_events_are_the_same_in_parts_of_any_size(size):
    parser = EventParser()
    parts = (STREAM[i : i + size] for i in range(0, len(STREAM), size))

    assert [event for part in parts for event in parser.feed(part)] == EVENTS


def test_an_event_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(event_stream, "EVENT_BYTES", 100)
    parser = EventParser()
    list(parser.feed(b"data: " + b"x" * 80))

    with pytest.raises(ValueError, match="too large"):
        list(parser.feed(b"x" * 80))
