"""The paths and bodies of the API calls."""

import pytest

from scheduler.kube.client.requests import cut_note


def test_a_short_event_note_is_unchanged():
    assert cut_note("x" * 1024) == "x" * 1024


@pytest.mark.parametrize("letter", ["x", "\u00e4", "\u20ac", "\U0001f600"])
def test_a_long_event_note_is_cut_to_1024_bytes_with_dots_between_characters(letter):
    note = cut_note(letter * 2000)

    size = len(note.encode())
    assert 1024 - len(letter.encode()) < size <= 1024
    assert note == letter * note.count(letter) + " ..."
