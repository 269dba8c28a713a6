"""Which release decides for which API server."""

import dataclasses
from pathlib import Path

import pytest

from scheduler.model.releases import REFERENCES, V1_36, V1_37, of_server

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("major", "minor", "wanted"),
    [
        pytest.param("1", "36", (V1_36, True), id="the oldest release"),
        pytest.param("1", "37", (V1_37, True), id="the newest release"),
        pytest.param("1", "36+", (V1_36, True), id="a provider's suffix"),
        pytest.param("1", "35", (V1_36, False), id="an older server"),
        pytest.param("0", "99", (V1_36, False), id="a much older server"),
        pytest.param("1", "38", (V1_37, False), id="a newer server"),
        pytest.param("2", "0", (V1_37, False), id="another major version"),
    ],
)
def test_an_api_server_gets_the_release_of_its_minor(major: str, minor: str, wanted: object):
    assert of_server(major, minor) == wanted


@pytest.mark.parametrize(
    ("major", "minor"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("1", "", id="no minor"),
        pytest.param("one", "36", id="words"),
        pytest.param("1", "٣٦", id="other digits"),
        pytest.param("1", "3" * 5000, id="a very long number"),
        pytest.param("-1", "36", id="a negative number"),
    ],
)
def test_other_texts_are_no_version(major: str, minor: str):
    assert of_server(major, minor) is None


def test_every_difference_is_documented():
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")

    for field in dataclasses.fields(V1_36)[2:]:
        assert f"`{field.name}`" in page, f"docs/compatibility.md does not list {field.name}"


def test_every_rule_in_which_releases_can_differ_differs():
    for field in dataclasses.fields(V1_36):
        values = [getattr(reference, field.name) for reference in REFERENCES.values()]

        assert len(set(values)) > 1, f"{field.name} is the same in all releases: delete it"
