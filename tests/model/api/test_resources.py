"""What a pod asks for: containers, sidecars, init containers, overhead, pod level, resizes."""

import pytest
from msgspec.structs import replace

from scheduler.model.api import resources
from scheduler.model.api.objects import Condition, ContainerStatus, Pod, ResourceRequirements
from scheduler.model.api.quantity import MAX_QUANTITY, QuantityError
from scheduler.model.releases import V1_37
from tests.support.builders import container, pod

MI = 1024 * 1024


def sidecar(**requests):
    return replace(container(**requests), restart_policy="Always")


def named(name, **requests):
    return replace(container(**requests), name=name)


def at_pod_level(builder, **requests):
    return builder.spec(resources=ResourceRequirements(requests=dict(requests)))


def requests(builder, **options):
    return resources.pod_requests(builder.build(), **options)


NAMES = [
    ("cpu", True), ("memory", True), ("ephemeral-storage", True),
    ("hugepages-2Mi", True), ("attachable-volumes-csi-x", True),
    ("example.com/gpu", True), ("kubernetes.io/special", True), ("a.kubernetes.io/b", True),
    ("pods", False), ("gpu", False), ("storage", False), ("requests.example.com/gpu", False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "want"), NAMES, ids=[name for name, _ in NAMES])
def test_a_resource_takes_part_in_scheduling_or_is_ignored(name, want):
    assert resources.counted(name) is want


EXTENDED = [
    ("example.com/gpu", True), ("kubernetes.io/gpu", False), ("cpu", False),
    ("requests.example.com/gpu", False), ("hugepages-2Mi", False),
    ("d" * 244 + "/gpu", True), ("d" * 245 + "/gpu", False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "want"), EXTENDED, ids=[name[:30] for name, _ in EXTENDED])
def test_an_extended_resource_has_a_domain_of_its_own(name, want):
    assert resources.is_extended(name) is want


def test_allocatable_amounts_are_in_column_units_and_keep_the_number_of_pods():
    found = resources.amounts({"cpu": "1.5", "memory": "1Ki", "pods": "110", "odd": "1"})

    assert found == {"cpu": 1500, "memory": 1024, "pods": 110}


def test_containers_are_added_up():
    builder = pod("p").containers(container(cpu="100m", memory="1Mi"), container(cpu="200m"))

    assert requests(builder) == {"cpu": 300, "memory": MI}


FRACTIONS = {
    "containers": (pod("p").containers(*2 * [container(memory="500m")]), "memory", 1),
    "milli-cpu": (pod("p").containers(*4 * [container(cpu="250u")]), "cpu", 1),
    "a fraction that is left": (pod("p").containers(*3 * [container(memory="500m")]), "memory", 2),
    "a container and a sidecar": (
        pod("p").containers(container(memory="500m")).init(sidecar(memory="500m")),
        "memory",
        1,
    ),
    "an init container beside a sidecar": (
        pod("p").init(sidecar(memory="1500m"), container(memory="1500m")),
        "memory",
        3,
    ),
    "overhead": (
        pod("p").containers(container(memory="500m")).spec(overhead={"memory": "500m"}),
        "memory",
        1,
    ),
    "pod level and overhead": (
        at_pod_level(pod("p").containers(container()), memory="500m").spec(
            overhead={"memory": "500m"}
        ),
        "memory",
        1,
    ),
}


@pytest.mark.parametrize(("builder", "name", "want"), FRACTIONS.values(), ids=FRACTIONS)
def test_fractions_of_a_unit_are_summed_before_the_sum_is_rounded_up(builder, name, want):
    assert requests(builder)[name] == want


def test_an_init_container_is_added_to_the_sidecars_started_before_it():
    builder = pod("p").init(
        container(cpu="9"),
        sidecar(cpu="1", memory="1"),
        container(cpu="10"),
        sidecar(cpu="2", **{"example.com/gpu": "1"}),
        container(memory="5"),
    )

    assert requests(builder) == {"cpu": 11_000, "memory": 6, "example.com/gpu": 1}


def test_the_score_rounds_sums_of_fractions_as_well():
    builder = pod("p").containers(*2 * [container(cpu="1", memory="500m")])

    assert resources.scored_requests(builder.build()) == {"cpu": 2000, "memory": 1}
    assert resources.non_zero_requests(builder.build()) == {"cpu": 2000, "memory": 1}


def test_resources_that_no_rule_counts_are_left_out():
    assert requests(pod("p").requests({"odd": "1", "pods": "3"}).cpu("1")) == {"cpu": 1000}


def test_the_largest_init_container_sets_the_floor():
    builder = pod("p").cpu("300m").init(container(cpu="1"), container(cpu="500m", memory="1Mi"))

    assert requests(builder) == {"cpu": 1000, "memory": MI}


def test_a_small_init_container_changes_nothing():
    assert requests(pod("p").cpu("300m").init(container(cpu="100m"))) == {"cpu": 300}


