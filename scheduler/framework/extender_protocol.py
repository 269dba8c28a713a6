"""The wire format between a scheduler and its extenders: requests and responses as JSON.

An extender is called by POST to its URL. Field names are those of Go structs without tags, and are
matched case-insensitively. Pods and nodes are sent as the API server has them, so they pass through
here as bytes.

Source: kube-scheduler v1.36.3 extender.go, k8s.io/kube-scheduler/extender/v1 types.go. Differs: a
node in the response that was not in the request is an error, also when whole nodes are sent.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from scheduler.config.settings import Extender
from scheduler.model.api.objects import Pod
from scheduler.model.effects import Bind, Question, Verb
from scheduler.model.extender_answers import (
    ExtenderAnswer,
    ExtenderVictims,
    Filtered,
    NoAnswer,
    Scored,
    VictimUids,
)
from scheduler.queue.scheduling_queue import EXTENDER

__all__ = [
    "EXTENDER",
    "MAX_PRIORITY",
    "ProtocolError",
    "about_nodes",
    "about_victims",
    "binder",
    "binding",
    "interested",
    "read",
    "read_binding",
    "verb",
    "whole_nodes",
]

#: The highest score that an extender gives.
MAX_PRIORITY: Final = 10

_INT64: Final = 2**63

T = TypeVar("T")


class ProtocolError(ValueError):
    """A response that is malformed."""


def interested(extender: Extender, pod: Pod) -> bool:
    """Return whether an extender is called for a pod.

    Source: kube-scheduler v1.36.3 extender.go IsInterested: only the resources of containers count,
    not those of the pod level.
    """
    if not extender.managed_resources:
        return True
    managed = {resource.name for resource in extender.managed_resources}
    return any(
        not managed.isdisjoint(amounts)
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for amounts in (container.resources.requests, container.resources.limits)
    )


def binder(extenders: Iterable[Extender], pod: Pod) -> int | None:
    """Return the index of the extender that binds a pod; `None` when none does."""
    for index, extender in enumerate(extenders):
        if extender.bind_verb and interested(extender, pod):
            return index
    return None


def verb(extender: Extender, asked: Verb) -> str:
    """Return the path of a request below the extender's URL; empty if it does not serve it."""
    match asked:
        case Verb.FILTER:
            return extender.filter_verb
        case Verb.PRIORITIZE:
            return extender.prioritize_verb
        case Verb.PREEMPT:
            return extender.preempt_verb


def whole_nodes(extender: Extender) -> bool:
    """Return whether requests to an extender contain whole nodes."""
    return not extender.node_cache_capable and bool(
        extender.filter_verb or extender.prioritize_verb
    )


# Requests -----------------------------------------------------------------------------------------


def about_nodes(
    extender: Extender, pod: bytes, names: Iterable[str], nodes: Mapping[str, bytes]
) -> bytes:
    """Return the request to filter or score some nodes.

    Args:
        extender: The receiver; with `nodeCacheCapable` it gets only the names of the nodes.
        pod: The pod as JSON.
        names: The names of the nodes.
        nodes: The nodes as JSON, by name; missing ones are left out.
    """
    if extender.node_cache_capable:
        return _json({"Pod": Raw(pod), "Nodes": None, "NodeNames": list(names)})
    items = [Raw(nodes[name]) for name in names if name in nodes]
    return _json({"Pod": Raw(pod), "Nodes": {"metadata": {}, "items": items}, "NodeNames": None})


