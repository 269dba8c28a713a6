"""Reads the body of a what-if request: hostile input until the end of this module.

A body is a `WhatIfRequest`, or Kubernetes objects alone, as JSON or YAML. An alias of YAML counts
as often as it is used, so a short text cannot stand for a large one.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from scheduler.model.rest.what_if import WhatIfRequest
from scheduler.sim.manifests import ManifestError, type_of

__all__ = ["JSON", "MAX_BYTES", "YAML", "TooLargeError", "read"]

JSON: Final = "application/json"
YAML: Final = "application/yaml"
#: The largest body.
MAX_BYTES: Final = 3 << 20
#: The most values of all objects, and how deep they may be nested.
MAX_VALUES: Final = 1_000_000
MAX_DEPTH: Final = 100
#: The most characters of a number.
MAX_DIGITS: Final = 1000
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class TooLargeError(ManifestError):
    """The body, or what it stands for, is too large."""


def read(body: bytes, content_type: str) -> WhatIfRequest:
    """Return what a body asks.

    Args:
        body: The body.
        content_type: `JSON` or `YAML`.

    Raises:
        ManifestError: The body is malformed; the message is one line.
        TooLargeError: It is too large.
    """
    if len(body) > MAX_BYTES:
        raise TooLargeError(f"the body is larger than {MAX_BYTES >> 20} MiB")
    try:
        if content_type == JSON:
            return _request([msgspec.json.decode(body)])
        return _request(list(_documents(body.decode("utf-8"))))
    except UnicodeDecodeError as error:
        raise ManifestError("the body is not UTF-8") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise ManifestError(f"line {line}: {error.problem or error.context}") from error
    except RecursionError as error:
        raise ManifestError("nested too deeply") from error
    except (msgspec.DecodeError, yaml.YAMLError, ValueError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ManifestError(text) from error


def _request(documents: list[Any]) -> WhatIfRequest:
    """Return the request of documents: one request, or objects."""
    found = [document for document in documents if document is not None]
    if len(found) == 1 and isinstance(found[0], list):
        found = found[0]
    elif len(found) == 1 and isinstance(found[0], dict) and "kind" not in found[0]:
        return msgspec.convert(_plain(found[0]), WhatIfRequest)
    for index, document in enumerate(found):
        if not isinstance(document, dict):
            text = f"{type_of(document)} is not a Kubernetes object"
            raise ManifestError(f"objects[{index}]: {text}")
    return WhatIfRequest(objects=tuple(found))


def _plain(document: dict[Any, Any]) -> dict[str, Any]:
    known = {field.encode_name for field in msgspec.structs.fields(WhatIfRequest)}
    if unknown := document.keys() - known:
        name = sorted(map(str, unknown))[0]
        raise ManifestError(f"neither a Kubernetes object (no kind) nor a request: {name!r}")
    return document


def _documents(text: str) -> Iterator[Any]:
    """Yield the documents of YAML."""
    _check_depth(text)
    loader = _Loader(text)
    values = 0
    try:
        while loader.check_data():
            node = loader.get_node()
            if node is None:
                continue
            values += _size(node, {})
            if values > MAX_VALUES:
                raise TooLargeError(f"more than {MAX_VALUES} values")
            yield loader.construct_document(node)
    finally:
        loader.dispose()


def _check_depth(text: str) -> None:
    """Refuse deep nesting before anything is composed, which is done by recursion.

    Raises:
        ManifestError: The text is nested too deeply.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise ManifestError("nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many values a node stands for; aliases count each time.

    Args:
        node: The node.
        known: The sizes of the nodes that were seen, by identity; 0 while a node is being counted.

    Raises:
        ManifestError: The node contains itself, or is nested too deeply by aliases.
    """
    size = known.get(id(node))
    if size is not None:
        if size == 0:
            raise ManifestError(f"line {node.start_mark.line + 1}: a value contains itself")
        return size
    if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and len(node.value) > MAX_DIGITS:
        # Python takes quadratic time for numbers such as 1:59:59.
        raise ManifestError(f"line {node.start_mark.line + 1}: a number is too long")
    known[id(node)] = 0
    size = 1
    if isinstance(node, yaml.MappingNode):
        size += sum(_size(key, known) + _size(value, known) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        size += sum(_size(item, known) for item in node.value)
    known[id(node)] = size
    return size
