"""The description of `/api/v1` as OpenAPI, made from the structures of its documents.

Texts of fields are the comments in `scheduler/model/rest`, so that they are written once.
"""

import ast
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.model.rest import cluster, common, explanations, plans, preemptions
from scheduler.model.rest.common import Document

__all__ = ["PATH", "description"]

PATH: Final = "/api/v1/openapi.json"
_MODULES: Final = (common, cluster, explanations, preemptions, plans)
_JSON: Final = "application/json"
_REF: Final = "#/components/schemas/{name}"


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
        "/api/v1/pods/{namespace}/{name}", "Why a pod waits, evaluated now",
        explanations.PodExplanation,
        (_Parameter("nodes", "`1` to show the result of each node."),),
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
_KUBERNETES_OBJECT: Final[Mapping[str, Any]] = {
    "title": "KubernetesObject",
    "description": "An object as it would be applied, or a list of objects.",
    "type": "object",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    },
    "required": ["apiVersion", "kind"],
}
_STATUS: Final[Mapping[str, Any]] = {
    "title": "Status",
    "description": "An error, as the API server of Kubernetes has it.",
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["Status"]},
        "apiVersion": {"type": "string", "enum": ["v1"]},
        "metadata": {"type": "object"},
        "status": {"type": "string", "enum": ["Failure"]},
        "message": {"type": "string"},
        "reason": {"type": "string"},
        "code": {"type": "integer"},
    },
    "required": ["kind", "apiVersion", "status", "message", "reason", "code"],
}


@functools.cache
def description() -> bytes:
    """Return the description as JSON; made once, which takes some 50 ms."""
    documents = {path.document: None for path in _PATHS}
    types = (*documents, plans.PlanRequest, plans.PlanAnswer)
    references, components = msgspec.json.schema_components(types, ref_template=_REF)
    for name, fields in _texts().items():
        for field, text in fields.items():
            properties = components.get(name, {}).get("properties", {})
            if field in properties:
                properties[field] = _with_text(properties[field], text)
    schemas = {"Status": _STATUS, "KubernetesObject": _KUBERNETES_OBJECT, **components}
    of = dict(zip(types, references, strict=True))
    paths = {path.path: {"get": _get(path, of[path.document])} for path in _PATHS}
    paths["/api/v1/plan"] = {"post": _plan(of[plans.PlanRequest], of[plans.PlanAnswer])}
    paths["/api/v1/recording"] = {"get": _recording()}
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


def _get(path: _Path, schema: Mapping[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {_JSON: {"schema": schema}}
    if path.watched:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    names = [part[1:-1] for part in path.path.split("/") if part.startswith("{")]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in names
    ]
    parameters += [
        {
            "name": each.name,
            "in": "query",
            "description": each.text,
            "schema": {"type": each.type},
        }
        for each in path.query
    ]
    return {
        "summary": path.summary,
        **({"parameters": parameters} if parameters else {}),
        "responses": {
            "200": {"description": path.summary, "content": content},
            **_described(_ERRORS),
        },
    }


def _plan(request: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    text = "What would happen if objects were applied now"
    one = {"$ref": _REF.format(name="KubernetesObject")}
    body = {"schema": {"anyOf": [request, one, {"type": "array", "items": one}]}}
    return {
        "summary": text,
        "requestBody": {
            "required": True,
            "description": "A request, or objects alone: one, an array, or in YAML several"
            " documents. At most 3 MiB.",
            "content": {_JSON: body, "application/yaml": body},
        },
        "responses": {
            "200": {"description": text, "content": {_JSON: {"schema": answer}}},
            **_described(_PLAN_ERRORS),
        },
    }


def _recording() -> dict[str, Any]:
    text = "The recording of the last minutes"
    last = {
        "name": "last",
        "in": "query",
        "description": "For how long, as `15m`.",
        "schema": {"type": "string"},
    }
    return {
        "summary": text,
        "parameters": [last],
        "responses": {
            "200": {"description": text, "content": {"application/octet-stream": {}}},
            **_described(_ERRORS),
        },
    }


def _described(errors: Mapping[str, str]) -> dict[str, Any]:
    """Return the answers to requests that fail, by code."""
    schema = {"$ref": _REF.format(name="Status")}
    found: dict[str, Any] = {
        code: {"description": text, "content": {_JSON: {"schema": schema}}}
        for code, text in errors.items()
    }
    found["429"]["headers"] = {
        "Retry-After": {"description": "In seconds.", "schema": {"type": "integer"}}
    }
    return found


def _with_text(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"description": text, **schema}


def _about(module: ModuleType) -> str:
    """Return the docstring of a module without its first line."""
    text = (module.__doc__ or "").partition("\n\n")[2]
    return " ".join(text.split())


def _texts() -> dict[str, dict[str, str]]:
    """Return the comments of fields, by structure and by the name of the field in JSON."""
    texts: dict[str, dict[str, str]] = {}
    for module in _MODULES:
        source = inspect.getsource(module)
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                names = getattr(module, node.name)
                texts[node.name] = dict(_comments(node, source.splitlines(), names))
    return texts


def _comments(
    node: ast.ClassDef, lines: Sequence[str], structure: type[Document]
) -> Iterator[tuple[str, str]]:
    encoded = dict(
        zip(structure.__struct_fields__, structure.__struct_encode_fields__, strict=True)
    )
    for field in node.body:
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        found: list[str] = []
        for line in reversed(lines[: field.lineno - 1]):
            if not line.strip().startswith("#:"):
                break
            found.insert(0, line.strip().removeprefix("#:").strip())
        if found:
            yield encoded[field.target.id], " ".join(found)
