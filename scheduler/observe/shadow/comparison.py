"""Compares one act of another scheduler with what this scheduler would have done."""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from scheduler.core.attempt.node_results import NodeResult, NodeResults
from scheduler.core.machine import Machine
from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Detail
from scheduler.model.times import Seconds
from scheduler.observe.shadow.acts import SeenEviction
from scheduler.queue.scheduling_queue import QueuedPod
from scheduler.state.trial import Trial

__all__ = [
    "AGREEING",
    "PLACEMENTS",
    "Judgement",
    "Outcome",
    "judge",
    "placed",
    "preempted",
    "rejected",
]

#: The most characters of a text that is kept.
_MAX_TEXT: Final = 500


class Outcome(StrEnum):
    """How an act compares with our decision."""

    #: They bound the pod to the node that we would have chosen.
    SAME_NODE = "same_node"
    #: They bound it to a node with the same total score.
    EQUAL_NODE = "equal_node"
    #: They bound it to a node that is feasible for us, with a lower score.
    OTHER_NODE = "other_node"
    #: They bound it to a node that is not feasible for us; we would have chosen another one.
    NODE_INFEASIBLE = "node_infeasible"
    #: They bound it, and we would have found no room.
    NO_ROOM = "no_room"
    #: They found no room, and neither would we.
    BOTH_UNSCHEDULABLE = "both_unschedulable"
    #: They found no room, and we would have placed it.
    WOULD_PLACE = "would_place"
    #: They evict the pods that we would have evicted.
    SAME_PREEMPTION = "same_preemption"
    #: They evict as many pods of the same priorities, from another node or other ones.
    EQUAL_PREEMPTION = "equal_preemption"
    #: They evict others than we would have.
    OTHER_PREEMPTION = "other_preemption"
    #: They evict pods, and we would not have.
    PREEMPTION_AVOIDED = "preemption_avoided"
    #: We would have evicted pods, and they bound it, or left it pending.
    PREEMPTION_ADDED = "preemption_added"
    #: We could not decide.
    NOT_COMPARED = "not_compared"


#: A pod was placed on a node that we would have chosen or that is as good.
AGREEING: Final = frozenset({Outcome.SAME_NODE, Outcome.EQUAL_NODE})
#: A pod was bound without a preemption, and we would have placed it or found no room.
PLACEMENTS: Final = AGREEING | {Outcome.OTHER_NODE, Outcome.NODE_INFEASIBLE, Outcome.NO_ROOM}


class Judgement(NamedTuple):
    """What this scheduler would have done with a pod."""

    #: The node that takes it, or from which pods would be evicted; empty if it would wait.
    node: str = ""
    #: The pods that would be evicted.
    victims: tuple[Pod, ...] = ()
    #: Why it fits on no node.
    message: str = ""
    #: Why there is no decision; empty if there is one.
    error: str = ""
    #: The total scores of our node and of theirs, as far as they are feasible; empty if they are
    #: the same node.
    totals: Mapping[str, int] = {}
    #: What was found about the two nodes, if they differ and that is wanted.
    found: tuple[NodeResult, ...] = ()

    @property
    def places(self) -> bool:
        """Whether the pod would have been placed without a preemption."""
        return bool(self.node) and not self.victims and not self.error


def judge(
    machine: Machine,
    queued: QueuedPod,
    now: Seconds,
    *,
    theirs: str = "",
    gone: Sequence[SeenEviction] = (),
    explains: bool = True,
) -> Judgement:
    """Decide for a pod on the state as it is; nothing is changed.

    Args:
        machine: The machine.
        queued: The pod.
        now: The time.
        theirs: The node that the other scheduler has chosen.
        gone: Pods that were evicted since it decided; for this decision they are what they were
            before, whether they terminate or have ended.
        explains: Whether the rules are wanted by which our node is better than theirs, which take
            longer than the decision.
    """
    if not gone:
        return _decided(machine, queued, now, theirs, explains=explains)
    cluster = machine.cluster
    # What undoes the trial is outside of what catches errors: if that fails, the state is wrong.
    with Trial(cluster) as trial:
        try:
            for each in gone:
                if cluster.columns.node(each.node) is None:
                    continue
                if cluster.find_pod(each.pod.uid) is not None:
                    trial.remove(each.pod.uid)
                trial.assume(each.pod, each.node)
        except ValueError as error:
            return _failed(error)
        return _decided(machine, queued, now, theirs, explains=explains)


