"""Changes of a cluster after which the decision must be the same."""

from collections.abc import Callable

from hypothesis import given, settings
from msgspec.structs import replace

from scheduler.model.decisions import Decision, Preempting
from tests.properties.clusters import built, clusters
from tests.support.builders import NodeBuilder, PodBuilder, node, pod

EXAMPLES = 25


def decided(objects: list[object], incoming: PodBuilder) -> Decision:
    cluster = built(objects)
    cluster.add(incoming)
    return cluster.step().decision


def essence(decision: Decision) -> tuple[object, ...]:
    """Return a decision without its message."""
    victims = decision.victims if isinstance(decision, Preempting) else ()
    return type(decision), getattr(decision, "node", None), victims


def each_pod(
    objects: list[object], incoming: PodBuilder, how: Callable[[PodBuilder], PodBuilder]
) -> tuple[list[object], PodBuilder]:
    return [how(each) if isinstance(each, PodBuilder) else each for each in objects], how(incoming)


@settings(max_examples=EXAMPLES)
@given(clusters())
def test_all_priorities_may_be_raised_by_the_same_amount(drawn):
    raised = each_pod(*drawn, lambda p: p.priority(p.object.spec.priority + 1_000_000))

    assert decided(*raised) == decided(*drawn)


@settings(max_examples=EXAMPLES)
@given(clusters())
def test_amounts_may_be_spelled_otherwise(drawn):
    def spelled(builder: PodBuilder) -> PodBuilder:
        cores = builder.object.spec.containers[0].resources.requests["cpu"]
        return builder.cpu(f"{cores}000m")

    assert decided(*each_pod(*drawn, spelled)) == decided(*drawn)


@settings(max_examples=EXAMPLES)
@given(clusters())
def test_a_request_may_be_split_over_two_containers(drawn):
    def split(builder: PodBuilder) -> PodBuilder:
        first = builder.object.spec.containers[0]
        cores = int(first.resources.requests["cpu"]) * 500
        half = replace(first.resources, requests={**first.resources.requests, "cpu": f"{cores}m"})
        more = replace(
            first, name="more", ports=[], resources=replace(half, requests={"cpu": f"{cores}m"})
        )
        return builder.containers(replace(first, resources=half), more)

    wanted = drawn[0], split(drawn[1])
    assert essence(decided(*wanted)) == essence(decided(*drawn))


@settings(max_examples=EXAMPLES)
@given(clusters())
def test_a_node_full_of_more_important_pods_changes_nothing(drawn):
    objects, incoming = drawn
    full = [node("full").cpu("2"), pod("boss").on("full").cpu("2").priority(1000)]
    small = incoming.cpu("1") if incoming.object.spec.containers[0].resources.requests[
        "cpu"
    ] == "0" else incoming  # fmt: skip

    assert essence(decided([*objects, *full], small)) == essence(decided(objects, small))


@settings(max_examples=EXAMPLES)
@given(clusters())
def test_the_order_in_which_nodes_are_added_does_not_matter(drawn):
    objects, incoming = drawn
    nodes = [each for each in objects if isinstance(each, NodeBuilder)]
    others = [each for each in objects if not isinstance(each, NodeBuilder)]

    assert decided([*nodes, *others], incoming) == decided([*others, *nodes[::-1]], incoming)


@settings(max_examples=EXAMPLES)
@given(clusters())
def test_repeated_observations_do_not_matter(drawn):
    objects, incoming = drawn

    assert decided([*objects, *objects], incoming) == decided(objects, incoming)
