import io
import json

import pytest

from scheduler.observe.logs import log_lines
from scheduler.observe.logs.log_lines import Sink

HEAD = {"ts": "2026-08-01T12:00:00.000000Z", "level": "info"}

both = pytest.mark.parametrize("render", [log_lines.json_line, log_lines.text_line])
hostile = pytest.mark.parametrize(
    "text",
    [
        "two\nlines",
        "\x1b[2Jcleared",
        "\u202eturned\u2069",
        "\ud800half",
        "\x00\x07\x7f\x9b",
        "\x7f",
        'quote" and \\ backslash',
        '"} {"level":"error"',
        "\u2028",
        "",
    ],
    ids=ascii,
)


class Broken:
    def write(self, content: bytes) -> int:
        raise OSError("no space left on device")

    def flush(self) -> None:
        pass


@hostile
@both
def test_a_record_is_one_printable_line(render, text):
    line = render({**HEAD, "event": text, "pod": text, "victims": [text, text]})

    assert line.endswith(b"\n")
    assert line[:-1].decode().isprintable()


@hostile
def test_a_line_of_json_contains_the_logged_values(text):
    line = log_lines.json_line({**HEAD, "event": "pod_bound", "pod": text, "attempts": 3})

    want = text.encode("utf-8", "backslashreplace").decode()
    assert json.loads(line) == {**HEAD, "event": "pod_bound", "pod": want, "attempts": 3}


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param("\ud800", r"\ud800", id="half a surrogate pair"),
        pytest.param({"\ud800": 1}, r"{'\ud800': 1}", id="half a pair in a key"),
    ],
)
def test_what_json_does_not_know_is_spelled_out(value, want):
    line = log_lines.json_line({**HEAD, "event": "odd", "value": value, "other": [1, None]})

    assert json.loads(line)["value"] == want


def test_text_is_for_people():
    line = log_lines.text_line(
        {**HEAD, "event": "pod_bound", "pod": "a/b", "message": "no room", "victims": ["a/c"]}
    )

    assert line == (
        b'2026-08-01T12:00:00.000000Z info    pod_bound pod=a/b message="no room" victims=a/c\n'
    )


@both
@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("token", "hunter2", id="a field with the name of a secret"),
        pytest.param("authorization", "hunter2", id="a header"),
        pytest.param("message", "sent Authorization: Bearer hunter2.hunter2", id="a bearer token"),
        pytest.param("message", "eyJhbGciOi.hunter2.hunter2", id="a JSON web token"),
        pytest.param("message", "GET https://me:hunter2@host/x", id="a password in a URL"),
    ],
)
def test_secrets_do_not_get_into_a_line(render, field, value):
    line = render({**HEAD, "event": "request_failed", field: value})

    assert b"hunter2" not in line
    assert b"[hidden]" in line


@both
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"message": "x" * 100_000}, id="a long message"),
        pytest.param({"message": "\u202e" * 10_000}, id="one that grows by escaping"),
        pytest.param({"victims": ["pod"] * 10_000}, id="a long list"),
        pytest.param({"value": {"a": "x" * 100_000}}, id="a nested value"),
        pytest.param({f"key{i}": "x" * 100 for i in range(1_000)}, id="many fields"),
        pytest.param({"event": "x" * 100_000}, id="a long event"),
    ],
)
def test_no_line_is_so_long_that_a_container_runtime_splits_it(render, fields):
    line = render({**HEAD, "event": "odd", **fields})

    assert len(line) <= log_lines.LINE_LIMIT
    assert line.startswith((b'{"ts":', b"2026"))
    if render is log_lines.json_line:
        assert json.loads(line)["level"] == "info"


def test_of_a_long_traceback_the_end_is_kept():
    record = {**HEAD, "event": "crashed", "exception": "frame\n" * 10_000 + "ValueError: why"}

    assert json.loads(log_lines.json_line(record))["exception"].endswith("ValueError: why")


def test_lines_wait_for_the_flush():
    stream = io.BytesIO()
    sink = Sink(stream)

    sink.info(b"one\n")
    sink.debug(b"two\n")
    before = stream.getvalue()
    sink.flush()

    assert before == b""
    assert stream.getvalue() == b"one\ntwo\n"


def test_errors_do_not_wait():
    stream = io.BytesIO()
    sink = Sink(stream)

    sink.info(b"one\n")
    sink.error(b"two\n")

    assert stream.getvalue() == b"one\ntwo\n"


def test_not_too_much_waits():
    stream = io.BytesIO()
    sink = Sink(stream, limit_bytes=8)

    sink.info(b"one\n")
    sink.info(b"two\n")

    assert stream.getvalue() == b"one\ntwo\n"


def test_lines_that_cannot_be_written_are_counted_and_dropped():
    sink = Sink(Broken())

    sink.info(b"one\n")
    sink.error(b"two\n")
    sink.flush()

    assert sink.lost == 2


def test_a_closed_stream_loses_lines_only():
    stream = io.BytesIO()
    stream.close()
    sink = Sink(stream)

    sink.error(b"one\n")

    assert sink.lost == 1
