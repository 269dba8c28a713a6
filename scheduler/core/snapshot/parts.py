"""Which attributes of the machine a snapshot copies, and of which classes the objects in them are.

The cluster is not among them: its columns and indices are derived from observed objects, so those
are copied and written again (`cluster_copy`). What depends on the past in another way is copied
attribute by attribute: the queue, the preemptions, the ledger, what blocks a pod. An attribute that
is neither here nor derived makes the property test of replays fail.

Not copied are attempts that wait for extenders, and reservations of volumes and devices: these are
running code. `not_copied` names them, and a recording contains these names.
"""

from collections import Counter
from typing import Any, Final

from scheduler.core.eviction.phases import PreemptionOutcome, PreemptionPhase, WasteReason
from scheduler.core.eviction.plan import (
    Placement,
    PolicyInputs,
    PreemptionPlan,
    Progress,
    Victim,
)
from scheduler.core.eviction.state import WastedVictims
from scheduler.core.machine import Machine
from scheduler.core.preemption.policy.charge import Charge
from scheduler.core.preemption.policy.in_flight import InFlightEviction
from scheduler.core.requeue.blocked_by_policy import Block
from scheduler.model.api.objects import LabelSelector, Pod
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.effects import (
    Bind,
    ClaimRef,
    Effect,
    Evict,
    Nominate,
    PodRef,
    ReleaseClaims,
    SaveLedger,
)
from scheduler.model.policies import BudgetScope, LastVictim, PreemptionPolicy
from scheduler.model.policy_vetoes import Rule
from scheduler.queue.phases import PendingReason, QueuePhase
from scheduler.queue.queued_pod import QueuedPod
from scheduler.queue.representatives import Representative, SetRetry
from scheduler.queue.waiting_sets import WaitingSet
from scheduler.state.preemption.event_times import EventTimes
from scheduler.state.preemption.ledger_entries import EvictionEntry, PreemptionEntry
from scheduler.state.preemption.preemption_backoff import FailureRecord
from scheduler.state.preemption.wasted_evictions import NodePause, WasteEntry

__all__ = [
    "ENUMS",
    "PARTS",
    "RECORDS",
    "VALUES",
    "awaited",
    "effect_key",
    "fields_of",
    "not_copied",
    "part",
]

#: The attributes by the path of their object, which begins at the machine.
PARTS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("queue", ("_pods", "_suspended", "_gated", "unreported", "_sequence", "_next_flush")),
    ("queue._active", ("_entries",)),
    ("queue._backoff_pods", ("_entries",)),
    ("queue._error_backoff_pods", ("_entries",)),
    ("queue._unschedulable", ("_sets",)),
    ("queue._preempting", ("_sets",)),
    ("queue._representatives", ("_representatives",)),
    (
        "ledger",
        (
            "revision", "version", "horizon", "_windows", "_evictions", "_preemptions", "_victims",
            "_by_owner", "_loaded", "_counts", "_holders", "_open_preemptions", "_planned",
            "_uncertain", "_unsettled", "_shortest", "_renew_at",
        ),
    ),
    ("ledger.backoff", ("version", "_pairs", "_count", "_bytes")),
    ("ledger.wasted_evictions", ("version", "_entries", "_pauses")),
    ("policies", ("_names", "_refusals", "_last", "_planned_victims")),
    (
        "policies.in_flight",
        (
            "evictions", "_by_namespace", "_by_preemptor", "_by_row", "_charged", "_watched",
            "_terminated", "_selectors", "relieved", "version",
        ),
    ),
    ("_wakeups.blocked", ("_pods", "_by_pdb")),
    ("_wakeups.blocked._ends", ("entries", "_number", "_most")),
    ("_binding", ("in_flight", "_releasing")),
    ("_binding._again", ("entries", "_number", "_most")),
    (
        "preemptions.state",
        (
            "plans", "by_preemptor", "by_node", "vacated", "vacated_by_node", "late_answers",
            "last_number", "last_decision",
        ),
    ),
    ("preemptions.state.due", ("entries", "_number", "_most")),
    (
        "preemptions.state.ledger_writer",
        ("waiting", "writing", "wanted", "next_write", "interval", "written"),
    ),
    (
        "preemptions.state.waste",
        ("placements", "wasted_evictions", "failed_preemptions", "stops"),
    ),
    ("_suspended", ("_number",)),
    ("", ("_is_leader",)),
    (
        "cluster",
        (
            "_assumed", "_evicting", "_overdue", "overdue_version", "clock_ahead",
            "namespaces_version",
        ),
    ),
    ("cluster.policies", ("version",)),
)  # fmt: skip

