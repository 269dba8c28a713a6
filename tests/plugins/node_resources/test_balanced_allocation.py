"""NodeResourcesBalancedAllocation: likes nodes whose resources the pod evens out."""

import statistics

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from tests.support.builders import node, pod
from tests.support.plugin_checks import scored, state_of

PLUGIN = NodeResourcesBalancedAllocation()
GPU = "example.com/gpu"


def test_a_pod_without_requests_is_not_scored():
    assert scored(PLUGIN, pod("p"), state_of(node("n1"))) is None
    assert scored(PLUGIN, pod("p").requests({GPU: "1"}), state_of(node("n1"))) is None


def test_the_node_that_the_pod_evens_out_is_better():
    state = state_of(
        node("cpu-full").cpu("1").memory("1000Mi"),
        node("memory-full").cpu("1").memory("1000Mi"),
        pod("q").on("cpu-full").cpu("500m"),
        pod("r").on("memory-full").memory("500Mi"),
    )

    wanted = pod("p").cpu("250m").memory("500Mi")

    assert scored(PLUGIN, wanted, state) == {"cpu-full": 81, "memory-full": 68}


def test_an_even_pod_on_an_even_node_changes_nothing():
    state = state_of(node("n1").cpu("1").memory("1000"))

    assert scored(PLUGIN, pod("p").cpu("100m").memory("100"), state) == {"n1": 75}


def test_a_node_with_one_of_the_resources_is_always_even():
    assert scored(PLUGIN, pod("p").cpu("1"), state_of(node("n1").cpu("4"))) == {"n1": 75}


def test_the_configuration_names_the_resources():
    plugin = NodeResourcesBalancedAllocation(["cpu", GPU])
    state = state_of(node("n1").has({"cpu": "10", GPU: "2"}))

    assert scored(plugin, pod("p").requests({"cpu": "5", GPU: "1"}), state) == {"n1": 75}
    assert scored(plugin, pod("p").requests({"cpu": "0", GPU: "1"}), state) == {"n1": 62}


amounts = st.integers(0, 12)


def balance(parts: list[tuple[int, int]]) -> int:
    """Return 100 for even fractions, less the more they differ, as upstream rounds it."""
    fractions = [min(used / capacity, 1.0) for used, capacity in parts if capacity]
    if len(fractions) < 2:
        spread = 0.0
    elif len(fractions) == 2:
        spread = abs((fractions[0] - fractions[1]) / 2)
    else:
        spread = statistics.pstdev(fractions)
    return int((1 - spread) * 100)


@settings(max_examples=200)
@given(st.lists(st.tuples(amounts, amounts, amounts), min_size=2, max_size=4))
def test_the_score_agrees_with_the_formula(parts):
    names = ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi"][: len(parts)]
    texts = [f"{{}}{'m' if name == 'cpu' else ''}" for name in names]

    def named(column: int) -> dict[str, str]:
        return {
            name: text.format(part[column])
            for name, text, part in zip(names, texts, parts, strict=True)
        }

    state = state_of(node("n1").has(named(1)), pod("q").on("n1").requests(named(0)))
    scores = scored(NodeResourcesBalancedAllocation(names), pod("p").requests(named(2)), state)

    if not any(more for _, _, more in parts):
        assert scores is None
        return
    # A device or huge page that the pod does not ask for is left out.
    counted = [
        part for name, part in zip(names, parts, strict=True) if part[2] or name in names[:3]
    ]
    before = balance([(used, capacity) for used, capacity, _ in counted])
    after = balance([(used + more, capacity) for used, capacity, more in counted])
    want = 50 + int((50 + after - before) / 2)
    assert scores is not None
    # The last bit of a square root may differ, and with it the whole number below.
    assert abs(scores["n1"] - want) <= (len(counted) > 2)
