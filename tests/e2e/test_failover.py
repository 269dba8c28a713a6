"""The lead changes hands when the leading pod goes, and when its node loses power."""

import time

from tests.e2e.measuring import tell

#: The chart's defaults: a lease that is not renewed is respected for so long, and tried so often.
LEASE_SECONDS = 15.0
RETRY_SECONDS = 2.0
#: For a busy machine, and the pause between two pods of the stream.
MARGIN_SECONDS = 3.0


def test_another_leads_when_the_node_of_the_leader_loses_power(cluster, release, stream):
    leader = release.await_leader()
    places = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in release.pods()}
    assert set(places.values()) == set(cluster.nodes), "the replicas stand on one node"
    began = time.monotonic()

    cluster.cut_power(places[leader])
    try:
        survivor = release.await_leader(other_than=leader)
        elapsed = time.monotonic() - began
        stream.await_next()
    finally:
        cluster.boot(places[leader])

    tell(f"node without power: another leads after {elapsed:.1f} s")
    assert places[survivor] != places[leader]
    limit = LEASE_SECONDS + 2.2 * RETRY_SECONDS + MARGIN_SECONDS
    assert elapsed < limit
    assert stream.longest_so_far() < limit
    release.await_settled()


def test_a_drained_node_gives_its_replica_up_and_pods_are_placed_meanwhile(
    cluster, release, stream
):
    leader = release.await_leader()
    (node,) = (
        pod["spec"]["nodeName"] for pod in release.pods() if pod["metadata"]["name"] == leader
    )

    release.operator.kubectl(
        "drain", node, "--delete-emptydir-data", "--ignore-daemonsets", "--force", "--timeout=120s"
    )
    try:
        stream.await_next()
        pods = release.await_settled()
        assert node not in {pod["spec"]["nodeName"] for pod in pods}
    finally:
        release.operator.kubectl("uncordon", node)

    tell(f"node drained: longest wait of {stream.count} pods {stream.longest_so_far():.1f} s")
    assert stream.longest_so_far() < RETRY_SECONDS + MARGIN_SECONDS
    # One replica on each node again, for the tests that follow.
    release.operator.kubectl("-n", release.name, "delete", "pod", release.await_leader())
    release.await_settled()
