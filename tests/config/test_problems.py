import pickle

import pytest

from scheduler.config.field_errors import (
    ConfigError,
    ErrorReport,
    Problem,
    UnreadableConfigError,
)


def _found(report: ErrorReport) -> list[tuple[str, int | None, str]]:
    with pytest.raises(ConfigError) as caught:
        report.finish()
    return [(each.path, each.line, each.message) for each in caught.value.problems]


def test_problems_come_in_file_order_with_the_line_of_the_nearest_parent():
    report = ErrorReport("f.yaml")
    report.locate("", 1)
    report.locate("profiles", 4)
    report.locate("profiles[0].schedulerName", 6)

    report.required("profiles[0].schedulerName")
    report.invalid("profiles[1].percentageOfNodesToScore", 200, "too many")
    report.invalid("parallelism", 0, "too few")

    assert _found(report) == [
        ("parallelism", 1, "Invalid value: 0: too few"),
        ("profiles[1].percentageOfNodesToScore", 4, "Invalid value: 200: too many"),
        ("profiles[0].schedulerName", 6, "Required value"),
    ]


def test_nothing_more_is_said_about_a_broken_field_or_what_is_in_it():
    report = ErrorReport("f.yaml")

    report.broken("a[0]", "no object")
    report.required("a[0]")
    report.required("a[0].name")
    report.required("a[1].name")

    assert [path for path, _, _ in _found(report)] == ["a[0]", "a[1].name"]


@pytest.mark.parametrize(
    ("path", "want_whole"),
    [
        pytest.param("a", False, id="a parent of a broken field is not whole"),
        pytest.param("a.b", False, id="the broken field is not whole"),
        pytest.param("a.b.c", False, id="nor is what is in it"),
        pytest.param("a.bc", True, id="a sibling with a similar name is"),
        pytest.param("b", True, id="and so is anything else"),
    ],
)
def test_knows_which_fields_are_whole(path, want_whole):
    report = ErrorReport("f.yaml")

    report.broken("a.b", "no object")

    assert report.is_whole(path) is want_whole


def test_an_error_prints_one_line_per_problem():
    error = ConfigError(
        "f.yaml",
        (Problem("", 3, "not YAML"), Problem("a.b", 4, "Required value"), Problem("c", None, "no")),
    )

    assert str(error).splitlines() == [
        "f.yaml:3: not YAML",
        "f.yaml:4: a.b: Required value",
        "f.yaml: c: no",
    ]


@pytest.mark.parametrize("kind", [ConfigError, UnreadableConfigError])
def test_an_error_survives_pickling(kind):
    error = kind("f.yaml", (Problem("a", 1, "no"),))

    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), copy.source, copy.problems) == (kind, error.source, error.problems)
