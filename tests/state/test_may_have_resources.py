"""Whether a node may have the resources for a pod, in addition to its pods and nominated pods."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.feasibility.nominated_pods import with_nominated_pods
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.devices import DeviceClass, DeviceClassSpec
from scheduler.model.api.objects import ObjectMeta
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from scheduler.state.cluster import Cluster
from tests.support.builders import PodBuilder, node, pod

GPU = "example.com/gpu"


def cluster_of(
    *there: PodBuilder, nominated: tuple[PodBuilder, ...] = (), pods: int = 10, gpus: str = "2"
) -> Cluster:
    made = Cluster()
    made.write_node(node("n1").has({"cpu": "4", "pods": str(pods), GPU: gpus}).build())
    for each in there:
        made.place(each.on("n1").build(), "n1")
    for each in nominated:
        made.nominate(each.build(), "n1")
    return made


def may_fit(cluster: Cluster, wanted: PodBuilder, priority: int = 10) -> bool:
    return cluster.may_have_resources(cluster.footprints.of(wanted.build()), 0, priority)


def test_what_is_ignored_is_never_too_little():
    fit = NodeResourcesFit(ignored=frozenset({GPU}))
    cluster = cluster_of()
    footprint = cluster.footprints.of(pod("p").requests({GPU: "3"}).build())

    assert fit.may_fit(footprint, 0, 10, cluster)
    assert not NodeResourcesFit().may_fit(footprint, 0, 10, cluster)


def test_devices_of_a_class_can_replace_a_resource_that_a_node_lacks():
    cluster = cluster_of(gpus="0")
    cluster.write_device_class(DeviceClass(ObjectMeta(name="gpus"), DeviceClassSpec(GPU)))

    assert may_fit(cluster, pod("p").requests({GPU: "3"}))


sizes = st.lists(st.tuples(st.integers(1, 3000), st.integers(8, 12)), max_size=4)


@given(there=sizes, nominated=sizes, wanted=st.integers(1, 4000), allowed=st.integers(1, 8))
def test_capacity_is_where_the_filter_finds_it(there, nominated, wanted, allowed):
    cluster = cluster_of(
        *(pod(f"t{n}").cpu(f"{size}m").priority(p) for n, (size, p) in enumerate(there)),
        nominated=tuple(
            pod(f"c{n}").cpu(f"{m}m").priority(p) for n, (m, p) in enumerate(nominated)
        ),
        pods=allowed,
    )
    built = pod("p").cpu(f"{wanted}m").priority(10).build()
    compiled_filter = NodeResourcesFit().compile_filter(built, cluster, Verdicts())
    assert compiled_filter is not None
    alone = compiled_filter.codes(cluster.nodes())

    codes = with_nominated_pods(alone, built, cluster, [("NodeResourcesFit", compiled_filter)])

    assert cluster.may_have_resources(cluster.footprints.of(built), 0, 10) == bool(
        np.all(codes == 0)
    )