def about_victims(
    extender: Extender, pod: bytes, question: Question, pods: Mapping[str, bytes]
) -> bytes:
    """Return the request to check preemption candidates.

    Args:
        extender: The receiver; with `nodeCacheCapable` it gets only the uids of the victims.
        pod: The preemptor as JSON.
        question: The candidates, with their victims.
        pods: The victims as JSON, by uid; missing ones are left out.
    """
    whole: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None
    if extender.node_cache_capable:
        meta = {
            candidate.node: {
                "Pods": [{"UID": victim.uid} for victim in candidate.pods],
                "NumPDBViolations": candidate.violations,
            }
            for candidate in question.victims
        }
    else:
        whole = {
            candidate.node: {
                "Pods": [Raw(pods[victim.uid]) for victim in candidate.pods if victim.uid in pods],
                "NumPDBViolations": candidate.violations,
            }
            for candidate in question.victims
        }
    return _json({"Pod": Raw(pod), "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta})


def binding(effect: Bind) -> bytes:
    """Return the request to bind a pod."""
    pod = effect.pod
    return _json(
        {
            "PodName": pod.name,
            "PodNamespace": pod.namespace,
            "PodUID": pod.uid,
            "Node": effect.node,
        }
    )


# Responses ----------------------------------------------------------------------------------------


def read(extender: Extender, question: Question, body: bytes) -> ExtenderAnswer:
    """Parse the response of an extender.

    Raises:
        ProtocolError: The response is malformed.
    """
    try:
        match question.verb:
            case Verb.FILTER:
                return _filtered(extender, question, body)
            case Verb.PRIORITIZE:
                return _scored(body)
            case Verb.PREEMPT:
                return _preempted(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"cannot parse the extender response: {error}") from error


def read_binding(body: bytes) -> str:
    """Return why an extender could not bind a pod; empty when it could.

    Raises:
        ProtocolError: The response is malformed.
    """
    try:
        return _field(_fields(body), "Error", str) or ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"cannot parse the extender response: {error}") from error


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class _Node(msgspec.Struct, frozen=True):
    metadata: _Name = _Name()


class _NodeList(msgspec.Struct):
    items: list[_Node] | None = None


def _filtered(extender: Extender, question: Question, body: bytes) -> ExtenderAnswer:
    fields = _fields(body)
    error = _field(fields, "Error", str)
    if error:
        return NoAnswer(error)
    names = _field(fields, "NodeNames", list[str]) if extender.node_cache_capable else None
    if names is None:
        nodes = _field(fields, "Nodes", _NodeList)
        items = (nodes.items or ()) if nodes is not None else ()
        names = [node.metadata.name for node in items]
    requested = set(question.nodes)
    for name in names:
        if name not in requested:
            return NoAnswer(
                f'extender "{extender.url_prefix}" claims a filtered node "{name}" which is not'
                " found in the input node list"
            )
    return Filtered(
        tuple(names),
        _field(fields, "FailedNodes", dict[str, str]) or {},
        _field(fields, "FailedAndUnresolvableNodes", dict[str, str]) or {},
    )


def _scored(body: bytes) -> ExtenderAnswer:
    scores = []
    for host_priority in _decoded(body, list[Raw] | None) or ():
        fields = _fields(host_priority)
        score = _field(fields, "Score", int) or 0
        if not -_INT64 <= score < _INT64:
            raise ProtocolError(
                f"cannot parse the extender response: the score {score} is out of range"
            )
        scores.append((_field(fields, "Host", str) or "", score))
    return Scored(tuple(scores))


def _preempted(body: bytes) -> ExtenderAnswer:
    nodes = _field(_fields(body), "NodeNameToMetaVictims", dict[str, Raw]) or {}
    return ExtenderVictims(tuple(_victims(node, raw) for node, raw in nodes.items()))


def _victims(node: str, raw: Raw) -> VictimUids:
    fields = _fields(raw)
    pods = _field(fields, "Pods", list[Raw]) or []
    uids = tuple(_field(_fields(pod), "UID", str) or "" for pod in pods)
    return VictimUids(node, uids, _field(fields, "NumPDBViolations", int) or 0)


def _fields(body: bytes | Raw) -> dict[str, Raw]:
    """Return the fields of an object by their names in lower case; the last one of a name wins."""
    fields = _decoded(body, dict[str, Raw] | None) or {}
    return {name.lower(): value for name, value in fields.items()}


def _field(fields: Mapping[str, Raw], name: str, kind: type[T]) -> T | None:
    """Return a field; `None` where it is missing or null."""
    value = fields.get(name.lower())
    return None if value is None else _decoded(value, kind | None)


def _decoded(body: bytes | Raw, kind: Any) -> Any:
    return msgspec.json.decode(body, type=kind)


_json = msgspec.json.encode
