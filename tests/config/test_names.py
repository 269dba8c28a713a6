import pytest

from scheduler.config import names


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("cpu", id="a short name"),
        pytest.param("a_b.c-D1", id="all characters that are allowed"),
        pytest.param("example.com/gpu", id="a name with a domain"),
        pytest.param(f"{'a' * 253}/{'b' * 63}", id="the longest name"),
    ],
)
def test_accepts_label_keys(text):
    assert names.label_key(text) == ()


@pytest.mark.parametrize(
    ("text", "want_beginnings"),
    [
        pytest.param("", ["name part must be non-empty", "name part must consist"], id="nothing"),
        pytest.param("a b", ["name part must consist"], id="a space"),
        pytest.param("-a", ["name part must consist"], id="a dash at the start"),
        pytest.param("a\n", ["name part must consist"], id="a line break at the end"),
        pytest.param("é", ["name part must consist"], id="a letter beyond ASCII"),
        pytest.param("a" * 64, ["name part must be no more than 63 bytes"], id="too long"),
        pytest.param("/a", ["prefix part must be non-empty"], id="an empty domain"),
        pytest.param("A.com/a", ["prefix part a lowercase RFC 1123"], id="a domain in capitals"),
        pytest.param(
            f"{'a' * 254}/a", ["prefix part must be no more than 253 bytes"], id="a long domain"
        ),
        pytest.param("a/b/c", ["a valid label key must consist"], id="two slashes"),
    ],
)
def test_says_what_keeps_a_text_from_being_a_label_key(text, want_beginnings):
    found = names.label_key(text)

    assert len(found) == len(want_beginnings)
    assert all(each.startswith(want) for each, want in zip(found, want_beginnings, strict=True))


@pytest.mark.parametrize(
    ("text", "want_beginnings"),
    [
        pytest.param("", [], id="nothing is a value"),
        pytest.param("a_b.c-D1", [], id="all characters that are allowed"),
        pytest.param("a b", ["a valid label must be an empty string or consist of"], id="a space"),
        pytest.param("a" * 64, ["must be no more than 63 bytes"], id="too long"),
    ],
)
def test_says_what_keeps_a_text_from_being_a_label_value(text, want_beginnings):
    found = names.label_value(text)

    assert len(found) == len(want_beginnings)
    assert all(each.startswith(want) for each, want in zip(found, want_beginnings, strict=True))


_NOT_EXTENDED = ("is an invalid extended resource name",)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("example.com/gpu", (), id="a name of a vendor"),
        pytest.param("cpu", _NOT_EXTENDED, id="a name without domain is native"),
        pytest.param("kubernetes.io/a", _NOT_EXTENDED, id="the domain of Kubernetes is native"),
        pytest.param("a.kubernetes.io/a", _NOT_EXTENDED, id="so are the domains below it"),
        pytest.param("requests.a/b", _NOT_EXTENDED, id="the prefix of quotas is taken"),
        pytest.param(f"{'a' * 244}/b", (), id="the longest domain that fits into a quota"),
        pytest.param(f"{'a' * 245}/b", _NOT_EXTENDED, id="a domain that is too long for a quota"),
    ],
)
def test_says_what_keeps_a_text_from_being_an_extended_resource(text, want):
    assert names.extended_resource(text) == want


def test_an_extended_resource_must_be_a_label_key_first():
    assert names.extended_resource("a b") == names.label_key("a b")
