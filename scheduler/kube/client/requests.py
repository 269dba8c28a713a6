"""The API calls that carry out effects: paths and bodies.

Every call names the uid of the pod that was decided on, so that none changes another pod of the
same name. Status patches touch the conditions `PodScheduled`, `DisruptionTarget` and that of the
plan, and the nomination, and nothing else: the merge keeps all other conditions.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.kube.client.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Request
from scheduler.model import plan_record, times
from scheduler.model.api import storage
from scheduler.model.api.objects import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER, SCHEDULED
from scheduler.model.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.model.effects import (
    Bind,
    BindClaims,
    BindVolumes,
    ClearNomination,
    Evict,
    Nominate,
    PodRef,
    RecordEvent,
    ReserveVolume,
    SelectNode,
    SetCondition,
)
from scheduler.model.times import Seconds

__all__ = [
    "Versioned",
    "bind",
    "clear_nomination",
    "create_event",
    "cut_note",
    "delete",
    "evict",
    "get_pod",
    "micro_stamp",
    "nominate",
    "nominate_for_binding",
    "repeat_event",
    "set_condition",
    "set_disruption_target",
    "volume_writes",
]

#: Removes the condition with the plan of a preemption, if the pod has it.
_NO_PLAN: Final[Mapping[str, str]] = {"$patch": "delete", "type": plan_record.CONDITION}

#: The longest note of an Event, and how much of a longer one is kept.
MAX_NOTE_BYTES: Final = 1024
CUT_NOTE_BYTES: Final = 1020
#: Names of objects end here; an Event's ends in a dot and up to 16 hexadecimal digits.
MAX_EVENT_NAME_STEM: Final = 253 - 17


class Versioned(NamedTuple):
    """A write that is refused when its object has changed since it was read."""

    write: Request
    #: Reads the object; `has_happened` returns whether its answer contains the write.
    look_up: Request
    has_happened: Callable[[bytes], bool]


def micro_stamp(now: Seconds) -> str:
    """Return seconds since the epoch as a time stamp with microseconds."""
    whole, micros = divmod(round(now * 1e6), 1_000_000)
    return f"{times.stamp(whole).removesuffix('Z')}.{micros:06d}Z"


def bind(effect: Bind) -> Request:
    """Bind a pod to a node; refused when it has a node already, or is another pod."""
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


def get_pod(pod: PodRef) -> Request:
    """Read a pod."""
    return Request("get", "pods", "GET", _path(pod))


def set_condition(
    effect: SetCondition, transition: str | None, *, clear_nomination: bool
) -> Request:
    """Write why a pod is not scheduled."""
    condition = _unscheduled_condition(effect.reason, effect.message, effect.generation, transition)
    status: dict[str, Any] = {"conditions": [condition]}
    if clear_nomination:
        status["conditions"].append(_NO_PLAN)
        status["nominatedNodeName"] = None
    return _patch_status(effect.pod, status)


def nominate(effect: Nominate, transition: str | None) -> Request:
    """Nominate a node for a pod, with the reason and the plan of the preemption."""
    condition = _unscheduled_condition(
        "Unschedulable", effect.message, effect.generation, transition
    )
    conditions = [condition, _plan_condition(effect) if effect.plan else _NO_PLAN]
    status = {"conditions": conditions, "nominatedNodeName": effect.node}
    return _patch_status(effect.pod, status)


def clear_nomination(effect: ClearNomination) -> Request:
    """Clear the nomination of a pod, and the plan that was written with it."""
    return _patch_status(effect.pod, {"conditions": [_NO_PLAN], "nominatedNodeName": None})


def nominate_for_binding(effect: BindVolumes | BindClaims) -> Request:
    """Nominate the node to which a pod will be bound when its volumes or claims are ready."""
    return _patch_status(effect.pod, {"nominatedNodeName": effect.node})


def volume_writes(effect: BindVolumes) -> list[Versioned]:
    """Reserve the chosen volumes, then request the provisioning of the others.

    Source: kube-scheduler v1.36.3 volumebinding.bindAPIUpdate. Differs: what is not written stays
    as it is, where upstream puts the whole object back; the version that must match is the same.
    """
    return [
        *(_reserve_volume(volume) for volume in effect.volumes),
        *(_select_node(claim, effect.node) for claim in effect.claims),
    ]


def _reserve_volume(part: ReserveVolume) -> Versioned:
    metadata: dict[str, Any] = {"resourceVersion": part.version}
    if part.by_controller:
        metadata["annotations"] = {storage.BOUND_BY_CONTROLLER: "yes"}
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": part.claim_namespace,
        "name": part.claim_name,
        "uid": part.claim_uid,
        "resourceVersion": part.claim_version,
    }
    body = _json({"metadata": metadata, "spec": {"claimRef": reference}})
    path = f"/api/v1/persistentvolumes/{part.volume}"

    def is_reserved(answer: bytes) -> bool:
        claim = _VOLUME.decode(answer).spec.claim_ref
        return claim is not None and claim.uid == part.claim_uid

    return _versioned("persistentvolumes", path, body, is_reserved)


def _select_node(part: SelectNode, node: str) -> Versioned:
    annotations = {storage.SELECTED_NODE: node}
    body = _json({"metadata": {"resourceVersion": part.version, "annotations": annotations}})
    path = f"/api/v1/namespaces/{part.claim_namespace}/persistentvolumeclaims/{part.claim_name}"

    def is_selected(answer: bytes) -> bool:
        return _CLAIM.decode(answer).selected_node == node

    return _versioned("persistentvolumeclaims", path, body, is_selected)


def _versioned(
    resource: str, path: str, body: bytes, has_happened: Callable[[bytes], bool]
) -> Versioned:
    return Versioned(
        Request("patch", resource, "PATCH", path, body, MERGE_PATCH),
        Request("get", resource, "GET", path),
        has_happened,
    )


def set_disruption_target(effect: Evict, transition: str) -> Request:
    """Set the condition that says why a victim is evicted."""
    condition = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": PREEMPTION_BY_SCHEDULER,
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


def evict(victim: PodRef) -> Request:
    """Evict a pod, with its own grace period; disruption budgets may refuse."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": victim.namespace, "name": victim.name},
        "deleteOptions": {"preconditions": {"uid": victim.uid}},
    }
    path = f"{_path(victim)}/eviction"
    return Request("create", "pods/eviction", "POST", path, _json(body))


