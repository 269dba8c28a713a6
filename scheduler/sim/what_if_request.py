"""Reads the body of a what-if request: hostile input until the end of this module.

A body is a `WhatIfRequest`, or Kubernetes objects alone, as JSON or YAML.
"""

from typing import Any, Final

import msgspec

from scheduler.model.rest.what_if import WhatIfRequest
from scheduler.sim.manifests import ManifestError, type_of
from scheduler.sim.yaml_documents import BadYamlError, TooManyValuesError, documents

__all__ = ["JSON", "MAX_BYTES", "YAML", "TooLargeError", "read"]

JSON: Final = "application/json"
YAML: Final = "application/yaml"
#: The largest body.
MAX_BYTES: Final = 3 << 20
#: The most values of all objects.
MAX_VALUES: Final = 1_000_000


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
        return _request([each for _, each in documents(body.decode("utf-8"), MAX_VALUES)])
    except UnicodeDecodeError as error:
        raise ManifestError("the body is not UTF-8") from error
    except TooManyValuesError as error:
        raise TooLargeError(str(error)) from error
    except BadYamlError as error:
        raise ManifestError(f"line {error.line}: {error}") from error
    except RecursionError as error:
        raise ManifestError("nested too deeply") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise ManifestError(str(error).partition("\n")[0] or type(error).__name__) from error


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
