"""What shadow mode finds about acts of another scheduler, and what it keeps."""

import pytest

from scheduler.model.events import Event, PodObserved
from scheduler.model.policies import PreemptionPolicy
from scheduler.observe.shadow import acts
from scheduler.observe.shadow import shadow as module
from scheduler.observe.shadow.acts import act_of
from scheduler.observe.shadow.comparison import Outcome
from scheduler.observe.shadow.shadow import Shadow
from scheduler.state.trial import Trial
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster

NAME = "preemptive-scheduler"
EVICTED = ("DisruptionTarget", "True", "PreemptionByScheduler")


class Watched(Cluster):
    """A cluster whose pods another scheduler schedules; nothing is decided here."""

    shadow: Shadow | None = None

    def watch(self) -> Shadow:
        self.shadow = Shadow(self.machine)
        return self.shadow

    def observe(self, event: Event) -> None:
        if self.shadow is not None:
            self.shadow.before(event, self.now)
        super().observe(event)

    # What the other scheduler does

    def bind(self, name: str, on: str) -> None:
        self.change(name, lambda each: each.on(on))

    def reject(self, name: str) -> None:
        self.change(name, lambda each: each.condition("PodScheduled", "False", "Unschedulable"))

    def nominate(self, name: str, to: str) -> None:
        self.change(name, lambda each: each.nominated(to))

    def evict(self, name: str, by: str = NAME) -> None:
        message = f"{by}: preempting to accommodate a higher priority pod"
        self.change(name, lambda each: each.condition(*EVICTED, message))
        self.change(name, PodBuilder.terminating)


def cluster(*objects: object) -> tuple[Watched, Shadow]:
    made = Watched(*objects)
    return made, made.watch()


def found(shadow: Shadow) -> dict[str, int]:
    return {outcome.value: count for outcome, count in shadow.outcomes.items() if count}


SMALL, LARGE = node("small").cpu("4"), node("large").cpu("8")


@pytest.mark.parametrize(
    ("nodes", "wanted", "on", "outcome"),
    [
        pytest.param([SMALL, LARGE], pod("a").cpu("1"), "large", "same_node", id="the best node"),
        pytest.param(
            [SMALL, node("twin").cpu("4")], pod("a").cpu("1"), "either", "same", id="equal nodes"
        ),
        pytest.param([SMALL, LARGE], pod("a").cpu("1"), "small", "other_node", id="another node"),
        pytest.param(
            [SMALL, LARGE], pod("a").cpu("6"), "small", "node_infeasible", id="a full node"
        ),
        pytest.param([SMALL], pod("a").cpu("6"), "small", "no_room", id="no room at all"),
        pytest.param([SMALL], pod("a").cpu("1"), "", "would_place", id="it is left pending"),
        pytest.param([SMALL], pod("a").cpu("6"), "", "both_unschedulable", id="both leave it"),
    ],
)
def test_a_pod_that_is_bound_or_rejected_is_compared(nodes, wanted, on, outcome):
    for where in ("small", "twin") if on == "either" else (on,):
        there, shadow = cluster(*nodes, wanted)

        if where:
            there.bind("a", where)
        else:
            there.reject("a")

        (name,) = found(shadow)
        assert name in (("same_node", "equal_node") if on == "either" else (outcome,))
        kept = [each.outcome.value for each in shadow.differences]
        alike = name in ("same_node", "equal_node", "both_unschedulable")
        assert kept == ([] if alike else [name])


def test_a_rejection_counts_once():
    there, shadow = cluster(SMALL, pod("a").cpu("6"))

    there.reject("a")
    there.change("a", lambda each: each.label("x", "y"))

    assert found(shadow) == {"both_unschedulable": 1}


def test_a_pod_that_fits_where_they_evict_is_a_preemption_added_or_avoided():
    low = pod("low").cpu("4").on("small").priority(1)
    there, shadow = cluster(SMALL, low, pod("a").cpu("4").priority(9))

    there.reject("a")

    assert found(shadow) == {"preemption_added": 1}
    (kept,) = shadow.differences
    assert (kept.our_node, kept.our_cost.victims, kept.their_cost.victims) == ("small", 1, 0)


NOMINATE, EVICT, GONE, BIND = "nominate", "evict", "gone", "bind"


@pytest.mark.parametrize(
    "order",
    [
        pytest.param((NOMINATE, EVICT, GONE, BIND), id="the nomination comes first"),
        pytest.param((EVICT, NOMINATE, GONE, BIND), id="the victim terminates before"),
        pytest.param((EVICT, GONE, NOMINATE, BIND), id="the victim is gone before"),
        pytest.param((EVICT, GONE, BIND), id="the nomination is not seen"),
        pytest.param((NOMINATE, EVICT), id="it is not bound for a while"),
    ],
)
def test_a_preemption_is_decided_on_the_state_before_it(order):
    low = pod("low").cpu("4").on("small").priority(1)
    there, shadow = cluster(SMALL, low, pod("a").cpu("4").priority(9))

    for act in order:
        match act:
            case "nominate":
                there.nominate("a", "small")
            case "evict":
                there.evict("low")
            case "gone":
                there.delete("low")
            case _:
                there.bind("a", "small")
    shadow.tick(there.now + 10.0)

    assert found(shadow) == {"same_preemption": 1}
    assert (shadow.their_cost.victims, shadow.our_cost.victims) == (1, 1)
    there.machine.check()


