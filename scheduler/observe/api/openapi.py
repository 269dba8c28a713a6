"""The description of `/api/v1` as OpenAPI, made from the structures of its documents.

Texts of fields are the comments in `scheduler/model/rest`, so that they are written once.
"""

import ast
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from scheduler.model.rest import cluster, common, explanations, preemptions, report, shadow, what_if
from scheduler.model.rest.common import Document

__all__ = ["PATH", "description"]

PATH: Final = "/api/v1/openapi.json"
_MODULES: Final = (common, cluster, explanations, preemptions, report, shadow, what_if)
_JSON: Final = "application/json"
_REF: Final = "#/components/schemas/{name}"
#: References to the schemas of structures.
_Schemas: TypeAlias = Mapping[type[Document], Mapping[str, Any]]


class _Parameter(NamedTuple):
    """A query parameter."""

    name: str
    text: str
    type: str = "string"


class _Path(NamedTuple):
    """A document that can be read."""

    path: str
    summary: str
    document: type[Document]
    query: Sequence[_Parameter] = ()
    watched: bool = False


_PAGING: Final = (
    _Parameter("limit", "How many items at most: 1 to 5,000; 500 by default.", "integer"),
    _Parameter("continue", "The value of `continue` of the page before."),
)
_WATCH: Final = (
    _Parameter("watch", "`1` for server-sent events: each has what changed, once a second."),
    _Parameter("revision", "The revision that the reader has; without it all is sent.", "integer"),
)
_PATHS: Final = (
    _Path("/api/v1", "The process that answers", cluster.ApiIndex),
    _Path(
        "/api/v1/summary", "The figures at the head of each view", cluster.Summary, _WATCH,
        watched=True,
    ),
    _Path(
        "/api/v1/nodes", "Nodes and the use of them by priority", cluster.NodesDocument,
        (
            _Parameter("labels", "Keys of labels to show, separated by commas; at most 16."),
            *_PAGING, *_WATCH,
        ),
        watched=True,
    ),
    _Path("/api/v1/nodes/{name}", "One node with its pods", cluster.NodeDocument),
    _Path("/api/v1/labels", "The label keys of nodes", cluster.LabelsDocument),
    _Path(
        "/api/v1/pods", "Pods of the queue in the order of arrival", cluster.PendingPodsDocument,
        (
            _Parameter("phase", "Only pods in this phase."),
            _Parameter("namespace", "Only pods of this namespace."),
            _Parameter("owner", "Only pods of this controller: its name, or `Kind/name`."),
            _Parameter("reason", "Only pods with this reason of the summary."),
            *_PAGING, _WATCH[0],
        ),
        watched=True,
    ),
    _Path(
        "/api/v1/pods/{namespace}/{name}", "Where a pod is, and why; evaluated now",
        explanations.PodExplanation,
        (
            _Parameter("uid", "Only the pod with this uid, of all that have had the name."),
            _Parameter("nodes", "`1` to show the result of each node."),
        ),
    ),
    _Path(
        "/api/v1/find", "Pods by name, uid, owner or labels, and where they are",
        explanations.FoundPodsDocument,
        (
            _Parameter("namespace", "Only pods of this namespace."),
            _Parameter("name", "The name of a pod."),
            _Parameter("uid", "The uid of a pod."),
            _Parameter("owner", "A controller of pods as `KIND/NAME`; also kubectl's short names."),
            _Parameter("labelSelector", "Labels of pods, as kubectl's `-l`."),
        ),
    ),
    _Path(
        "/api/v1/preemptions", "Preemptions, newest first", preemptions.PreemptionsDocument,
        (_Parameter("state", "`active` or `past`; both without it."), *_PAGING, *_WATCH),
        watched=True,
    ),
    _Path(
        "/api/v1/policies", "Policies and what is spent of their budgets",
        preemptions.PoliciesDocument, _WATCH, watched=True,
    ),
    _Path(
        "/api/v1/report", "What preemption cost in a span of time", report.ReportDocument,
        (
            _Parameter("since", "Its beginning, as in RFC 3339; 24 hours before the end without."),
            _Parameter("until", "Its end, as in RFC 3339; now without."),
        ),
    ),
    _Path(
        "/api/v1/shadow", "How another scheduler compares, in shadow mode", shadow.ShadowDocument,
        (_PAGING[0],),
    ),
)  # fmt: skip

#: The answers of all paths to a request that fails.
_ERRORS: Final[Mapping[str, str]] = {
    "400": "A parameter is malformed.",
    "401": "No valid credentials were sent.",
    "403": "The caller lacks the permission that the message names.",
    "404": "There is no such object.",
    "429": "Too many concurrent requests; `Retry-After` gives the delay before the next attempt.",
    "503": "The permissions of the caller cannot be checked now.",
}
#: The answers to a plan that fails.
_PLAN_ERRORS: Final[Mapping[str, str]] = {
    "400": "The body, an object in it or a field of the request is malformed; the message says"
    " which.",
    "401": _ERRORS["401"],
    "403": _ERRORS["403"],
    "408": "The body did not arrive in time.",
    "413": "The body is too large, or there are too many pods.",
    "415": "The content type of the body is not supported.",
    "429": "Another plan of the caller is running, or there are too many concurrent plans or"
    " authorization reviews; `Retry-After` gives the delay before the next attempt.",
    "500": "The plan failed; the log of the scheduler says why.",
    "503": "The scheduler is not ready, the plan takes too long or too much memory, or the"
    " permissions of the caller cannot be checked now.",
}


