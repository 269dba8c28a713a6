"""Checks objects that are to be applied as an API server does with `fieldValidation=Strict`.

Rules read some fields of an object and skip all others, so a field with a typing error would be
planned as if it were not there. `object_fields.txt` has all fields of the kinds that plans read.
Fields that an API server requires are checked as well, but for those of a status, which it drops.
Values are not checked here.

What an API server has returned is not checked: a newer one may have fields that the table lacks.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import islice
from typing import Any, Final

from scheduler.config.field_errors import child, suggestion
from scheduler.sim.manifests import ManifestError, type_of

__all__ = ["check", "is_stored", "problems"]

#: How many problems of all objects an error names.
_SHOWN: Final = 10
_SCALARS: Final[Mapping[str, tuple[str, tuple[type, ...]]]] = {
    "s": ("a string", (str,)),
    "i": ("an integer", (int,)),
    "n": ("a number", (int, float)),
    "b": ("true or false", (bool,)),
    "q": ("a quantity", (str, int, float)),
    "x": ("an integer or a string", (int, str)),
}
#: Values with which the API server counts a required field as missing.
_ABSENT: Final[tuple[Any, ...]] = (None, "", [])


@dataclass(slots=True)
class _Type:
    """The fields of a type of object."""

    #: The types of the fields, as the table writes them.
    fields: dict[str, str] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Table:
    """The types by name, and the name of the type of each version and kind."""

    types: dict[str, _Type] = field(default_factory=dict)
    kinds: dict[tuple[str, str], str] = field(default_factory=dict)


@cache
def _table() -> _Table:
    table = _Table()
    text = resources.files("scheduler.sim").joinpath("object_fields.txt").read_text("utf-8")
    for line in text.splitlines():
        name, *words = line.split()
        if name == "=":
            version, kind, type_ = words
            table.kinds[version, kind] = type_
        elif name != "#":
            found = table.types[name] = _Type()
            for word in words:
                marked, _, kind = word.partition(":")
                key = marked.removesuffix("!")
                found.fields[key] = kind
                if key != marked:
                    found.required.append(key)
    return table


def is_stored(document: Mapping[str, Any]) -> bool:
    """Return whether an API server has returned an object, so that it is not checked again."""
    metadata = document.get("metadata")
    return isinstance(metadata, dict) and any(map(metadata.get, ("uid", "resourceVersion")))


def check(documents: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Check objects, each with its place.

    Raises:
        ManifestError: Some have unknown fields, lack some, or have values of another type.
    """
    found = (
        f"{where}: {document['kind']}: {problem}"
        for where, document in documents
        if not is_stored(document)
        for problem in problems(document)
    )
    shown = list(islice(found, _SHOWN + 1))
    if shown:
        more = ["and more"] if len(shown) > _SHOWN else []
        raise ManifestError("; ".join([*shown[:_SHOWN], *more]))


def problems(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the fields of an object; nothing of a kind without a table."""
    type_ = _table().kinds.get((document.get("apiVersion", ""), document.get("kind", "")))
    if type_ is not None:
        yield from _of_object(document, type_, "", is_complete=True)


def _of_value(value: Any, type_: str, path: str, *, is_complete: bool) -> Iterator[str]:
    """Yield the problems of a value; a missing field is none if it need not be complete."""
    if value is None or type_ == "*":
        return
    if type_ in _SCALARS:
        word, types = _SCALARS[type_]
        # YAML has read a time stamp as one, and true is an integer in Python only.
        # kubectl sends 10.0 of a file as 10.
        whole = type_ == "i" and isinstance(value, float) and value.is_integer()
        found = str if hasattr(value, "isoformat") else type(value)
        if found not in types and not whole:
            yield f"{path}: must be {word}, not {type_of(value)}"
    elif type_[0] == "[":
        yield from _of_list(value, type_[1:], path, is_complete=is_complete)
    elif not isinstance(value, dict):
        yield f"{path}: must be an object, not {type_of(value)}"
    elif type_[0] == "{":
        for key, item in value.items():
            yield from _of_value(item, type_[1:], child(path, str(key)), is_complete=is_complete)
    else:
        yield from _of_object(value, type_, path, is_complete=is_complete)


def _of_list(value: Any, type_: str, path: str, *, is_complete: bool) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: must be a list, not {type_of(value)}"
        return
    for index, item in enumerate(value):
        yield from _of_value(item, type_, f"{path}[{index}]", is_complete=is_complete)


def _of_object(
    value: Mapping[str, Any], type_: str, path: str, *, is_complete: bool
) -> Iterator[str]:
    known = _table().types[type_]
    for key, item in value.items():
        kind = known.fields.get(key)
        if kind is None:
            near = suggestion(str(key), known.fields)
            yield f"{child(path, str(key))}: unknown field{near}"
        else:
            inner = is_complete and (path, key) != ("", "status")
            yield from _of_value(item, kind, child(path, key), is_complete=inner)
    if is_complete:
        for key in known.required:
            if value.get(key) in _ABSENT:
                yield f"{child(path, key)} is missing"
