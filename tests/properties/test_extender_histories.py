"""Random histories in which extenders answer late, out of order, or not at all."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.decisions import Failed, Placed, Preempting, Waiting
from scheduler.model.effects import Ask, Question, Verb
from scheduler.model.extender_answers import (
    ExtenderAnswer,
    ExtenderVictims,
    Filtered,
    NoAnswer,
    Scored,
    VictimUids,
)
from scheduler.queue.phases import QueuePhase
from tests.properties.comparing import found_afresh
from tests.properties.world import PROFILES
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster

LICENSE = {"example.com/license": "1"}
CPUS = 4
CONFIG = """
    extenders:
    - {urlPrefix: http://a, filterVerb: f, preemptVerb: p, managedResources: [{name: LICENSE}]}
    - {urlPrefix: http://b, filterVerb: f, prioritizeVerb: s, weight: 2, ignorable: true}
""".replace("LICENSE", next(iter(LICENSE)))
#: Pods that both extenders are asked about, and pods that only the second one is.
KINDS = [
    lambda p: p.requests({"cpu": "1", **LICENSE}).priority(5),
    lambda p: p.requests({"cpu": "2", **LICENSE}).priority(9),
    lambda p: p.cpu("2").priority(1),
    lambda p: p.cpu("3").priority(7),
]
DEEP = settings.default.max_examples > 100
actions = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 99), st.integers(0, 99)), min_size=20, max_size=100
)


def answer(question: Question, number: int) -> ExtenderAnswer:
    """Answer at random: some nodes, some scores, some preemptions, or nothing that can be used."""
    if number % 7 == 0:
        return NoAnswer("broken")
    names = tuple(each for place, each in enumerate(question.nodes) if number >> place & 1)
    match question.verb:
        case Verb.FILTER:
            dropped = [each for each in question.nodes if each not in names]
            return Filtered(names, dict.fromkeys(dropped, "no") if number % 2 else {})
        case Verb.PRIORITIZE:
            return Scored(tuple((each, number % 11) for each in names))
        case Verb.PREEMPT:
            allowed = question.victims[: number % 3]
            uids = [(each.node, tuple(pod.uid for pod in each.pods)) for each in allowed]
            return ExtenderVictims(tuple(VictimUids(*each) for each in uids))


def willing(question: Question) -> ExtenderAnswer:
    """Take everything."""
    if question.verb is Verb.PREEMPT:
        victims = [(each.node, tuple(pod.uid for pod in each.pods)) for each in question.victims]
        return ExtenderVictims(tuple(VictimUids(*each) for each in victims))
    return Filtered(question.nodes) if question.verb is Verb.FILTER else Scored(())


class History:
    """A cluster, and what extenders said last of each pod."""

    def __init__(self) -> None:
        self.cluster = Cluster(config=CONFIG)
        self.cluster.hold(Ask)
        self.accepted: dict[str, dict[int, tuple[str, ...]]] = {}
        #: The nodes that the second extender has not refused in an attempt, by uid.
        self.agreed: dict[str, set[str]] = {}
        self.count = 0
        for number in range(3):
            self.write_node(number)

    def write_node(self, number: int) -> None:
        self.cluster.add(node(f"n{number % 4}").cpu(str(CPUS)).has({next(iter(LICENSE)): "3"}))

    def act(self, kind: int, a: int, b: int) -> None:
        cluster, there = self.cluster, sorted(each.key for each in self.cluster.pods.values())
        some = there[a % len(there)] if there else ""
        match kind:
            case 0 | 1:
                self.count += 1
                cluster.add(KINDS[a % len(KINDS)](pod(f"p{self.count}")))
            case 2 | 3 | 4:
                self.step()
            case 5 | 6 if cluster.held:
                self.answer(a, b)
            case 7 if some:
                cluster.delete(some)
            case 8 if some:
                cluster.change(some, lambda p: _relabelled(p, b))
            case 9:
                self.write_node(a) if b % 2 else cluster.delete_node(f"n{a % 4}")
                cluster.wait(1.0)

    def answer(self, a: int, b: int) -> None:
        effect = self.cluster.held[a % len(self.cluster.held)]
        assert isinstance(effect, Ask)
        if b % 11 == 0:
            self.cluster.fail(effect)
            return
        said = [answer(question, b + place) for place, question in enumerate(effect.questions)]
        for question, each in zip(effect.questions, said, strict=True):
            if question.verb is not Verb.FILTER:
                continue
            # An answer that cannot be used is ignored, or ends the attempt.
            nodes = each.nodes if isinstance(each, Filtered) else question.nodes
            self.accepted.setdefault(effect.pod.uid, {})[question.extender] = nodes
            if question.extender == 1:
                self.agreed.setdefault(effect.pod.uid, set()).update(nodes)
        self.cluster.answer(*said, ask=effect)

    def step(self) -> None:
        attempt = self.cluster.step()
        if attempt is None:
            return
        if isinstance(attempt.decision, Placed):
            for nodes in self.accepted.get(attempt.pod.uid, {}).values():
                assert attempt.decision.node in nodes
        if isinstance(attempt.decision, Preempting):
            assert attempt.decision.node in self.agreed[attempt.pod.uid]
        if not isinstance(attempt.decision, Waiting):
            self.accepted.pop(attempt.pod.uid, None)
            self.agreed.pop(attempt.pod.uid, None)
        if isinstance(attempt.decision, Failed):
            assert attempt.decision.message in ("broken", "asking extenders: no")

    def nothing_is_overfull(self) -> None:
        taken: dict[str, int] = {}
        for each in self.cluster.pods.values():
            if each.spec.node_name:
                amount = each.spec.containers[0].resources.requests["cpu"]
                taken[each.spec.node_name] = taken.get(each.spec.node_name, 0) + int(amount)
        assert all(amount <= CPUS for amount in taken.values()), taken

    def quiesce(self) -> None:
        """Let extenders answer all that is asked, and take everything."""
        cluster = self.cluster
        cluster.extender = willing
        # In the first rounds all pods may still be in backoff.
        quiet = 0
        for _ in range(60):
            while cluster.held:
                cluster.answer()
            cluster.hold()
            attempts: list[Any] = cluster.drain()
            cluster.finish_terminating()
            cluster.wait(400.0)
            helped = any(isinstance(each.decision, Placed | Preempting) for each in attempts)
            quiet = 0 if helped else quiet + 1
            if quiet == 2:
                return
        raise AssertionError("the cluster does not come to rest")


def _relabelled(builder: PodBuilder, number: int) -> PodBuilder:
    return builder.label("version", str(number % 3))


@settings(max_examples=3000 if DEEP else 30)
@given(actions)
def test_late_answers_are_safe_and_no_pod_that_fits_is_left_waiting(
    drawn: list[tuple[int, int, int]],
):
    history = History()
    for action in drawn:
        history.act(*action)
        history.nothing_is_overfull()
    history.quiesce()
    history.nothing_is_overfull()

    machine, now = history.cluster.machine, history.cluster.now
    for queued in machine.queue:
        assert queued.phase is not QueuePhase.WAITING_FOR_EXTENDERS, queued.pod.key
        fresh = found_afresh(PROFILES, machine, queued.classified, now, now)
        assert fresh.node is None, queued.pod.key
