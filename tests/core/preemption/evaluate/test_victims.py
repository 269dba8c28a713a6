"""The victims on a node: remove all lower pods, add back the most important first."""

import pytest

from scheduler.model.decisions import Preempting, Unschedulable
from tests.support.builders import PodBuilder, node, pdb, pod
from tests.support.cluster import Cluster
from tests.support.custom_plugins import OnePodPerNode, with_filters

HIGH = 100


def running(name: str, cpu: str, priority: int = 0, **labels: str) -> PodBuilder:
    builder = pod(name).on("n1").cpu(cpu).priority(priority)
    for key, value in labels.items():
        builder = builder.label(key, value)
    return builder


def victims(cluster: Cluster, cpu: str = "1") -> list[str]:
    """Return the names of the victims, most important first."""
    decision = cluster.schedule(pod("p").cpu(cpu).priority(HIGH))
    assert isinstance(decision, Preempting), decision
    return [ref.name for ref in decision.victims]


def one_node(cpu: str, *objects: object, **facts: object) -> Cluster:
    return Cluster(node("n1").cpu(cpu), *objects, **facts)


def test_the_least_important_pod_whose_eviction_helps_is_the_victim():
    cluster = one_node("4", running("low", "2", 1), running("mid", "2", 5))

    assert victims(cluster, "2") == ["low"]


def test_victims_are_reprieved_from_the_most_important_one_on():
    cluster = one_node("10", running("a", "3", 30), running("b", "3", 20), running("c", "4", 10))

    assert victims(cluster, "5") == ["b", "c"]


def test_a_small_pod_of_low_priority_may_stay_where_a_large_one_is_the_victim():
    cluster = one_node("5", running("small", "1", 0), running("large", "3", 50))

    assert victims(cluster, "3") == ["large"]


def test_of_equal_priority_the_pod_that_runs_longer_stays():
    cluster = one_node(
        "3",
        running("newest", "1").started(30),
        running("oldest", "1").started(10),
        running("middle", "1").started(20),
    )

    assert victims(cluster, "1") == ["newest"]


def test_victims_are_named_most_important_first():
    cluster = one_node("3", running("low", "1", 1), running("high", "1", 9), running("mid", "1", 5))

    assert victims(cluster, "3") == ["high", "mid", "low"]


def test_higher_pods_are_no_victims():
    cluster = one_node("4", running("peer", "2", HIGH), running("low", "2"))

    assert victims(cluster, "2") == ["low"]
    assert isinstance(cluster.schedule(pod("q").cpu("3").priority(HIGH)), Unschedulable)


def test_every_lower_pod_is_a_victim_on_a_node_that_is_overfull():
    cluster = Cluster(node("n1").pods(1), running("a", "0", 5), running("b", "0", 1))

    assert victims(cluster, "0") == ["a", "b"]


def test_a_terminating_pod_that_blocks_the_preemptor_is_a_victim_like_any_other():
    cluster = one_node("2", running("terminating", "1", 9).terminating(), running("low", "1", 1))

    assert victims(cluster, "2") == ["terminating", "low"]


def test_the_pod_with_the_host_port_is_the_victim():
    cluster = one_node("4", running("holder", "0", 9).port(80), running("bystander", "0").port(81))
    decision = cluster.schedule(pod("p").port(80).priority(HIGH))

    assert isinstance(decision, Preempting)
    assert decision.victims == cluster.refs("holder")


def test_the_number_of_pods_can_be_what_is_scarce():
    cluster = Cluster(node("n1").pods(2).cpu("8"), running("a", "1", 1), running("b", "1", 2))

    assert victims(cluster, "1") == ["a"]


def test_an_extended_resource_can_be_what_is_scarce():
    user = running("user", "0", 9).requests({"example.com/gpu": "1"})
    cluster = Cluster(node("n1").cpu("4").has({"example.com/gpu": "1"}), user, running("low", "1"))

    decision = cluster.schedule(pod("p").requests({"example.com/gpu": "1"}).priority(HIGH))

    assert isinstance(decision, Preempting)
    assert decision.victims == cluster.refs("user")


def test_pods_of_daemon_sets_and_of_other_schedulers_are_victims_too():
    cluster = one_node(
        "2",
        running("agent", "1").owner("DaemonSet", "agent"),
        running("foreign", "1").scheduler("other"),
    )

    assert victims(cluster, "2") == ["agent", "foreign"]


def test_a_nominated_pod_of_equal_priority_is_counted():
    cluster = one_node("4", running("a", "2", 2), running("b", "2", 1))
    cluster.add(pod("nominee").scheduler("other").cpu("1").priority(HIGH).nominated("n1"))

    assert victims(cluster, "2") == ["a", "b"]


def test_a_lower_nominated_pod_is_not_counted():
    cluster = one_node("4", running("a", "2", 2), running("b", "2", 1))
    cluster.add(pod("nominee").scheduler("other").cpu("2").priority(HIGH - 1).nominated("n1"))

    assert victims(cluster, "2") == ["b"]


def test_a_node_filter_runs_for_each_pod_that_is_added_back():
    cluster = one_node(
        "9", running("a", "1", 2), running("b", "1", 1), using=with_filters(OnePodPerNode())
    )

    assert victims(cluster) == ["a", "b"]


