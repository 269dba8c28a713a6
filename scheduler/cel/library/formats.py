"""Named formats: `format.dns1123Label().validate(text)`.

Source: apiserver v0.36.3 cel/library/format.go; apimachinery v0.36.3 util/validation,
api/validate/content; kube-openapi validation/strfmt.
"""

import math
import re
from collections.abc import Callable
from datetime import date
from typing import Final

from scheduler.cel.library.overloads import Overload, function, method, size_of
from scheduler.cel.library.urls import UrlError, check_request_uri
from scheduler.cel.values import NONE, Opaque, Optional, Value

__all__ = ["OVERLOADS"]

_Check = Callable[[str], list[str]]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_END: Final = "and must start and end with an alphanumeric character"
_LABEL_PROBLEM: Final = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_END}"
)
_SUBDOMAIN_PROBLEM: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    f"'.', {_END}"
)
_LABEL_1035_PROBLEM: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character"
)
_KEY_PROBLEM: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_END}"
_VALUE_PROBLEM: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    f"'.', {_END}"
)
_UUID: Final = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_BASE64: Final = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII
)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME: Final = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII
)


class NamedFormat(Opaque):
    """A format, and what it says of texts."""

    __slots__ = ("check", "regex_size", "title")
    name = "kubernetes.NamedFormat"

    def __init__(self, title: str, check: _Check, regex_size: int) -> None:
        self.title = title
        self.check = check
        self.regex_size = regex_size

    def same(self, other: Opaque) -> bool | None:
        """Return whether two formats are the same one."""
        assert isinstance(other, NamedFormat)
        return self.title == other.title


def _too_long(text: str, most: int) -> list[str]:
    too_long = len(text.encode("utf-8", "replace")) > most
    return [f"must be no more than {most} characters"] if too_long else []


def _regex_problem(problem: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{each}', " for each in examples)
    return f"{problem} (e.g. {shown}regex used for validation is '{pattern}')"


def _label(text: str) -> list[str]:
    problems = _too_long(text, 63)
    if re.fullmatch(_LABEL, text, re.ASCII) is not None:
        return problems
    if re.fullmatch(_SUBDOMAIN, text, re.ASCII) is not None:
        return [*problems, "must not contain dots"]
    return [*problems, _regex_problem(_LABEL_PROBLEM, _LABEL, "my-name", "123-abc")]


def _subdomain(text: str) -> list[str]:
    problems = _too_long(text, 253)
    if re.fullmatch(_SUBDOMAIN, text, re.ASCII) is None:
        problems.append(_regex_problem(_SUBDOMAIN_PROBLEM, _SUBDOMAIN, "example.com"))
    return problems


def _label_1035(text: str) -> list[str]:
    problems = _too_long(text, 63)
    if re.fullmatch(_LABEL_1035, text, re.ASCII) is None:
        problems.append(_regex_problem(_LABEL_1035_PROBLEM, _LABEL_1035, "my-name", "abc-123"))
    return problems


def _as_prefix(check: _Check) -> _Check:
    """Return the check of a name that something is appended to: it may end with a dash."""

    def checked(text: str) -> list[str]:
        return check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)

    return checked


def _qualified_name(text: str) -> list[str]:
    problem = _regex_problem(_KEY_PROBLEM, _KEY, "MyName", "my.name", "123-abc")
    parts = text.split("/")
    if len(parts) > 2:
        tail = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {problem} {tail}"]
    problems = []
    if len(parts) == 2 and not parts[0]:
        problems.append("prefix part must be non-empty")
    elif len(parts) == 2:
        problems.extend(f"prefix part {each}" for each in _subdomain(parts[0]))
    own = parts[-1]
    if not own:
        problems.append("name part must be non-empty")
    problems.extend(f"name part {each}" for each in _too_long(own, 63))
    if re.fullmatch(_KEY, own, re.ASCII) is None:
        problems.append(f"name part {problem}")
    return problems


def _label_value(text: str) -> list[str]:
    problems = _too_long(text, 63)
    if re.fullmatch(_VALUE, text, re.ASCII) is None:
        problems.append(_regex_problem(_VALUE_PROBLEM, _VALUE, "MyValue", "my_value", "12345"))
    return problems


def _uri(text: str) -> list[str]:
    try:
        check_request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


def _is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    # Go has a year 0, which is a leap year.
    year = int(text[:4]) or 4
    try:
        date(year, int(text[5:7]), int(text[8:]))
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    match = _TIME.fullmatch(parts[1])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _test(holds: Callable[[str], bool], problem: str) -> _Check:
    return lambda text: [] if holds(text) else [problem]


_FORMATS: Final = {
    "dns1123Label": NamedFormat("DNS1123Label", _label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _label_1035, 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _as_prefix(_label), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _as_prefix(_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _as_prefix(_label_1035), 30),
    "labelValue": NamedFormat("LabelValue", _label_value, 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat(
        "uuid",
        _test(lambda text: _UUID.fullmatch(text) is not None, "does not match the UUID format"),
        70,
    ),
    "byte": NamedFormat(
        "byte", _test(lambda text: _BASE64.fullmatch(text) is not None, "invalid base64"), 84
    ),
    "date": NamedFormat("date", _test(_is_date, "invalid date"), 71),
    "datetime": NamedFormat("datetime", _test(_is_date_time, "invalid datetime"), 71),
}


def _named(name: str) -> Optional:
    found = _FORMATS.get(name)
    return NONE if found is None else Optional(found)


def _validate(named: NamedFormat, text: str) -> Optional:
    problems = named.check(text)
    return Optional(problems) if problems else NONE


def _validate_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    named, text = arguments
    if not isinstance(named, NamedFormat):
        return 1
    return math.ceil((1.0 + size_of(text)) * 0.1) * math.ceil(named.regex_size * 0.25)


def _constant(name: str) -> Overload:
    return function(f"format.{name}", "-> format", lambda: _FORMATS[name])


OVERLOADS: Final = (
    method("validate", "format, string -> optional(list(string))", _validate, _validate_cost),
    function("format.named", "string -> optional(format)", _named),
    *map(_constant, _FORMATS),
)