def _decided(
    machine: Machine, queued: QueuedPod, now: Seconds, theirs: str, *, explains: bool
) -> Judgement:
    try:
        return _judged(machine, queued, now, theirs, explains=explains)
    except Exception as error:  # noqa: BLE001 - one odd object must not stop all other pods
        return _failed(error)


def _failed(error: Exception) -> Judgement:
    return Judgement(error=_cut(f"{type(error).__name__}: {error}"))


def _judged(
    machine: Machine, queued: QueuedPod, now: Seconds, theirs: str, *, explains: bool
) -> Judgement:
    result, error = machine.explain(queued, now, detail=Detail.NONE)
    if error:
        return Judgement(error=_cut(error))
    candidate = result.candidate
    if candidate is not None:
        node = machine.cluster.columns.names[candidate.row]
        return Judgement(node, candidate.victims, _cut(result.message))
    node = result.node or ""
    if not node or not theirs or node == theirs:
        return Judgement(node, message=_cut(result.message))
    totals = machine.totals.of(queued.classified, (node, theirs), now)
    found: tuple[NodeResult, ...] = ()
    if explains and totals.get(theirs) != totals.get(node):
        explained = machine.explain(queued, now)[0].results
        if isinstance(explained, NodeResults):
            found = tuple(each for name in (node, theirs) if (each := explained.of(name)))
    return Judgement(node, totals=totals, found=found)


def placed(judgement: Judgement, node: str) -> tuple[Outcome, str]:
    """Compare with a pod that was bound to a node without a preemption; also return why."""
    if judgement.error:
        return Outcome.NOT_COMPARED, judgement.error
    if judgement.victims:
        return Outcome.PREEMPTION_ADDED, judgement.message
    if not judgement.places:
        return Outcome.NO_ROOM, judgement.message
    if judgement.node == node:
        return Outcome.SAME_NODE, ""
    return _elsewhere(judgement, node)


def _elsewhere(judgement: Judgement, node: str) -> tuple[Outcome, str]:
    totals, by_name = judgement.totals, {each.name: each for each in judgement.found}
    theirs = by_name.get(node)
    if node not in totals:
        known = theirs is not None and theirs.verdict is not None
        return Outcome.NODE_INFEASIBLE, _cut(str(theirs.verdict)) if known and theirs else ""
    less = totals[judgement.node] - totals[node]
    if less == 0:
        return Outcome.EQUAL_NODE, ""
    if theirs is None or judgement.node not in by_name:
        return Outcome.OTHER_NODE, f"the score is {less} lower"
    ours = by_name[judgement.node].scores
    plugin = max(ours, key=lambda name: ours[name] - theirs.scores.get(name, 0))
    more = ours[plugin] - theirs.scores.get(plugin, 0)
    return Outcome.OTHER_NODE, f"the score is {less} lower; {plugin} alone gives {more} less"


def rejected(judgement: Judgement) -> tuple[Outcome, str]:
    """Compare with a pod that was found to fit on no node; also return why."""
    if judgement.error:
        return Outcome.NOT_COMPARED, judgement.error
    if judgement.victims:
        return Outcome.PREEMPTION_ADDED, judgement.message
    if judgement.places:
        return Outcome.WOULD_PLACE, ""
    return Outcome.BOTH_UNSCHEDULABLE, ""


def preempted(judgement: Judgement, node: str, victims: Sequence[Pod]) -> tuple[Outcome, str]:
    """Compare with pods that were evicted from a node for a pod; also return why."""
    if judgement.error:
        return Outcome.NOT_COMPARED, judgement.error
    if not judgement.victims:
        why = "" if judgement.places else judgement.message
        return Outcome.PREEMPTION_AVOIDED, why
    ours = {victim.uid for victim in judgement.victims}
    if judgement.node == node and ours == {victim.uid for victim in victims}:
        return Outcome.SAME_PREEMPTION, ""
    if _priorities(judgement.victims) == _priorities(victims):
        return Outcome.EQUAL_PREEMPTION, ""
    return Outcome.OTHER_PREEMPTION, ""


def _priorities(victims: Sequence[Pod]) -> Counter[int]:
    return Counter(victim.priority for victim in victims)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
