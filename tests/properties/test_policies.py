"""Whatever is decided under random policies: no violation, and no missed preemption."""

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from scheduler.model.api.objects import LabelSelector, Pod
from scheduler.model.api.selectors import Selector
from scheduler.model.decisions import Decision, Placed, Preempting, Unschedulable
from scheduler.model.effects import Bind, Evict, Nominate
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    DisruptionBudgets,
    ForeignVictims,
    PodSelection,
    PolicyMode,
    PreemptionLimit,
    PreemptionPolicy,
    VictimsFrom,
)
from tests.properties import clusters
from tests.properties.world import PROFILES
from tests.support import oracle_policies
from tests.support.builders import NodeBuilder, PdbBuilder, PodBuilder
from tests.support.cluster import Cluster
from tests.support.oracle_policies import History, Preempted

#: Whether to look further than in an ordinary run: `pytest --hypothesis-profile=deep`.
DEEP = settings.default.max_examples > 100

NAMES = ("a", "b", "c")


def web(name: str) -> Selector:
    return Selector.of(LabelSelector(match_labels={"app": name}))


selections = st.builds(
    PodSelection,
    pods=st.sampled_from([None, None, web("web"), web("db")]),
    min_priority=st.sampled_from([None, None, None, 0, 1]),
    max_priority=st.sampled_from([None, None, None, 1, 5]),
)
windows = st.sampled_from([60.0, 600.0, 3600.0])
budgets = st.builds(Budget, st.integers(0, 4), windows, st.sampled_from(BudgetScope))
limits = st.builds(PreemptionLimit, st.integers(0, 2), windows)
disruptions = st.sampled_from(
    [DisruptionBudgets.BEST_EFFORT, DisruptionBudgets.STRICT, DisruptionBudgets.STRICT_BELOW]
)


def seldom(strategy: st.SearchStrategy[Any], otherwise: Any) -> st.SearchStrategy[Any]:
    """Draw from a strategy one time in three."""
    return st.one_of(st.just(otherwise), st.just(otherwise), strategy)


policies = st.builds(
    PreemptionPolicy,
    name=st.sampled_from(NAMES),
    mode=st.sampled_from([PolicyMode.ENFORCE] * 4 + [PolicyMode.AUDIT]),
    preemptors=seldom(selections, PodSelection()),
    victims=seldom(selections, PodSelection()),
    disruption_budgets=seldom(disruptions, DisruptionBudgets.BEST_EFFORT),
    strict_below=st.integers(0, 6),
    budgets=seldom(st.lists(budgets, max_size=2, unique=True).map(tuple), ()),
    max_victims_per_preemption=seldom(st.integers(0, 3), None),
    victim_min_runtime=seldom(st.sampled_from([997.0, 999.0, 1100.0, 5000.0]), 0.0),
    max_preemptions_per_owner=seldom(limits, None),
    preemptor_delay=seldom(st.sampled_from([5.0, 300.0]), 0.0),
    foreign_victims=seldom(st.just(ForeignVictims.NEVER), ForeignVictims.ALWAYS),
    victims_from=seldom(st.sampled_from(VictimsFrom), VictimsFrom.ANY),
)
wanted = st.tuples(st.sampled_from(["1", "2", "4"]), st.sampled_from([1, 2, 5, 9]))
steps = st.lists(
    st.one_of(
        wanted,
        wanted,
        policies,
        st.sampled_from([*NAMES, 1.0, 59.0, 60.0, 400.0, 4000.0]),
    ),
    min_size=1,
    max_size=8,
)


