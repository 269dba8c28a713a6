"""Semantic versions.

Source: blang/semver v4.0.0 Parse and Compare, apiserver v0.36.3 cel/library/semverlib.go.
"""

import re
from typing import Final

from scheduler.cel.errors import CelFailure
from scheduler.cel.library.overloads import Implementation, function, method, traversal
from scheduler.cel.values import INT_MAX, UINT_MAX, Opaque, go_quote

__all__ = ["OVERLOADS", "Semver", "parse_semver"]

_NUMBER: Final = re.compile(r"[0-9]*", re.ASCII)
_LABEL: Final = re.compile(r"[A-Za-z0-9-]*", re.ASCII)


class Semver(Opaque):
    """A version; the build metadata is not compared.

    Attributes:
        numbers: major, minor, patch.
        order: what is compared: a version with a pre-release comes before the one without.
    """

    __slots__ = ("numbers", "order")
    name = "kubernetes.Semver"

    def __init__(self, numbers: tuple[int, int, int], labels: tuple[int | str, ...]) -> None:
        self.numbers = numbers
        ranks = tuple((1, 0, each) if isinstance(each, str) else (0, each, "") for each in labels)
        self.order = (numbers, 0 if labels else 1, ranks)

    def same(self, other: Opaque) -> bool | None:
        """Return whether two versions are equal."""
        assert isinstance(other, Semver)
        return self.order == other.order


def parse_semver(text: str) -> Semver:
    """Return the version of a text.

    Raises:
        Failure: it is not one, with the words of upstream.
    """
    if not text:
        raise CelFailure("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelFailure("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    patch, dash, labels = rest.partition("-")
    numbers = (
        _number(parts[0], "major", "Major"),
        _number(parts[1], "minor", "Minor"),
        _number(patch, "patch", "Patch"),
    )
    release = tuple(_label(each) for each in labels.split(".")) if dash else ()
    if plus:
        _check_build(build)
    return Semver(numbers, release)


def _number(text: str, name: str, title: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise CelFailure(f"Invalid character(s) found in {name} number {go_quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise CelFailure(f"{title} number must not contain leading zeroes {go_quote(text)}")
    return _uint64(text)


def _uint64(text: str) -> int:
    if not text:
        raise CelFailure('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > UINT_MAX:
        raise CelFailure(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _label(text: str) -> int | str:
    if not text:
        raise CelFailure("Prerelease is empty")
    if _NUMBER.fullmatch(text) is not None:
        if len(text) > 1 and text[0] == "0":
            message = "Numeric PreRelease version must not contain leading zeroes"
            raise CelFailure(f"{message} {go_quote(text)}")
        return _uint64(text)
    if _LABEL.fullmatch(text) is None:
        raise CelFailure(f"Invalid character(s) found in prerelease {go_quote(text)}")
    return text


def _check_build(build: str) -> None:
    for part in build.split("."):
        if not part:
            raise CelFailure("Build meta data is empty")
        if _LABEL.fullmatch(part) is None:
            raise CelFailure(f"Invalid character(s) found in build meta data {go_quote(part)}")


def _normalized(text: str, normalize: bool = False) -> Semver:
    """Return a version; normalizing accepts a "v", fewer numbers and leading zeros."""
    return parse_semver(_normal_text(text) if normalize else text)


def _normal_text(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    parts = [_without_zeros(each) for each in parts]
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise CelFailure("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    part = part.lstrip("0")
    return part if part and part[0] in "0123456789" else "0" + part


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _normalized(text, normalize)
    except CelFailure:
        return False
    return True


def _component(index: int) -> Implementation:
    def read(value: Semver) -> int:
        number = value.numbers[index]
        return number if number <= INT_MAX else number - UINT_MAX - 1

    return read


def _compare(left: Semver, right: Semver) -> int:
    return (left.order > right.order) - (left.order < right.order)


OVERLOADS: Final = (
    function("semver", "string -> semver", parse_semver, traversal()),
    function("semver", "string, bool -> semver", _normalized, traversal()),
    function("isSemver", "string -> bool", _is_semver, traversal()),
    function("isSemver", "string, bool -> bool", _is_semver, traversal()),
    method("major", "semver -> int", _component(0)),
    method("minor", "semver -> int", _component(1)),
    method("patch", "semver -> int", _component(2)),
    method("isGreaterThan", "semver, semver -> bool", lambda a, b: a.order > b.order),
    method("isLessThan", "semver, semver -> bool", lambda a, b: a.order < b.order),
    method("compareTo", "semver, semver -> int", _compare),
)