def test_nodes_are_evaluated_each_on_its_own():
    cluster = Cluster(
        node("n1").cpu("4"), node("n2").cpu("4"), node("n3").cpu("4"),
        running("a", "4", 5),
        pod("b").on("n2").cpu("2").priority(3), pod("c").on("n2").cpu("2").priority(4),
        pod("d").on("n3").cpu("4").priority(HIGH),
    )  # fmt: skip

    decision = cluster.schedule(pod("p").cpu("2").priority(HIGH))

    assert isinstance(decision, Preempting)
    assert (decision.node, decision.victims) == ("n2", cluster.refs("b"))


@pytest.mark.parametrize("size", [5, 300])
def test_a_node_with_many_pods_is_evaluated_like_any_other(size):
    crowd = [running(f"p{number:03}", "10m", number) for number in range(size)]
    cluster = Cluster(node("n1").cpu(f"{10 * size}m").pods(size + 1), *crowd)

    decision = cluster.schedule(pod("p").cpu("20m").priority(size + 1))

    assert isinstance(decision, Preempting)
    assert [ref.name for ref in decision.victims] == ["p001", "p000"]


# Budgets


def protected(*objects: object, allowed: int = 0, **facts: object) -> Cluster:
    return one_node("3", pdb("b").selects(app="web").allows(allowed), *objects, **facts)


def violations(cluster: Cluster, cpu: str) -> tuple[list[str], int]:
    decision = cluster.schedule(pod("p").cpu(cpu).priority(HIGH))
    assert isinstance(decision, Preempting), decision
    return [ref.name for ref in decision.victims], decision.violations


def test_a_pod_that_no_budget_protects_is_evicted_before_a_protected_one():
    cluster = protected(
        running("a", "1", 1, app="web"), running("b", "1", 2, app="web"), running("free", "1", 9)
    )

    assert violations(cluster, "1") == (["free"], 0)


def test_protected_pods_are_victims_where_nothing_else_helps_and_are_counted():
    cluster = protected(
        running("a", "1", 1, app="web"), running("b", "1", 2, app="web"), running("free", "1", 9)
    )

    assert violations(cluster, "3") == (["free", "b", "a"], 2)


def test_a_budget_covers_the_most_important_pods_first():
    cluster = protected(
        running("a", "1", 1, app="web"), running("b", "1", 2, app="web"),
        running("c", "1", 3, app="web"), allowed=2,
    )  # fmt: skip

    assert violations(cluster, "3") == (["c", "b", "a"], 1)


def test_the_pod_that_a_budget_does_not_cover_is_added_back_first():
    cluster = protected(
        running("a", "1", 1, app="web"), running("b", "1", 2, app="web"),
        running("c", "1", 3, app="web"), allowed=2,
    )  # fmt: skip

    assert violations(cluster, "1") == (["b"], 0)


def test_a_pod_that_was_evicted_before_is_not_charged():
    cluster = one_node(
        "2",
        pdb("b").selects(app="web").allows(1).disrupted("a"),
        running("a", "1", 1, app="web"),
        running("b", "1", 2, app="web"),
    )

    assert violations(cluster, "2") == (["b", "a"], 0)


def test_a_pod_violates_when_one_of_its_budgets_is_used_up():
    cluster = one_node(
        "1",
        pdb("wide").selects(app="web").allows(5),
        pdb("narrow").selects(tier="front").allows(0),
        running("a", "1", 1, app="web", tier="front"),
    )

    assert violations(cluster, "1") == (["a"], 1)


def test_every_budget_of_a_pod_is_charged():
    cluster = one_node(
        "2",
        pdb("one").selects(app="web").allows(1),
        pdb("two").selects(tier="front").allows(1),
        running("a", "1", 2, app="web", tier="front"),
        running("b", "1", 1, tier="front"),
    )

    assert violations(cluster, "2") == (["a", "b"], 1)


def test_a_negative_allowance_protects_all_pods():
    assert violations(protected(running("a", "1", 1, app="web"), allowed=-3), "3") == (["a"], 1)


def test_an_allowance_that_changes_counts_at_once():
    cluster = protected(running("a", "3", 1, app="web"))
    cluster.add(pdb("b").selects(app="web").allows(1))

    assert violations(cluster, "3") == (["a"], 0)


@pytest.mark.parametrize(("allowed", "want"), [(1, ["new", "old"]), (0, ["old", "new"])])
def test_equal_victims_that_have_not_started_are_reversed_next_to_a_protected_pod(allowed, want):
    cluster = one_node(
        "3",
        pdb("b").selects(app="web").allows(allowed),
        running("old", "1").not_started(),
        running("new", "1").not_started(),
        running("web", "1", app="web"),
    )

    assert victims(cluster, "2") == want


def test_the_most_important_victim_comes_first_next_to_a_protected_pod():
    cluster = one_node(
        "3",
        pdb("b").selects(app="web").allows(0),
        running("low", "1", 1),
        running("mid", "1", 2),
        running("web", "1", app="web"),
    )

    assert victims(cluster, "3") == ["mid", "low", "web"]
