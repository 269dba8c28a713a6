"""A preemption that was decided: what it needs, and how far it has come."""

from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.preemption.charge import Charge
from scheduler.model import times
from scheduler.model.effects import PodRef
from scheduler.model.objects import Pod
from scheduler.model.owners import owner
from scheduler.model.plan_record import VERSION, PlanRecord, VictimRecord, encode
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster

__all__ = ["Plan", "Plans", "overdue_at"]

#: Until then every victim must have been asked to leave. Longer than the writer's patience for one
#: request and than a fail-over takes, short beside the time for which room should be held.
ASK_WITHIN: Final[Seconds] = 120.0


@dataclass(slots=True, eq=False)
class Plan:
    """One preemption under way. Only the machine changes it."""

    preemptor: Pod
    node: str
    #: Who must be gone, most important first.
    victims: tuple[VictimRecord, ...]
    begun: Seconds
    #: Until then every victim must have been asked to leave.
    deadline: Seconds
    charge: Charge = field(default_factory=Charge)
    #: State of the ledger that must be written down before the first victim is asked.
    revision: int = 0
    #: Where the logs of changes stood when it was decided.
    seen: tuple[int, ...] = ()
    #: Victims whose eviction was asked for and not answered yet, and when it was, by uid.
    outstanding: dict[str, Seconds] = field(default_factory=dict)
    #: Victims that leave because of it, by uid.
    asked: set[str] = field(default_factory=set)
    #: Victims that the ledger counts because of it, by uid.
    counted: set[str] = field(default_factory=set)
    #: Whether the ledger counts the preemption because of it.
    counts: bool = False
    #: Why it cannot be completed; empty while it can.
    failure: str = ""
    #: Whether the preemptor is to be tried again at once when every answer is there.
    retry: bool = False
    #: Victims as they were when they were last seen to stay, by uid, as far as that is known.
    known: dict[str, Pod] = field(default_factory=dict)
    #: Whether the nomination was given back.
    released: bool = False

    @classmethod
    def decided(
        cls,
        preemptor: Pod,
        node: str,
        victims: tuple[Pod, ...],
        charge: Charge,
        cluster: Cluster,
        now: Seconds,
    ) -> "Plan":
        """Return a new plan."""
        records = tuple(
            _victim(each, leaving=cluster.leaves(each), strict=each.uid in charge.strict)
            for each in victims
        )
        # Rounded, since it is written down and identifies the preemption.
        begun = round(now, 3)
        plan = cls(preemptor, node, records, begun, begun + ASK_WITHIN, charge)
        plan.known = {each.uid: each for each in victims}
        return plan

    @classmethod
    def recorded(cls, preemptor: Pod, record: PlanRecord, cluster: Cluster) -> "Plan":
        """Return a plan that an earlier leader has made, as far as it has come."""
        plan = cls(preemptor, record.node, record.victims, record.begun, record.deadline)
        plan.known = {each.uid: each for each in plan.there(cluster)}
        plan.asked = {each.uid for each in plan.vacating(cluster) if not each.leaving}
        return plan

    def record(self) -> str:
        """Return what is written to the preemptor."""
        policies = dict(sorted(self.charge.generations.items()))
        return encode(
            PlanRecord(VERSION, self.node, self.begun, self.deadline, self.victims, policies)
        )

    def rely_on(self, others: Iterable[Pod], spared: Set[str]) -> None:
        """Spare some victims, given by uid, and wait for pods that leave for others instead.

        Nobody may count on the spared ones any more: two plans that spare their victims because
        of each other's would wait for ever.
        """
        kept = tuple(each for each in self.victims if each.uid not in spared)
        self.victims = kept + tuple(_victim(each, leaving=True) for each in others)

    def may_precede(self, other: Pod) -> bool:
        """Tell whether a pod on its node may have come there since it was decided."""
        start = times.parse(other.status.start_time)
        return start is None or start >= int(self.begun)

    def precedes(self, other: Pod) -> bool:
        """Tell whether a pod on its node has come there since it was decided, without doubt."""
        start = times.parse(other.status.start_time)
        return start is None or start > self.begun

    @property
    def strict(self) -> frozenset[str]:
        """The uids of the victims that are asked through `pods/eviction`."""
        return self.charge.strict | {each.uid for each in self.victims if each.strict}

    def leaving(self, cluster: Cluster) -> frozenset[str]:
        """Return the uids of the victims on their way, or soon to be because of this plan."""
        soon = (each.uid for each in self.victims if not each.leaving)
        return frozenset(each.uid for each in self.vacating(cluster)).union(soon)

    def vacating(self, cluster: Cluster) -> tuple[VictimRecord, ...]:
        """Return the victims that are gone, or on their way."""
        staying = {each.uid for each in self.staying(cluster)}
        return tuple(each for each in self.victims if each.uid not in staying)

    @property
    def uids(self) -> frozenset[str]:
        """The uids of all victims."""
        return frozenset(each.uid for each in self.victims)

    def there(self, cluster: Cluster) -> list[Pod]:
        """Return the victims that still take room on the node, most important first."""
        return [
            pod for each in self.victims
            if (pod := cluster.placed(each.uid)) is not None
            and cluster.node_of(each.uid) == self.node
        ]  # fmt: skip

    def staying(self, cluster: Cluster) -> list[Pod]:
        """Return the victims that do not leave the node yet, most important first."""
        return [pod for pod in self.there(cluster) if not cluster.leaves(pod)]

    def owners(self, uids: Set[str]) -> list[str]:
        """Return the owners of some victims."""
        return [each.owner for each in self.victims if each.uid in uids]

    def refs(self) -> tuple[PodRef, ...]:
        """Return references to all victims."""
        return tuple(PodRef(each.namespace, each.name, each.uid) for each in self.victims)


class Plans:
    """Plans by uid of the preemptor, and by node."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        self._on_node: dict[str, dict[str, Plan]] = {}

    def __len__(self) -> int:
        return len(self._plans)

    def __contains__(self, uid: str) -> bool:
        return uid in self._plans

    def get(self, uid: str) -> Plan | None:
        """Return the plan of a preemptor."""
        return self._plans.get(uid)

    def on_node(self, node: str) -> list[Plan]:
        """Return the plans for a node."""
        return list(self._on_node.get(node, {}).values())

    def add(self, plan: Plan) -> None:
        """Take in a plan, in place of the one that its preemptor had."""
        uid = plan.preemptor.uid
        self.pop(uid)
        self._plans[uid] = plan
        self._on_node.setdefault(plan.node, {})[uid] = plan

    def pop(self, uid: str) -> Plan | None:
        """Take out the plan of a preemptor."""
        plan = self._plans.pop(uid, None)
        if plan is not None:
            here = self._on_node[plan.node]
            del here[uid]
            if not here:
                del self._on_node[plan.node]
        return plan


def _victim(pod: Pod, *, leaving: bool, strict: bool = False) -> VictimRecord:
    meta = pod.metadata
    return VictimRecord(
        meta.namespace, meta.name, pod.uid, owner(pod), leaving=leaving, strict=strict
    )


def overdue_at(pod: Pod, margin: Seconds) -> Seconds | None:
    """Return when a pod should be gone for good; `None` where nobody knows that it leaves."""
    end = times.parse(pod.metadata.deletion_timestamp)
    return None if end is None else end + margin