def test_a_sidecar_is_added_to_the_containers():
    assert requests(pod("p").cpu("300m").init(sidecar(cpu="200m"))) == {"cpu": 500}


def test_an_init_container_is_added_to_the_sidecars_declared_before_it():
    builder = pod("p").cpu("100m").init(sidecar(cpu="200m"), container(cpu="300m"))

    assert requests(builder) == {"cpu": 500}


def test_an_init_container_does_not_wait_for_the_sidecars_declared_after_it():
    builder = pod("p").cpu("100m").init(container(cpu="300m"), sidecar(cpu="200m"))

    assert requests(builder) == {"cpu": 300}


def test_overhead_is_added():
    builder = pod("p").cpu("100m").spec(overhead={"cpu": "50m", "memory": "1Mi"})

    assert requests(builder) == {"cpu": 150, "memory": MI}


def test_requests_at_pod_level_replace_the_sum_of_those_they_name():
    builder = pod("p").containers(container(cpu="100m", memory="1Mi"), container(cpu="100m"))

    assert requests(at_pod_level(builder, cpu="1")) == {"cpu": 1000, "memory": MI}


def test_requests_at_pod_level_may_be_smaller_than_an_init_container():
    builder = pod("p").cpu("100m").init(container(cpu="2"))

    assert requests(at_pod_level(builder, cpu="500m")) == {"cpu": 500}


def test_overhead_is_added_to_requests_at_pod_level():
    builder = at_pod_level(pod("p").spec(overhead={"cpu": "50m"}), cpu="1")

    assert requests(builder) == {"cpu": 1050}


def test_only_cpu_memory_and_huge_pages_count_at_pod_level():
    builder = at_pod_level(
        pod("p"),
        **{"cpu": "1", "hugepages-2Mi": "4Mi", "example.com/gpu": "1", "ephemeral-storage": "1"},
    )

    assert requests(builder) == {"cpu": 1000, "hugepages-2Mi": 4 * MI}


def test_a_sum_above_the_cap_is_capped():
    builder = pod("p").containers(*(container(memory="9Ei") for _ in range(250)))

    assert requests(builder) == {"memory": MAX_QUANTITY}


def test_a_request_that_is_no_quantity_is_an_error():
    with pytest.raises(QuantityError):
        requests(pod("p").cpu("lots"))


# In-place resizes: what the kubelet granted counts as well.


def test_a_container_that_shrinks_still_counts_with_what_it_has():
    builder = pod("p").cpu("500m").granted(cpu="800m")

    assert requests(builder, status_aware=True) == {"cpu": 800}
    assert requests(builder) == {"cpu": 500}


def test_a_container_that_grows_counts_with_what_it_wants():
    assert requests(pod("p").cpu("800m").granted(cpu="500m"), status_aware=True) == {"cpu": 800}


def test_allocated_resources_are_compared_with_those_in_force():
    status = ContainerStatus("main", ResourceRequirements(requests={"cpu": "1"}), {"cpu": "2"})
    builder = pod("p").cpu("500m").status(container_statuses=[status])

    assert requests(builder, status_aware=True) == {"cpu": 2000}


def test_a_status_without_resources_says_nothing():
    status = ContainerStatus("main", None, {"cpu": "2"})
    builder = pod("p").cpu("500m").status(container_statuses=[status])

    assert requests(builder, status_aware=True) == {"cpu": 500}


def test_a_resize_that_is_infeasible_counts_with_what_it_has_only():
    builder = pod("p").cpu("4").granted(cpu="1").condition("PodResizePending", "True", "Infeasible")

    assert requests(builder, status_aware=True) == {"cpu": 1000}


def test_a_resize_that_is_deferred_counts_with_what_it_wants():
    builder = pod("p").cpu("4").granted(cpu="1").condition("PodResizePending", "True", "Deferred")

    assert requests(builder, status_aware=True) == {"cpu": 4000}


def test_a_sidecar_can_be_resized_an_init_container_cannot():
    granted = ResourceRequirements(requests={"cpu": "2"})
    builder = (
        pod("p")
        .init(replace(sidecar(cpu="1"), name="side"), named("setup", cpu="500m"))
        .status(
            init_container_statuses=[
                ContainerStatus("side", granted),
                ContainerStatus("setup", ResourceRequirements(requests={"cpu": "9"})),
            ]
        )
    )

    assert requests(builder, status_aware=True) == {"cpu": 2500}


def resized_at_pod_level(builder, wanted, granted, allocated):
    status = {
        "resources": ResourceRequirements(requests={"cpu": granted}),
        "allocated_resources": {"cpu": allocated},
    }
    return at_pod_level(builder, cpu=wanted).status(**status)


def test_a_pod_level_resize_counts_with_the_largest_amount():
    builder = resized_at_pod_level(pod("p"), wanted="1", granted="2", allocated="3")

    assert requests(builder, status_aware=True) == {"cpu": 3000}
    assert requests(builder) == {"cpu": 1000}