#: Objects that change, or that others refer to, or that have such parts: there is one copy of each.
RECORDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        QueuedPod, PreemptionPlan, Placement, Progress, WastedVictims, InFlightEviction, EventTimes,
        Representative, SetRetry,
    )
}  # fmt: skip
#: Values that never change.
VALUES: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        Block, Charge, ClaimRef, ClassifiedPod, Evict, EvictionEntry, FailureRecord, LabelSelector,
        LastVictim, NodePause, Pod, PodRef, PolicyInputs, PreemptionEntry, PreemptionPolicy,
        ReleaseClaims, SaveLedger, Victim, WaitingSet, WasteEntry,
    )
}  # fmt: skip
#: Names of fixed sets.
_ENUMS: Final = (
    BudgetScope, PendingReason, PreemptionOutcome, PreemptionPhase, QueuePhase, Rule, WasteReason,
)  # fmt: skip
ENUMS: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in _ENUMS}

#: The last moves of a pod or plan are only for messages about defects. Positions in the change logs
#: mean nothing to another machine: whether a log has changed since then is noted instead.
_LEFT_OUT: Final = frozenset({"history", "log_positions"})


def fields_of(kind: type[Any]) -> tuple[str, ...]:
    """Return the attributes of a record that are copied, sorted."""
    names = getattr(kind, "__struct_fields__", None) or kind.__slots__
    return tuple(sorted(name for name in names if name not in _LEFT_OUT))


def part(machine: Machine, path: str) -> Any:
    """Return an object of the machine by its path."""
    found: Any = machine
    for name in filter(None, path.split(".")):
        found = getattr(found, name)
    return found


def effect_key(effect: Effect) -> tuple[str, str]:
    """Return the type of an effect and the uid of its pod, which its outcome has, too."""
    pod = effect.victim if isinstance(effect, Evict) else getattr(effect, "pod", None)
    return type(effect).__name__, pod.uid if isinstance(pod, PodRef) else ""


def awaited(machine: Machine) -> Counter[tuple[str, str]]:
    """Return the effects whose outcomes change something and are yet to come, by `effect_key`."""
    found = Counter((Bind.__name__, uid) for uid in machine.bindings_in_flight)
    later = {effect.pod.uid for _, _, effect in part(machine, "_binding._again").entries}
    releasing = part(machine, "_binding._releasing") - later
    found.update((ReleaseClaims.__name__, uid) for uid in releasing)
    for plan in machine.preemptions.state:
        progress = plan.progress
        found.update((Evict.__name__, uid) for uid in progress.outstanding)
        if plan.phase is PreemptionPhase.NOMINATING:
            unanswered = {*plan.preemptors} - progress.nominated - progress.refused
            found.update((Nominate.__name__, uid) for uid in unanswered)
    if part(machine, "preemptions.state.ledger_writer.writing") is not None:
        found[SaveLedger.__name__, ""] += 1
    return found


def not_copied(machine: Machine) -> tuple[str, ...]:
    """Return what a snapshot taken now would lack; nothing in most moments."""
    lacking = {
        "attempts that wait for extenders": len(part(machine, "_suspended")),
        "pods that wait for volumes or devices": len(part(machine, "_binding")),
        "volumes and claims in an assumed state": machine.cluster.volumes.assumed,
        "allocations of devices that are being written": machine.cluster.devices.claims.in_flight,
    }
    return tuple(f"{name}: {number}" for name, number in lacking.items() if number)
