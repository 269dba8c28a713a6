"""What a pod asks for: containers, sidecars, init containers, overhead, pod level, resizes."""

import pytest
from msgspec.structs import replace

from scheduler.model.api import resources
from scheduler.model.api.objects import Condition, ContainerStatus, ResourceRequirements
from scheduler.model.api.quantity import MAX_QUANTITY, QuantityError
from scheduler.model.releases import V1_36, V1_37
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


ALONE = {
    "a pod without containers": (pod("p").containers(), {}),
    "containers are added up": (
        pod("p").containers(container(cpu="100m", memory="1Mi"), container(cpu="200m")),
        {"cpu": 300, "memory": MI},
    ),
    "fractions of a unit are summed before the sum is rounded up": (
        pod("p").containers(*2 * [container(memory="500m")]), {"memory": 1},
    ),
    "fractions of milli-cpu": (pod("p").containers(*4 * [container(cpu="250u")]), {"cpu": 1}),
    "a fraction that is left": (
        pod("p").containers(*3 * [container(memory="500m")]), {"memory": 2},
    ),
    "fractions of a container and a sidecar": (
        pod("p").containers(container(memory="500m")).init(sidecar(memory="500m")), {"memory": 1},
    ),
    "fractions of an init container beside a sidecar": (
        pod("p").init(sidecar(memory="1500m"), container(memory="1500m")), {"memory": 3},
    ),
    "fractions of overhead": (
        pod("p").containers(container(memory="500m")).spec(overhead={"memory": "500m"}),
        {"memory": 1},
    ),
    "fractions of pod level and overhead": (
        at_pod_level(pod("p").containers(container()), memory="500m")
        .spec(overhead={"memory": "500m"}),
        {"memory": 1},
    ),
    "an init container beside the sidecars that started before it": (
        pod("p").init(
            container(cpu="9"), sidecar(cpu="1", memory="1"), container(cpu="10"),
            sidecar(cpu="2", **{"example.com/gpu": "1"}), container(memory="5"),
        ),
        {"cpu": 11_000, "memory": 6, "example.com/gpu": 1},
    ),
    "what no rule counts is left out": (
        pod("p").requests({"odd": "1", "pods": "3"}).cpu("1"), {"cpu": 1000},
    ),
    "the largest init container sets the floor": (
        pod("p").cpu("300m").init(container(cpu="1"), container(cpu="500m", memory="1Mi")),
        {"cpu": 1000, "memory": MI},
    ),
    "a small init container changes nothing": (
        pod("p").cpu("300m").init(container(cpu="100m")), {"cpu": 300},
    ),
    "a sidecar is added to the containers": (
        pod("p").cpu("300m").init(sidecar(cpu="200m")), {"cpu": 500},
    ),
    "an init container after a sidecar": (
        pod("p").cpu("100m").init(sidecar(cpu="200m"), container(cpu="300m")), {"cpu": 500},
    ),
    "an init container before a sidecar": (
        pod("p").cpu("100m").init(container(cpu="300m"), sidecar(cpu="200m")), {"cpu": 300},
    ),
    "overhead is added": (
        pod("p").cpu("100m").spec(overhead={"cpu": "50m", "memory": "1Mi"}),
        {"cpu": 150, "memory": MI},
    ),
    "pod level replaces the sum of what it names": (
        at_pod_level(
            pod("p").containers(container(cpu="100m", memory="1Mi"), container(cpu="100m")),
            cpu="1",
        ),
        {"cpu": 1000, "memory": MI},
    ),
    "pod level below an init container": (
        at_pod_level(pod("p").cpu("100m").init(container(cpu="2")), cpu="500m"), {"cpu": 500},
    ),
    "overhead beside pod level": (
        at_pod_level(pod("p").spec(overhead={"cpu": "50m"}), cpu="1"), {"cpu": 1050},
    ),
    "only cpu, memory and huge pages count at pod level": (
        at_pod_level(
            pod("p"),
            **{"cpu": "1", "hugepages-2Mi": "4Mi", "example.com/gpu": "1",
               "ephemeral-storage": "1"},
        ),
        {"cpu": 1000, "hugepages-2Mi": 4 * MI},
    ),
    "a sum above the cap": (
        pod("p").containers(*(container(memory="9Ei") for _ in range(250))),
        {"memory": MAX_QUANTITY},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("builder", "want"), ALONE.values(), ids=ALONE)
def test_what_a_pod_asks_for(builder, want):
    assert [requests(builder), both(builder)] == [want, [want, want]]


def test_a_request_that_is_no_quantity_is_an_error():
    with pytest.raises(QuantityError):
        requests(pod("p").cpu("lots"))


# In-place resizes: what the kubelet granted counts as well.

INFEASIBLE = ("PodResizePending", "True", "Infeasible")


def status(name, granted, allocated=None):
    """Return the status of a container: the cpu that is in force, and what is allocated."""
    in_force = None if granted is None else ResourceRequirements(requests={"cpu": granted})
    return ContainerStatus(name, in_force, {"cpu": allocated} if allocated else {})


def resized_at_pod_level(wanted, granted, allocated):
    return at_pod_level(pod("p"), cpu=wanted).status(
        resources=ResourceRequirements(requests={"cpu": granted}),
        allocated_resources={"cpu": allocated},
    )


#: Two containers, of which one grows, and the other shrinks.
CROSSED = [status("a", "1", "1"), status("b", "2", "2")]
CROSSING = pod("p").containers(named("a", cpu="3"), named("b", cpu="1"))
#: A pod, its spec alone, and what it counts with in v1.36 and v1.37.
RESIZED = {
    "one that shrinks counts with what it has": (
        pod("p").cpu("500m").granted(cpu="800m"), 500, 800, 800,
    ),
    "one that grows counts with what it wants": (
        pod("p").cpu("800m").granted(cpu="500m"), 800, 800, 800,
    ),
    "allocated resources are compared with those in force": (
        pod("p").cpu("500m").status(container_statuses=[status("main", "1", "2")]),
        500, 2000, 2000,
    ),
    "what was allocated counts without what is in force since v1.37": (
        pod("p").cpu("500m").status(container_statuses=[status("main", None, "2")]),
        500, 500, 2000,
    ),
    "an infeasible one counts with what it has only": (
        pod("p").cpu("4").granted(cpu="1").condition(*INFEASIBLE), 4000, 1000, 1000,
    ),
    "a deferred one counts with what it wants": (
        pod("p").cpu("4").granted(cpu="1").condition("PodResizePending", "True", "Deferred"),
        4000, 4000, 4000,
    ),
    "a condition of another type says nothing": (
        pod("p").cpu("4").granted(cpu="1")
        .status(conditions=[Condition("Ready", "False", "Infeasible")]),
        4000, 4000, 4000,
    ),
    "an infeasible one of which nothing is known": (
        pod("p").cpu("4").condition(*INFEASIBLE), 4000, 4000, 0,
    ),
    "a sidecar, and since v1.37 an init container": (
        pod("p").init(replace(sidecar(cpu="1"), name="side"), named("setup", cpu="500m"))
        .status(init_container_statuses=[status("side", "2"), status("setup", "9")]),
        1500, 2500, 11_000,
    ),
    "at pod level the largest amount counts": (
        resized_at_pod_level("1", "2", "3"), 1000, 3000, 3000,
    ),
    "an infeasible one at pod level counts with what it has only": (
        resized_at_pod_level("9", "1", "2").condition(*INFEASIBLE), 9000, 2000, 2000,
    ),
    "since v1.37 the largest sum counts and not the sum of the largest": (
        CROSSING.status(container_statuses=CROSSED), 4000, 5000, 4000,
    ),
    "infeasible sums": (
        CROSSING.status(container_statuses=CROSSED).condition(*INFEASIBLE), 4000, 3000, 3000,
    ),
    "since v1.37 the sums of the kubelet count instead of those of the containers": (
        CROSSING.status(
            container_statuses=CROSSED,
            resources=ResourceRequirements(requests={"cpu": "5"}),
            allocated_resources={"cpu": "6"},
        ),
        4000, 5000, 6000,
    ),
}  # fmt: skip


def both(builder):
    """Return what a pod with its status counts with in v1.36 and v1.37."""
    found = (requests(builder, status_aware=True, reference=each) for each in (V1_36, V1_37))
    return list(found)


@pytest.mark.parametrize(("builder", "alone", "older", "newer"), RESIZED.values(), ids=RESIZED)
def test_what_a_pod_counts_with_during_a_resize(builder, alone, older, newer):
    found = [requests(builder), *both(builder)]

    assert [each.get("cpu", 0) for each in found] == [alone, older, newer]


def test_a_resize_at_pod_level_counts_with_all_that_the_kubelet_reports_since_v137():
    builder = at_pod_level(pod("p"), cpu="1").status(
        resources=ResourceRequirements(requests={"cpu": "1", "memory": "2"}),
        allocated_resources={"cpu": "1", "memory": "3"},
    )

    assert both(builder) == [{"cpu": 1000}, {"cpu": 1000, "memory": 3}]


# What scores count: defaults for containers that name no request.

DEFAULT = 200 * MI
#: A pod, its cpu and memory with defaults, and those that its score counts.
DEFAULTS = {
    "each container that names no request": (
        pod("p").containers(container(cpu="100m"), container()),
        (200, 2 * DEFAULT), (200, 2 * DEFAULT),
    ),
    "a request of zero is no missing request": (
        pod("p").requests(cpu="0", memory="0"), (0, 0), (0, 0),
    ),
    "sums of fractions are rounded": (
        pod("p").containers(*2 * [container(cpu="1", memory="500m")]), (2000, 1), (2000, 1),
    ),
    "defaults apply before init containers are compared": (
        pod("p").cpu("100m").init(container(cpu="500m")), (500, DEFAULT), (500, DEFAULT),
    ),
    "pod level switches the default of what it names off, and no score sees it": (
        at_pod_level(pod("p").cpu("100m"), cpu="4"), (4000, DEFAULT), (100, DEFAULT),
    ),
    "no score sees a resize": (
        pod("p").cpu("100m").granted(cpu="2"), (2000, DEFAULT), (100, DEFAULT),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("builder", "with_defaults", "score"), DEFAULTS.values(), ids=DEFAULTS)
def test_what_scores_count(builder, with_defaults, score):
    found = resources.non_zero_requests(builder.build()), resources.scored_requests(builder.build())

    assert [(each["cpu"], each["memory"]) for each in found] == [with_defaults, score]