def test_an_infeasible_pod_level_resize_counts_with_what_it_has_only():
    builder = resized_at_pod_level(pod("p"), wanted="9", granted="1", allocated="2")
    builder = builder.condition("PodResizePending", "True", "Infeasible")

    assert requests(builder, status_aware=True) == {"cpu": 2000}


# From v1.37 on, the largest of three sums counts.


def newer(builder) -> dict[str, int]:
    return requests(builder, status_aware=True, reference=V1_37)


def two_in_opposite_resizes():
    """Return a pod of which one container grows, and the other shrinks."""
    return (
        pod("p")
        .containers(named("a", cpu="3"), named("b", cpu="1"))
        .status(
            container_statuses=[
                ContainerStatus("a", ResourceRequirements(requests={"cpu": "1"}), {"cpu": "1"}),
                ContainerStatus("b", ResourceRequirements(requests={"cpu": "2"}), {"cpu": "2"}),
            ]
        )
    )


def test_the_largest_sum_counts_and_not_the_sum_of_the_largest():
    assert requests(two_in_opposite_resizes(), status_aware=True) == {"cpu": 5000}
    assert newer(two_in_opposite_resizes()) == {"cpu": 4000}


def test_an_infeasible_resize_counts_with_the_sums_of_what_it_has():
    builder = two_in_opposite_resizes().condition("PodResizePending", "True", "Infeasible")

    assert newer(builder) == {"cpu": 3000}


def test_what_was_allocated_counts_without_what_is_in_force():
    status = ContainerStatus("main", None, {"cpu": "2"})
    builder = pod("p").cpu("500m").status(container_statuses=[status])

    assert newer(builder) == {"cpu": 2000}


def test_an_infeasible_resize_of_which_nothing_is_known_counts_with_nothing():
    builder = pod("p").cpu("4").condition("PodResizePending", "True", "Infeasible")

    assert requests(builder, status_aware=True) == {"cpu": 4000}
    assert newer(builder) == {}


def test_an_init_container_counts_with_its_status():
    granted = ResourceRequirements(requests={"cpu": "9"})
    builder = (
        pod("p")
        .init(named("setup", cpu="500m"))
        .status(init_container_statuses=[ContainerStatus("setup", granted)])
    )

    assert newer(builder) == {"cpu": 9000}


def test_the_sums_of_the_kubelet_count_instead_of_those_of_the_containers():
    builder = two_in_opposite_resizes()
    builder = builder.status(
        container_statuses=builder.build().status.container_statuses,
        resources=ResourceRequirements(requests={"cpu": "5"}),
        allocated_resources={"cpu": "6"},
    )

    assert newer(builder) == {"cpu": 6000}


def test_a_pod_level_resize_counts_with_all_that_the_kubelet_reports():
    builder = at_pod_level(pod("p"), cpu="1").status(
        resources=ResourceRequirements(requests={"cpu": "1", "memory": "2"}),
        allocated_resources={"cpu": "1", "memory": "3"},
    )

    assert requests(builder, status_aware=True) == {"cpu": 1000}
    assert newer(builder) == {"cpu": 1000, "memory": 3}


# What scores count: defaults for containers that name no request.


def non_zero(builder) -> dict[str, int]:
    return resources.non_zero_requests(builder.build())


DEFAULT_MEMORY = 200 * MI


def test_each_container_that_names_no_request_counts_at_the_default():
    builder = pod("p").containers(container(cpu="100m"), container())

    assert non_zero(builder) == {"cpu": 200, "memory": 2 * DEFAULT_MEMORY}


def test_a_request_of_zero_is_no_missing_request():
    assert non_zero(pod("p").requests(cpu="0", memory="0")) == {"cpu": 0, "memory": 0}


def test_defaults_apply_to_init_containers_before_they_are_compared():
    builder = pod("p").cpu("100m").init(container(cpu="500m"))

    assert non_zero(builder) == {"cpu": 500, "memory": DEFAULT_MEMORY}


def test_requests_at_pod_level_switch_the_default_of_what_they_name_off():
    assert non_zero(at_pod_level(pod("p"), cpu="1")) == {"cpu": 1000, "memory": DEFAULT_MEMORY}


def test_the_score_of_a_pod_does_not_see_requests_at_pod_level():
    builder = at_pod_level(pod("p").cpu("100m"), cpu="4")

    assert resources.scored_requests(builder.build()) == {"cpu": 100, "memory": DEFAULT_MEMORY}


def test_the_score_of_a_pod_does_not_see_a_resize():
    assert resources.scored_requests(pod("p").cpu("100m").granted(cpu="2").build())["cpu"] == 100


def test_a_condition_of_another_type_says_nothing_of_a_resize():
    odd = [Condition("Ready", "False", "Infeasible")]
    builder = pod("p").cpu("4").granted(cpu="1").status(conditions=odd)

    assert requests(builder, status_aware=True) == {"cpu": 4000}


def test_a_pod_without_containers_requests_nothing():
    assert resources.pod_requests(Pod()) == {}
