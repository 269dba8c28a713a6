"""Reads the documents of YAML that nobody has checked.

An alias counts as often as it is used, so a short text cannot stand for a large one. Nesting is
limited before anything is composed, which is done by recursion. A key that an object has twice is
an error, as for an API server with `fieldValidation=Strict`.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import yaml

__all__ = ["BadYamlError", "TooManyValuesError", "documents"]

MAX_DEPTH: Final = 100
#: The most characters of a number.
MAX_DIGITS: Final = 1000
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BadYamlError(Exception):
    """The text is not YAML that is read; the message is one line.

    Attributes:
        line: Where, from 1.
    """

    def __init__(self, line: int, problem: object) -> None:
        super().__init__(" ".join(str(problem).split()))
        self.line = line


class TooManyValuesError(BadYamlError):
    """The text stands for too many values."""


def documents(text: str, max_values: int) -> Iterator[tuple[int, Any]]:
    """Yield the documents of a text, each with its first line.

    Args:
        text: The text.
        max_values: How many values all documents may have.

    Raises:
        BadYamlError: It is not YAML, or has something that is not read.
        TooManyValuesError: It has more values.
    """
    try:
        yield from _documents(text, max_values)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise BadYamlError(line, error.problem or error.context) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadYamlError(1, str(error) or type(error).__name__) from error


def _documents(text: str, max_values: int) -> Iterator[tuple[int, Any]]:
    _check_depth(text)
    loader = _Loader(text)
    values = 0
    try:
        while loader.check_data():
            node = loader.get_node()
            if node is None:
                continue
            line = node.start_mark.line + 1
            values += _size(node, {})
            if values > max_values:
                raise TooManyValuesError(line, f"more than {max_values} values")
            yield line, loader.construct_document(node)
    finally:
        loader.dispose()


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                mark = event.start_mark
                line = mark.line + 1 if mark is not None else 1
                raise BadYamlError(line, "nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many values a node stands for; aliases count each time.

    Args:
        node: The node.
        known: The sizes of the nodes that were seen, by identity; 0 while a node is being counted.
    """
    line = node.start_mark.line + 1
    size = known.get(id(node))
    if size is not None:
        if size == 0:
            raise BadYamlError(line, "a value contains itself")
        return size
    if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBERS and len(node.value) > MAX_DIGITS:
        # Python takes quadratic time for numbers such as 1:59:59.
        raise BadYamlError(line, "a number is too long")
    known[id(node)] = 0
    size = 1
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) < len(keys):
            ((twice, _),) = Counter(keys).most_common(1)
            raise BadYamlError(line, f"an object has the key {twice[:80]!r} twice")
        size += sum(_size(key, known) + _size(value, known) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        size += sum(_size(item, known) for item in node.value)
    known[id(node)] = size
    return size
