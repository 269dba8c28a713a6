import json

import pytest

from scheduler.observe.logs import escape


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("n1", "n1", id="plain text stays"),
        pytest.param("näher שלום 中", "näher שלום 中", id="letters of any script stay"),
        pytest.param("a\nb\tc", r"a\nb\tc", id="a newline cannot forge a line"),
        pytest.param("\x1b[31mred", r"\x1b[31mred", id="an escape sequence cannot colour"),
        pytest.param("a\u202eb\u2066c", r"a\u202eb\u2066c", id="a mark cannot turn text around"),
        pytest.param("\x7f\x9b", r"\x7f\x9b", id="control characters beyond ASCII"),
        pytest.param("\u2028", r"\u2028", id="a line separator is a newline to some"),
        pytest.param("\ud800", r"\ud800", id="half a surrogate pair"),
        pytest.param("\U000e0041", r"\U000e0041", id="an invisible tag"),
    ],
)
def test_what_does_not_print_is_spelled_out(text, want):
    assert escape.printable(text) == want


def test_escapes_of_json_mean_what_was_there():
    text = "\x7f \x9b \u202e \u2028 \U000e0041 ä"

    document = escape.json_text(json.dumps(text, ensure_ascii=False))

    assert document.isprintable()
    assert json.loads(document) == text


def test_surrogates_are_spelled_out_so_that_the_text_can_be_encoded():
    assert escape.without_surrogates("a\udcffb").encode() == rb"a\udcffb"


@pytest.mark.parametrize(
    ("text", "want"), [("12345678", "12345678"), ("123456789", "1234 ..."), ("", "")]
)
def test_a_shortened_text_shows_that_something_is_missing(text, want):
    assert escape.shortened(text, 8) == want