def create_event(effect: RecordEvent, name: str, now: Seconds, instance: str) -> Request:
    """Write an Event.

    Who may read Events of a namespace learns no name of another one: a related pod of another
    namespace is given by its uid alone.
    """
    pod, related = effect.regarding, effect.related
    regarding = _reference(pod)
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
        "note": cut_note(effect.note),
        "type": effect.type,
    }
    if related is not None:
        has_name = related.namespace == pod.namespace
        body["related"] = (
            _reference(related)
            if has_name
            else {"apiVersion": "v1", "kind": "Pod", "uid": related.uid}
        )
    return Request("create", "events", "POST", _events(pod.namespace), _json(body))


def _reference(pod: PodRef) -> dict[str, str]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
    }


def repeat_event(namespace: str, name: str, count: int, now: Seconds) -> Request:
    """Update how often an Event has happened."""
    body = {"series": {"count": count, "lastObservedTime": micro_stamp(now)}}
    path = f"{_events(namespace)}/{name}"
    return Request("patch", "events", "PATCH", path, _json(body), STRATEGIC_MERGE_PATCH)


def cut_note(note: str) -> str:
    """Return a note that an Event can carry: at most 1024 bytes, the end marked where it is cut.

    Source: kube-scheduler v1.36.3 schedule_one.go truncateMessage.
    """
    data = note.encode(errors="replace")
    if len(data) <= MAX_NOTE_BYTES:
        return note
    return data[:CUT_NOTE_BYTES].decode(errors="ignore") + " ..."


def event_name(pod: str, nanoseconds: int) -> str:
    """Return a name for an Event about a pod.

    Source: client-go v0.36.3 tools/record/util, GenerateEventName.
    Differs: too long names are cut, not replaced by a uuid.
    """
    return f"{pod[:MAX_EVENT_NAME_STEM].rstrip('-.')}.{nanoseconds:x}"


def _unscheduled_condition(
    reason: str, message: str, generation: int, transition: str | None
) -> dict[str, Any]:
    condition = {
        "type": SCHEDULED,
        "status": "False",
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastProbeTime": None,
    }
    if transition is not None:
        condition["lastTransitionTime"] = transition
    return condition


def _plan_condition(effect: Nominate) -> dict[str, Any]:
    return {
        "type": plan_record.CONDITION,
        "status": "True",
        "reason": "Planned",
        "message": effect.plan,
        "observedGeneration": effect.generation,
    }


def _patch_status(pod: PodRef, status: Mapping[str, Any]) -> Request:
    body = _json({"metadata": {"uid": pod.uid}, "status": status})
    path = f"{_path(pod)}/status"
    return Request("patch", "pods/status", "PATCH", path, body, STRATEGIC_MERGE_PATCH)


def _path(pod: PodRef) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _events(namespace: str) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


_json = msgspec.json.encode
_VOLUME: Final = msgspec.json.Decoder(PersistentVolume)
_CLAIM: Final = msgspec.json.Decoder(PersistentVolumeClaim)
