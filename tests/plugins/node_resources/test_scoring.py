"""The scores of NodeResourcesFit: by strategy, with upstream's integer arithmetic."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.profile import Profile
from scheduler.model.api.objects import ResourceRequirements
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.plugins.node_resources.scoring_strategies import requested_to_capacity_ratio
from tests.support.builders import OURS, node, pod
from tests.support.cluster import profiles
from tests.support.plugin_checks import scored, state_of

GPU = "example.com/gpu"
BOTH = "[{name: cpu, weight: 1}, {name: memory, weight: 1}]"
CPU_ONLY = "[{name: cpu, weight: 1}]"


def fit(
    strategy: str,
    resources: str = "[{name: cpu, weight: 1}, {name: memory, weight: 1}]",
    more: str = "",
):
    """Return the plugin that a configuration makes."""
    config = f"""
        profiles:
        - pluginConfig:
          - name: NodeResourcesFit
            args: {{scoringStrategy: {{type: {strategy}, resources: {resources}{more}}}}}
    """
    profile: Profile = profiles(config)[OURS]
    return next(plugin for plugin, _ in profile.scores if isinstance(plugin, NodeResourcesFit))


TWO = state_of(
    node("empty").cpu("1").memory("1000Mi"),
    node("half").cpu("1").memory("1000Mi"),
    pod("q").on("half").cpu("500m").memory("500Mi"),
)


def test_least_allocated_prefers_the_emptier_node():
    assert scored(fit("LeastAllocated"), pod("p").cpu("100m").memory("100Mi"), TWO) == {
        "empty": 90,
        "half": 40,
    }


def test_most_allocated_prefers_the_fuller_node():
    assert scored(fit("MostAllocated"), pod("p").cpu("100m").memory("100Mi"), TWO) == {
        "empty": 10,
        "half": 60,
    }


def test_a_pod_without_requests_counts_with_the_default_requests():
    state = state_of(node("n1").cpu("1").memory("2000Mi"))

    assert scored(fit("LeastAllocated"), pod("p"), state) == {"n1": 90}


def test_pods_that_are_there_count_at_the_defaults_too():
    state = state_of(node("n1").cpu("1").memory("2000Mi"), pod("q").on("n1"), pod("r").on("n1"))

    assert scored(fit("LeastAllocated"), pod("p"), state) == {"n1": 70}


def test_a_resource_that_a_node_lacks_is_left_out():
    state = state_of(node("n1").cpu("1"), node("n2"))

    assert scored(fit("LeastAllocated"), pod("p").cpu("500m"), state) == {"n1": 50, "n2": 0}


@pytest.mark.parametrize(("strategy", "want"), [("LeastAllocated", 0), ("MostAllocated", 100)])
def test_more_than_there_is_counts_as_all(strategy, want):
    state = state_of(node("n1").cpu("1"), pod("q").on("n1").cpu("3"))

    assert scored(fit(strategy, CPU_ONLY), pod("p").cpu("1"), state) == {"n1": want}


def test_weights_weigh():
    weighted = fit("LeastAllocated", "[{name: cpu, weight: 3}, {name: memory, weight: 1}]")
    state = state_of(node("n1").cpu("1").memory("1000"))

    assert scored(weighted, pod("p").requests(cpu="500m", memory="900"), state) == {"n1": 40}


def test_an_extended_resource_is_scored_for_pods_that_request_it():
    plugin = fit("LeastAllocated", f"[{{name: {GPU}, weight: 1}}]")
    state = state_of(node("n1").has({GPU: "4"}), pod("q").on("n1").requests({GPU: "1"}))

    assert scored(plugin, pod("p").requests({GPU: "1"}), state) == {"n1": 50}
    assert scored(plugin, pod("p").cpu("1"), state) == {"n1": 0}


def test_requests_at_pod_level_are_ignored():
    plugin = fit("LeastAllocated", CPU_ONLY)
    wanted = pod("p").cpu("100m").spec(resources=ResourceRequirements({"cpu": "800m"}))

    assert scored(plugin, wanted, state_of(node("n1").cpu("1"))) == {"n1": 90}


# Lines through points


SHAPE = (
    ", requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, "
    "{utilization: 50, score: 10}, {utilization: 100, score: 2}]}"
)


@pytest.mark.parametrize(
    ("used", "want"), [("0", 0), ("250m", 50), ("500m", 100), ("750m", 60), ("1", 20), ("3", 20)]
)
def test_a_ratio_is_scored_by_lines_through_points(used, want):
    plugin = fit("RequestedToCapacityRatio", CPU_ONLY, SHAPE)
    state = state_of(node("n1").cpu("1"))

    assert scored(plugin, pod("p").requests(cpu=used), state) == {"n1": want}


def test_resources_without_points_do_not_count_in_the_ratio():
    plugin = fit(
        "RequestedToCapacityRatio", "[{name: cpu, weight: 1}, {name: memory, weight: 1}]", SHAPE
    )
    state = state_of(node("n1").cpu("1").memory("1Gi"))

    assert scored(plugin, pod("p").requests(cpu="500m", memory="0"), state) == {"n1": 100}
    assert scored(plugin, pod("p").requests(cpu="0", memory="0"), state) == {"n1": 0}


def upstream_line(points: list[tuple[int, int]], at: int) -> int:
    """Follow the line as Go does: truncating towards zero."""
    for place, (x, y) in enumerate(points):
        if at <= x:
            if place == 0:
                return y
            x0, y0 = points[place - 1]
            return y0 + math.trunc(Fraction((y - y0) * (at - x0), x - x0))
    return points[-1][1]


shapes = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 10)),
    min_size=1, max_size=5, unique_by=lambda point: point[0],
).map(sorted)  # fmt: skip
amounts = st.integers(0, 30)


def go_round(number: Fraction) -> int:
    return math.floor(number + Fraction(1, 2))


@settings(max_examples=150)
@given(shapes, st.lists(st.tuples(amounts, amounts, st.integers(1, 5)), min_size=1, max_size=3))
def test_the_ratio_agrees_with_the_formula(shape, parts):
    points = [(x, y * 10) for x, y in shape]
    names = ["cpu", "memory", "ephemeral-storage"][: len(parts)]
    weights = [(name, weight) for name, (_, _, weight) in zip(names, parts, strict=True)]
    plugin = NodeResourcesFit(requested_to_capacity_ratio(shape), weights)
    has, wanted = {}, {}
    total = weight_sum = 0
    for name, (used, capacity, weight) in zip(names, parts, strict=True):
        has[name], wanted[name] = _text(name, capacity), _text(name, used)
        score = 0
        if capacity:
            percent = 100 if used > capacity else used * 100 // capacity
            score = upstream_line(points, percent)
        if score > 0:
            total, weight_sum = total + score * weight, weight_sum + weight

    want = go_round(Fraction(total, weight_sum)) if weight_sum else 0
    state = state_of(node("n1").has(has))
    scores = scored(plugin, pod("p").requests({"cpu": "0", "memory": "0", **wanted}), state)

    assert scores == {"n1": want}


@settings(max_examples=100)
@given(
    st.lists(st.tuples(amounts, amounts, st.integers(1, 5)), min_size=1, max_size=3), st.booleans()
)
def test_least_and_most_agree_with_the_formula(parts, least):
    names = ["cpu", "memory", "ephemeral-storage"][: len(parts)]
    resources = [
        f"{{name: {name}, weight: {weight}}}"
        for name, (_, _, weight) in zip(names, parts, strict=True)
    ]
    plugin = fit("LeastAllocated" if least else "MostAllocated", f"[{', '.join(resources)}]")
    has, wanted = {}, {}
    total = weight_sum = 0
    for name, (used, capacity, weight) in zip(names, parts, strict=True):
        has[name], wanted[name] = _text(name, capacity), _text(name, used)
        if capacity:
            over = 0 if least else 100
            free = (capacity - used) if least else used
            total += weight * (over if used > capacity else free * 100 // capacity)
            weight_sum += weight

    state = state_of(node("n1").has(has))
    scores = scored(plugin, pod("p").requests({"cpu": "0", "memory": "0", **wanted}), state)

    assert scores == {"n1": total // weight_sum if weight_sum else 0}


def _text(name: str, amount: int) -> str:
    return f"{amount}m" if name == "cpu" else str(amount)