@pytest.mark.parametrize("gone", [(), ("low-0",), ("low-0", "low-1")])
def test_a_policy_counts_victims_that_are_leaving_or_gone_already(gone):
    lows = [pod(f"low-{i}").cpu("2").on("small").priority(1) for i in range(2)]
    one = PreemptionPolicy("one", max_victims_per_preemption=1)
    there, shadow = cluster(SMALL, *lows, one, pod("a").cpu("4").priority(9))

    there.evict("low-0")
    there.evict("low-1")
    for name in gone:
        there.delete(name)
    there.nominate("a", "small")
    shadow.tick(there.now + 10.0)

    assert found(shadow) == {"preemption_avoided": 1}
    there.machine.check()


def test_victims_of_other_schedulers_do_not_count():
    low = pod("low").cpu("4").on("small").priority(1)
    there, shadow = cluster(SMALL, low, pod("a").cpu("4").priority(9))

    there.evict("low", by="another")
    there.delete("low")
    there.bind("a", "small")

    assert found(shadow) == {"same_node": 1}


def test_a_pod_that_says_that_it_is_evicted_and_stays_is_no_victim():
    low = pod("low").cpu("1").on("small").priority(1)
    there, shadow = cluster(SMALL, low, pod("a").cpu("1").priority(9))

    message = f"{NAME}: preempting to accommodate a higher priority pod"
    there.change("low", lambda each: each.condition(*EVICTED, message))
    there.bind("a", "small")

    assert found(shadow) == {"same_node": 1}
    assert shadow.their_cost.victims == 0


def test_evictions_for_a_pod_that_would_fit_elsewhere_would_be_avoided():
    low = pod("low").cpu("4").on("small").priority(1).started(-3600)
    there, shadow = cluster(SMALL, LARGE, low, pod("a").cpu("4").priority(9))

    there.nominate("a", "small")
    there.evict("low")
    there.delete("low")
    there.bind("a", "small")

    assert found(shadow) == {"preemption_avoided": 1}
    (kept,) = shadow.differences
    assert (kept.their_node, kept.our_node, kept.our_cost.victims) == ("small", "large", 0)
    assert [victim.name for victim in kept.their_victims] == ["low"]
    assert shadow.their_cost.cpu > 0
    assert not any(shadow.our_cost)


def test_everything_that_is_kept_is_limited(monkeypatch):
    monkeypatch.setattr(module, "_MAX_NOMINATED", 2)
    there, shadow = cluster(SMALL, *(pod(f"a-{i}").cpu("1").priority(9) for i in range(9)))

    for i in range(9):
        there.nominate(f"a-{i}", "small")

    assert len(shadow._preemptors) == 2
    assert shadow.differences.maxlen == module.MAX_DIFFERENCES
    there.delete("a-8")
    assert len(shadow._preemptors) == 1


def test_an_act_that_is_late_is_only_counted():
    there, shadow = cluster(SMALL, pod("a").cpu("1"))
    queued = there.pod("a")
    bound = PodBuilder(queued).on("small").build()
    assert act_of(queued, bound) is not None

    shadow.before(PodObserved(bound), there.now, compare=False)

    assert found(shadow) == {Outcome.NOT_COMPARED.value: 1}


def test_a_node_that_was_announced_before_the_binding_does_not_make_us_agree():
    there, shadow = cluster(SMALL, LARGE, pod("a").cpu("1"))

    there.nominate("a", "small")
    there.bind("a", "small")

    assert found(shadow) == {"other_node": 1}


def test_a_preemption_counts_although_the_preemptor_is_deleted_at_once():
    low = pod("low").cpu("4").on("small").priority(1)
    there, shadow = cluster(SMALL, low, pod("a").cpu("4").priority(9))

    there.nominate("a", "small")
    there.evict("low")
    there.delete("a")

    assert found(shadow) == {"same_preemption": 1}
    assert shadow.their_cost.victims == 1


def test_explanations_of_nominations_are_limited_as_well(monkeypatch):
    monkeypatch.setattr(module, "_EXPLAINED_AT_ONCE", 2)
    there, shadow = cluster(SMALL, LARGE, *(pod(f"a-{i}").cpu("100m") for i in range(9)))

    for i in range(9):
        there.nominate(f"a-{i}", "small")

    explained = [each.judgement.found for each in shadow._preemptors.values()]
    assert [bool(each) for each in explained] == [True] * 2 + [False] * 7


def test_evicted_pods_are_forgotten_by_node_as_well(monkeypatch):
    monkeypatch.setattr(acts, "_MAX_EVICTED", 2)
    lows = [pod(f"low-{i}").cpu("1").on(on).priority(1) for i, on in enumerate(["small"] * 3)]
    there, shadow = cluster(SMALL, *lows, pod("a").cpu("4").priority(9))

    for low in lows:
        there.evict(low.build().metadata.name)
    assert len(shadow._evictions) == 2
    there.nominate("a", "small")
    shadow.tick(there.now + 10.0)

    assert shadow.their_cost.victims == 2
    assert len(shadow._evictions) == 0
    assert shadow._evictions._by_node == {}


def test_a_trial_that_cannot_be_undone_ends_the_process(monkeypatch):
    """The state is wrong then: comparisons must not go on with it."""
    low = pod("low").cpu("4").on("small").priority(1)
    there, _ = cluster(SMALL, low, pod("a").cpu("4").priority(9))
    there.evict("low")
    there.delete("low")

    def broken(*_: object) -> None:
        raise RuntimeError("the cluster was changed from outside during a trial")

    monkeypatch.setattr(Trial, "undo", broken)
    with pytest.raises(RuntimeError, match="during a trial"):
        there.nominate("a", "small")