class Story:
    """A cluster under policies, the history that a test keeps of it, and what it asserts."""

    def __init__(self, objects: list[object]) -> None:
        self.cluster = Cluster(using=PROFILES)
        self.cluster.hold(Bind)
        self.budgets: dict[str, PdbBuilder] = {}
        self.policies: dict[str, PreemptionPolicy] = {}
        self.history = History()
        for each in objects:
            if isinstance(each, PdbBuilder):
                self.budgets[each.key] = each
            self.cluster.add(_running(each) if isinstance(each, PodBuilder) else each)

    def take(self, step: Any, number: int) -> None:
        """Let something happen, and check every decision that follows."""
        match step:
            case PreemptionPolicy():
                self.policies[step.name] = step
                self.cluster.add(step)
            case str():
                self.policies.pop(step, None)
                self.cluster.delete_policy(step)
            case float():
                self.cluster.finish_terminating()
                self.cluster.wait(step)
            case cpu, priority:
                preemptor = clusters.pod(f"p{number}").cpu(cpu).priority(priority)
                self.cluster.add(preemptor.label("app", "web").owner("Job", f"j{number % 2}"))
        for _ in range(50):
            if not self.decide():
                return

    def decide(self) -> bool:
        """Decide once and check it; tell whether there was anything to decide."""
        cluster, now = self.cluster, self.cluster.now
        before = Before(cluster, self.budgets.values())
        told = len(cluster.effects)
        plain = not len(cluster.machine.ledger.backoff) and not cluster.machine.cluster.overdue
        attempt = cluster.step()
        if attempt is None:
            return False
        preemptor = before.pods[attempt.pod.uid]
        event(type(attempt.decision).__name__)
        self.check(before, preemptor, attempt.decision, complete=plain)
        if not isinstance(attempt.decision, Placed):
            self.history.since.setdefault(preemptor.uid, now)
        if isinstance(attempt.decision, Preempting):
            asked = [
                effect.victim.uid for effect in cluster.effects[told:] if isinstance(effect, Evict)
            ]
            victims = [before.pods[uid] for uid in asked]
            self.record(preemptor, attempt.decision.node, victims)
        return True

    def record(self, preemptor: Pod, node: str, victims: list[Pod]) -> None:
        """Write a preemption down, and let disruption budgets account for it."""
        bound = tuple(
            each for each in self.policies.values()
            if oracle_policies.selects(each.preemptors, preemptor)
        )  # fmt: skip
        if victims:
            self.history.preempted.append(
                Preempted(self.cluster.now, preemptor, node, tuple(victims), bound)
            )
        for key, builder in self.budgets.items():
            protected = [pod for pod in victims if oracle_policies.protects(builder.build(), pod)]
            if protected:
                status = builder.object.status
                names = {*status.disrupted_pods, *(pod.metadata.name for pod in protected)}
                left = status.disruptions_allowed - len(protected)
                self.budgets[key] = builder.allows(left).disrupted(*sorted(names))
                self.cluster.add(self.budgets[key])

    def check(
        self, before: "Before", preemptor: Pod, decision: Decision, *, complete: bool
    ) -> None:
        """Assert that a decision is allowed, and that it is the best of what is allowed."""
        bound = oracle_policies.binding(self.policies.values(), preemptor)
        now, pdbs = self.cluster.now, [each.build() for each in self.budgets.values()]

        def allows(wanted: Decision) -> bool:
            assert isinstance(wanted, Preempting)
            victims = tuple(before.pods[ref.uid] for ref in wanted.victims)
            preempted = Preempted(now, preemptor, wanted.node, victims)
            return not any(
                oracle_policies.refuses(each, pdbs, self.history, preempted) for each in bound
            )

        if isinstance(decision, Preempting):
            assert allows(decision)
        if not complete or isinstance(before.without_policies(preemptor), Placed):
            return
        stay = {
            pod.uid
            for pod in before.pods.values()
            if any(oracle_policies.must_stay(each, preemptor, pod, now) for each in bound)
        }
        refused: set[str] = set()
        while isinstance(wanted := before.without_policies(preemptor, stay, refused), Preempting):
            if allows(wanted):
                assert isinstance(decision, Preempting)
                assert (decision.node, decision.victims) == (wanted.node, wanted.victims)
                return
            refused.add(wanted.node)
        assert isinstance(decision, Unschedulable)


#: Higher than any other priority.
UNTOUCHABLE = 10**6


class Before:
    """A cluster before a decision, from which others without policies are made."""

    def __init__(self, cluster: Cluster, budgets: Iterable[PdbBuilder]) -> None:
        state = cluster.machine.cluster
        self.pods = dict(cluster.pods)
        self._now, self._budgets = cluster.now, [*budgets]
        self._nodes = [NodeBuilder(each) for each in state.columns.nodes if each is not None]
        self._placed = [
            (name, state.pods.pod(slot))
            for row, name in enumerate(state.columns.names)
            for slot in state.pods.on_row(row)
        ]
        self._nominated = [(each.node, each.pod) for each in state.nominations]

    def without_policies(
        self, preemptor: Pod, stay: Container[str] = (), refused: Container[str] = ()
    ) -> Decision:
        """Decide where some pods are no victims, and some nodes no candidates."""
        cluster = Cluster(using=PROFILES)
        cluster.hold(Bind, Nominate)
        cluster.now = self._now
        for each in self._nodes:
            cluster.add(each.cordoned() if each.object.metadata.name in refused else each)
        cluster.add(*self._budgets)
        for name, pod in self._placed:
            placed = PodBuilder(pod).spec(node_name=name)
            cluster.add(placed.priority(UNTOUCHABLE) if pod.uid in stay else placed)
        for name, pod in self._nominated:
            if pod.uid != preemptor.uid:
                cluster.add(PodBuilder(pod).scheduler("other").nominated(name))
        return cluster.schedule(preemptor)


def _running(placed: PodBuilder) -> PodBuilder:
    """Return a pod with an owner, ready where it runs, sometimes of another scheduler.

    Some share the owner of preemptors; those of another namespace only seem to.
    """
    name = placed.object.metadata.name
    if not placed.object.spec.node_name:
        return placed
    owned = placed.condition("Ready", "True").owner("ReplicaSet", name[-1])
    if name.endswith(("1", "3")):
        owned = owned.owner("Job", f"j{int(name[-1]) // 2}")
    if name.endswith("4"):
        owned = owned.namespace("team").owner("Job", "j0")
    return owned.scheduler("other") if name.endswith("2") else owned


@settings(max_examples=3000 if DEEP else 60)
@given(clusters.clusters(), st.lists(policies, max_size=3), steps)
def test_no_rule_is_violated_and_no_allowed_preemption_is_missed(drawn, first, following):
    objects, _ = drawn
    story = Story(objects)
    for number, step in enumerate([*first, *following]):
        story.take(step, number)
    story.cluster.machine.check()


@settings(max_examples=1000 if DEEP else 40)
@given(clusters.clusters(), st.lists(policies, min_size=1, max_size=3))
def test_policies_without_a_rule_or_in_audit_change_nothing(drawn, chosen):
    objects, incoming = drawn
    without = clusters.built(objects)
    bound = clusters.built(objects)
    for each in chosen:
        bound.add(replace(each, mode=PolicyMode.AUDIT))
    bound.add(PreemptionPolicy("none"))
    without.add(incoming)
    bound.add(incoming)

    assert bound.step().decision == without.step().decision
