"""The API calls behind the effects: paths and bodies.

Every call names the uid of the pod that was decided on, so that none hits another pod of the
same name. Status patches touch `PodScheduled`, `DisruptionTarget` and the nomination, and
nothing else: the merge keeps all other conditions.
"""

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from scheduler.kube.client import STRATEGIC_MERGE_PATCH, Request
from scheduler.model.effects import (
    Announce,
    Bind,
    ClearNomination,
    Evict,
    Nominate,
    PodRef,
    SetCondition,
)
from scheduler.model.times import Seconds

__all__ = [
    "bind",
    "clear_nomination",
    "create_event",
    "delete",
    "disrupt",
    "look_up",
    "micro_stamp",
    "nominate",
    "repeat_event",
    "set_condition",
]

#: Source: kube-scheduler v1.36.3 schedule_one.go, truncateMessage.
LONGEST_NOTE_BYTES: Final = 1024
CUT_NOTE_BYTES: Final = 1020
#: Names of objects end here; an Event's ends in a dot and up to 16 hexadecimal digits.
LONGEST_EVENT_NAME_STEM: Final = 253 - 17


def micro_stamp(now: Seconds) -> str:
    """Return seconds since the epoch as a time stamp with microseconds."""
    moment = datetime.fromtimestamp(now, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def bind(effect: Bind) -> Request:
    """Put a pod on a node; refused when the pod has a node already or is another one."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "namespace": effect.pod.namespace,
            "name": effect.pod.name,
            "uid": effect.pod.uid,
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": effect.node},
    }
    return Request("create", "pods/binding", "POST", f"{_path(effect.pod)}/binding", _json(body))


def look_up(pod: PodRef) -> Request:
    """Read a pod."""
    return Request("get", "pods", "GET", _path(pod))


def set_condition(
    effect: SetCondition, transition: str | None, *, clear_nomination: bool
) -> Request:
    """Tell why a pod is not scheduled."""
    status: dict[str, Any] = {
        "conditions": [_unscheduled(effect.reason, effect.message, effect.generation, transition)]
    }
    if clear_nomination:
        status["nominatedNodeName"] = None
    return _patch_status(effect.pod, status)


def nominate(effect: Nominate, transition: str | None) -> Request:
    """Claim a node for a pod, and tell why it needs one."""
    condition = _unscheduled("Unschedulable", effect.message, effect.generation, transition)
    return _patch_status(effect.pod, {"conditions": [condition], "nominatedNodeName": effect.node})


def clear_nomination(effect: ClearNomination) -> Request:
    """Take the claim of a pod back."""
    return _patch_status(effect.pod, {"nominatedNodeName": None})


def disrupt(effect: Evict, transition: str) -> Request:
    """Tell a victim why it has to go."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{effect.scheduler_name}: preempting to accommodate a higher priority pod",
        "observedGeneration": effect.generation,
        "lastProbeTime": None,
        "lastTransitionTime": transition,
    }
    return _patch_status(effect.victim, {"conditions": [condition]})


def delete(victim: PodRef) -> Request:
    """Delete a pod, with its own grace period."""
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": victim.uid}}
    return Request("delete", "pods", "DELETE", _path(victim), _json(body))


def create_event(effect: Announce, name: str, now: Seconds, instance: str) -> Request:
    """Write an Event."""
    pod = effect.regarding
    regarding = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
    }
    if effect.resource_version:
        regarding["resourceVersion"] = effect.resource_version
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": pod.namespace, "name": name},
        "eventTime": micro_stamp(now),
        "reportingController": effect.scheduler_name,
        "reportingInstance": instance,
        "action": effect.action,
        "reason": effect.reason,
        "regarding": regarding,
        "note": _note(effect.note),
        "type": effect.type,
    }
    return Request("create", "events", "POST", _events(pod.namespace), _json(body))


def repeat_event(namespace: str, name: str, count: int, now: Seconds) -> Request:
    """Write how often an Event has happened."""
    body = {"series": {"count": count, "lastObservedTime": micro_stamp(now)}}
    path = f"{_events(namespace)}/{name}"
    return Request("patch", "events", "PATCH", path, _json(body), STRATEGIC_MERGE_PATCH)


def event_name(pod: str, nanoseconds: int) -> str:
    """Return a name for an Event about a pod.

    Source: client-go v0.36.3 tools/record/util, GenerateEventName.
    Differs: too long names are cut, not replaced by a uuid.
    """
    return f"{pod[:LONGEST_EVENT_NAME_STEM].rstrip('-.')}.{nanoseconds:x}"


def _unscheduled(
    reason: str, message: str, generation: int, transition: str | None
) -> dict[str, Any]:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastProbeTime": None,
    }
    if transition is not None:
        condition["lastTransitionTime"] = transition
    return condition


def _patch_status(pod: PodRef, status: dict[str, Any]) -> Request:
    body = _json({"metadata": {"uid": pod.uid}, "status": status})
    path = f"{_path(pod)}/status"
    return Request("patch", "pods/status", "PATCH", path, body, STRATEGIC_MERGE_PATCH)


def _note(text: str) -> str:
    data = text.encode()
    if len(data) <= LONGEST_NOTE_BYTES:
        return text
    return data[:CUT_NOTE_BYTES].decode(errors="ignore") + " ..."


def _path(pod: PodRef) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _events(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


_json = msgspec.json.encode