@functools.cache
def description() -> bytes:
    """Return the description as JSON; made once, which takes some 50 ms."""
    types: list[type[Document]] = [path.document for path in _PATHS]
    types += [what_if.WhatIfRequest, what_if.WhatIfAnswer, what_if.KubernetesObject, common.Status]
    references, schemas = msgspec.json.schema_components(types, ref_template=_REF)
    for name, texts in _texts():
        properties = schemas.get(name, {}).get("properties", {})
        for field in texts.keys() & properties.keys():
            properties[field] = {"description": texts[field], **properties[field]}
    of = dict(zip(types, references, strict=True))
    paths = {path.path: {"get": _get(path, of)} for path in _PATHS}
    paths["/api/v1/plan"] = {"post": _plan(of)}
    paths["/api/v1/recording"] = {"get": _recording(of)}
    whole = {
        "openapi": "3.1.0",
        "info": {
            "title": "preemptive-scheduler",
            "version": "v1",
            "description": "The state and the decisions of the scheduler. " + _about(common),
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "certificate": {"type": "mutualTLS"},
            },
        },
        "security": [{"token": []}, {"certificate": []}],
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def _get(path: _Path, of: _Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {_JSON: {"schema": of[path.document]}}
    if path.watched:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    parameters = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string"}}
        for part in path.path.split("/")
        if part.startswith("{")
    ]
    parameters += map(_queried, path.query)
    more = {"parameters": parameters} if parameters else {}
    return _operation(path.summary, more, content, _ERRORS, of)


def _plan(of: _Schemas) -> dict[str, Any]:
    one = of[what_if.KubernetesObject]
    body = {"schema": {"anyOf": [of[what_if.WhatIfRequest], one, {"type": "array", "items": one}]}}
    request = {
        "required": True,
        "description": "A request, or objects alone: one, an array, or in YAML several"
        " documents. At most 3 MiB.",
        "content": {_JSON: body, "application/yaml": body},
    }
    return _operation(
        "What would happen if objects were applied now",
        {"requestBody": request},
        {_JSON: {"schema": of[what_if.WhatIfAnswer]}},
        _PLAN_ERRORS,
        of,
    )


def _recording(of: _Schemas) -> dict[str, Any]:
    last = _queried(_Parameter("last", "For how long, as `15m`."))
    text = "The recording of the last minutes"
    return _operation(text, {"parameters": [last]}, {"application/octet-stream": {}}, _ERRORS, of)


def _queried(parameter: _Parameter) -> dict[str, Any]:
    schema = {"type": parameter.type}
    return {"name": parameter.name, "in": "query", "description": parameter.text, "schema": schema}


def _operation(
    summary: str,
    takes: Mapping[str, Any],
    content: Mapping[str, Any],
    errors: Mapping[str, str],
    of: _Schemas,
) -> dict[str, Any]:
    """Return what one method of a path takes and answers."""
    refusal = {_JSON: {"schema": of[common.Status]}}
    answers = {code: {"description": text, "content": refusal} for code, text in errors.items()}
    delay = {"description": "In seconds.", "schema": {"type": "integer"}}
    answers["429"] |= {"headers": {"Retry-After": delay}}
    answers = {"200": {"description": summary, "content": content}, **answers}
    return {"summary": summary, **takes, "responses": answers}


def _about(module: ModuleType) -> str:
    """Return the docstring of a module without its first line."""
    text = (module.__doc__ or "").partition("\n\n")[2]
    return " ".join(text.split())


def _texts() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each structure with the comments of its fields, by the name of the field in JSON."""
    for module in _MODULES:
        lines = inspect.getsource(module).splitlines()
        for node in ast.parse("\n".join(lines)).body:
            if isinstance(node, ast.ClassDef):
                structure = getattr(module, node.name)
                names = dict(
                    zip(
                        structure.__struct_fields__,
                        structure.__struct_encode_fields__,
                        strict=True,
                    )
                )
                yield (
                    node.name,
                    {
                        names[field.target.id]: text
                        for field in node.body
                        if isinstance(field, ast.AnnAssign)
                        and isinstance(field.target, ast.Name)
                        and (text := _comment(lines[: field.lineno - 1]))
                    },
                )


def _comment(lines: Sequence[str]) -> str:
    """Return the comment at the end of some lines; empty if there is none."""
    stripped = (line.strip() for line in reversed(lines))
    comment = [*takewhile(lambda line: line.startswith("#:"), stripped)]
    return " ".join(line.removeprefix("#:").strip() for line in reversed(comment))
