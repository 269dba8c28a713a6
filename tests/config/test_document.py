import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import document
from scheduler.config.field_errors import ConfigError, ErrorReport, UnreadableConfigError


def _plain(text: str) -> document.Json:
    report = ErrorReport("f.yaml")
    value = document.plain(document.read(text, report))
    report.finish()
    return value


def _duplicates(text: str) -> list[tuple[str, int | None, str]]:
    report = ErrorReport("f.yaml")
    document.read(text, report)
    with pytest.raises(ConfigError) as caught:
        report.finish()
    return [(each.path, each.line, each.message) for each in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", None, id="an empty text is null"),
        pytest.param("# nothing\n", None, id="so is a comment"),
        pytest.param("a: 1\nb: [x, 2]\n", {"a": 1, "b": ["x", 2]}, id="block and flow"),
        pytest.param("a: '1'\n", {"a": "1"}, id="quotes make text"),
        pytest.param("a: |\n  1\n", {"a": "1\n"}, id="so does a block scalar"),
        pytest.param("a: !!str 1\n", {"a": "1"}, id="and a tag"),
        pytest.param("a:\t5\t# five\n", {"a": 5}, id="tabs may separate tokens"),
        pytest.param("\ufeffa: 1\n", {"a": 1}, id="a byte order mark is skipped"),
        pytest.param("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}, id="line breaks of Windows"),
        pytest.param("%YAML 1.1\n---\na: 1\n", {"a": 1}, id="a directive"),
        pytest.param("a: 1\n---\nb: 2\n", {"a": 1}, id="only the first document counts"),
        pytest.param("1: a\nyes: b\n", {"1": "a", "true": "b"}, id="keys become text"),
        pytest.param("a: &x [1]\nb: *x\n", {"a": [1], "b": [1]}, id="an alias"),
        pytest.param(
            "a: &x {k: 1}\nb: {<<: *x, l: 2}\n",
            {"a": {"k": 1}, "b": {"k": 1, "l": 2}},
            id="a merge",
        ),
        pytest.param(
            "a: {<<: [{k: 1}, {l: 2}]}\n", {"a": {"k": 1, "l": 2}}, id="a merge of several"
        ),
        pytest.param('a: {"<<": 1}\n', {"a": {"<<": 1}}, id="a quoted key merges nothing"),
        pytest.param('{\n\t"a": [1, 1.0, null, "x"]\n}', {"a": [1, 1.0, None, "x"]}, id="JSON"),
    ],
)
def test_reads_a_text(text, want):
    assert _plain(text) == want


def test_values_and_keys_know_their_lines():
    tree = document.read("a:\n  b:\n  - 1\n  -\n    c: 2\n", ErrorReport("f.yaml"))

    assert tree == document.Mapping(
        {
            "a": document.Mapping(
                {
                    "b": document.Sequence(
                        (
                            document.Scalar(1, 3),
                            document.Mapping({"c": document.Scalar(2, 5)}, 5, {"c": 5}),
                        ),
                        3,
                    )
                },
                2,
                {"b": 2},
            )
        },
        1,
        {"a": 1},
    )


def test_decimals_of_json_stay_decimals():
    value = _plain('{"a": 1.0}')

    assert isinstance(value, dict)
    assert isinstance(value["a"], float)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "a: 1\nb: 2\na: 3\n",
            [("a", 3, 'duplicate field "a", first set on line 1')],
            id="a key twice",
        ),
        pytest.param(
            "a:\n- b: {c: 1}\n  b: 2\n",
            [("a[0].b", 3, 'duplicate field "b", first set on line 2')],
            id="a key twice inside a list",
        ),
        pytest.param(
            "a: &x\n  k: 1\nb:\n  <<: *x\n  k: 2\n",
            [("b.k", 5, 'duplicate field "k", first set on line 2')],
            id="a key that was merged already",
        ),
        pytest.param(
            '{"a": {"b": 1, "b": 1}}', [("a.b", None, 'duplicate field "b"')], id="a name in JSON"
        ),
    ],
)
def test_reports_repeated_keys(text, want):
    assert _duplicates(text) == want


def test_the_first_of_two_values_counts():
    tree = document.read("a: 1\na: 2\n", ErrorReport("f.yaml"))

    assert document.plain(tree) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "want_line", "want_message"),
    [
        pytest.param("a: [\n", 2, "not YAML: expected the node content", id="an open bracket"),
        pytest.param("a: 1\n\tb: 2\n", 2, "not YAML: found character '\\t'", id="tabs as indent"),
        pytest.param("a: *x\n", 1, "not YAML: found undefined alias 'x'", id="an unknown alias"),
        pytest.param("a: 1\nb: &x [*x]\n", 2, "an anchor contains itself", id="a circle"),
        pytest.param("a: 1\nb:\n- <<: 5\n", 3, "not YAML: map merge", id="a merge of a number"),
        pytest.param("a: &x\n  <<: *x\n", 1, "an anchor contains itself", id="a circular merge"),
        pytest.param("? [a]\n: 1\n", 1, "not YAML: a key must be a plain", id="a list as key"),
        pytest.param("~: 1\n", 1, "not YAML: a key must be a plain value", id="null as key"),
        pytest.param("a: 1\nb: .inf\n", 2, "not YAML: unsupported value: .inf", id="infinity"),
        pytest.param("a: 1\nb: \x00\n", 2, "not YAML: special characters", id="a zero byte"),
        pytest.param("{a: 1}", 1, "not JSON: Expecting property name", id="flow YAML at the top"),
        pytest.param('{\n"a": 1,\n}', 3, "not JSON: ", id="a trailing comma"),
        pytest.param('{"a": NaN}', None, "not JSON: NaN is not a number", id="NaN"),
        pytest.param("[" * 10_000, None, "nested too deeply", id="thousands of brackets"),
    ],
)
def test_refuses_a_text_without_structure(text, want_line, want_message):
    with pytest.raises(UnreadableConfigError) as caught:
        document.read(text, ErrorReport("f.yaml"))

    [problem] = caught.value.problems
    assert (problem.path, problem.line) == ("", want_line)
    assert problem.message.startswith(want_message)


def test_refuses_aliases_that_expand_without_end():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 8)]

    with pytest.raises(UnreadableConfigError, match="excessive aliasing"):
        document.read("\n".join(lines), ErrorReport("f.yaml"))


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.text()
        | st.from_regex(r"[-+.0-9_xobeE]{1,6}", fullmatch=True),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    )
)
def test_what_is_written_reads_back_the_same(value):
    assert _plain(document.write([value])) == [value]


@pytest.mark.parametrize("text", ["", "~", "n", "yes", "16", "0o17", "1e3", "-.inf", "1_0", "<<"])
def test_texts_that_look_like_something_else_are_quoted(text):
    assert _plain(document.write({"a": text, text: "b"})) == {"a": text, text: "b"}
