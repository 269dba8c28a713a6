"""What pods request is summed exactly, however much it is, and nothing warns or fails."""

import warnings
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.machine import Machine
from scheduler.model.api.quantity import MAX_QUANTITY
from scheduler.model.decisions import Decision, Placed, Preempting, Unschedulable
from scheduler.model.events import NodeObserved, PodObserved
from scheduler.queue.backoff_duration import PodBackoff
from tests.support.builders import NodeBuilder, PodBuilder, node, pod
from tests.support.cluster import profiles

#: More pods of the largest amount than int64 can add up.
MANY = 1_025
HUGE = str(MAX_QUANTITY)


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


def machine(nodes: Iterable[NodeBuilder], pods: Iterable[PodBuilder]) -> Machine:
    made = Machine(profiles(), PodBackoff())
    for each in nodes:
        made.observe(NodeObserved(each.build()), 0.0)
    for pod_builder in pods:
        assert not made.observe(PodObserved(pod_builder.build()), 0.0).problem
    return made


def decided(made: Machine, wanted: PodBuilder) -> Decision:
    made.observe(PodObserved(wanted.build()), 1.0)
    attempt = made.step(1.0)
    assert attempt is not None
    return attempt.decision


def large(count: int, where: str, amount: str = HUGE, *, priority: int = 0) -> list[PodBuilder]:
    """Return pods whose creator has written the name of the node."""
    named = (pod(f"{amount}-{priority}-{each}") for each in range(count))
    return [each.on(where).memory(amount).priority(priority) for each in named]


@pytest.mark.parametrize("nodes", [2, 100], ids=["sparse", "dense"])
@pytest.mark.parametrize("where", ["n0", "ghost"])
def test_requests_that_exceed_int64_in_sum_do_not_affect_other_nodes(nodes, where):
    known = [node(f"n{each}").cpu("4").memory("8Gi") for each in range(nodes)]
    full = [pod(f"full{each}").on(f"n{each}").cpu("3") for each in range(nodes - 1)]

    made = machine(known, [*full, *large(MANY, where)])

    assert decided(made, pod("good").cpu("4").memory("1Gi")) == Placed(f"n{nodes - 1}")
    columns = made.cluster.columns
    row = columns.row(where)
    assert row is not None
    assert columns.requested(1)[row] == MANY * MAX_QUANTITY
    assert columns.non_zero(1)[row] >= MANY * MAX_QUANTITY


def test_a_preemptor_evicts_as_many_of_them_as_it_has_to():
    made = machine(
        [node("n1").memory("8Gi").pods(5000)],
        [*large(MANY, "n1"), *large(1, "n1", "1Gi")],
    )

    decision = decided(made, pod("good").memory("7Gi").priority(10))

    assert isinstance(decision, Preempting)
    assert len(decision.victims) == MANY
    assert "1Gi-0-0" not in {each.name for each in decision.victims}


def test_pods_that_may_not_be_evicted_still_use_their_resources():
    made = machine(
        [node("n1").memory("8Gi").pods(5000)],
        [*large(MANY, "n1", priority=50), *large(MANY, "n1")],
    )

    decision = decided(made, pod("good").memory("7Gi").priority(10))

    assert isinstance(decision, Unschedulable)
    assert decision.message.startswith("0/1 nodes are available: 1 Insufficient memory.")


amounts = st.sampled_from([1, 1000, 2**40, 2**52, MAX_QUANTITY])
pods = st.lists(
    st.tuples(amounts, st.sampled_from([0, 20]), st.sampled_from([1, 9, 600])), max_size=4
)


@given(there=pods, wanted=st.integers(1, 3000), capacity=st.integers(1, 4000))
def test_a_pod_fits_where_the_exact_sum_leaves_capacity(there, wanted, capacity):
    low = sum(amount * count for amount, priority, count in there if priority == 0)
    kept = sum(amount * count for amount, priority, count in there if priority)
    running = [
        each.uid(f"{place}-{number}")
        for place, (amount, priority, count) in enumerate(there)
        for number, each in enumerate(large(count, "n1", str(amount), priority=priority))
    ]
    made = machine([node("n1").memory(str(capacity)).pods(10_000)], running)

    decision = decided(made, pod("p").memory(str(wanted)).priority(10))

    if low + kept + wanted <= capacity:
        assert decision == Placed("n1")
    elif kept + wanted <= capacity:
        assert isinstance(decision, Preempting)
    else:
        assert isinstance(decision, Unschedulable)
