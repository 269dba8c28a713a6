"""Nominated pods count on their node for pods of lower and equal priority."""

import pytest

from scheduler.model.decisions import Placed, Unschedulable
from scheduler.model.releases import V1_36, V1_37
from tests.support.builders import node, pod, requirement, term
from tests.support.cluster import Cluster
from tests.support.custom_plugins import OnePodPerNode, Prepares, with_filters
from tests.support.devices import claim, claiming
from tests.support.stories import play

FULL = node("n1").cpu("4")
NAMED = term(fields=(requirement("metadata.name", "In", "n1"),))


NOMINEE = pod("nominee").scheduler("other").cpu("3").priority(100).nominated("n1")
PORTED = pod("nominee").scheduler("other").port(80).priority(9).nominated("n1")
THREE = [pod(n).scheduler("other").cpu("1").priority(9).nominated("n1") for n in ("a", "b", "c")]
GATED = pod("gated").cpu("4").priority(9).gated("a").nominated("n1")
CORDONED = node("n1").cordoned()

CASES = {
    "for a lower pod": ([FULL, NOMINEE], pod("p").cpu("2").priority(99), None),
    "for an equal pod": ([FULL, NOMINEE], pod("p").cpu("2").priority(100).never_preempts(), None),
    "not for a higher pod": ([FULL, NOMINEE], pod("p").cpu("2").priority(101), "n1"),
    "not with what it does not need": ([FULL, NOMINEE], pod("p").cpu("1").priority(1), "n1"),
    "not for its own pod": ([FULL], pod("p").cpu("4").nominated("n1"), "n1"),
    "with its host port": ([FULL, PORTED], pod("p").port(80), None),
    "not for another host port": ([FULL, PORTED], pod("p").port(81), "n1"),
    "as a pod": ([FULL.pods(1), NOMINEE.cpu("0")], pod("p"), None),
    "together with others": ([FULL, *THREE], pod("p").cpu("2"), None),
    "not more than together with others": ([FULL, *THREE], pod("p").cpu("1"), "n1"),
    "not on a node that rejects the pod": ([CORDONED, node("n2"), NOMINEE], pod("p"), "n2"),
    "where only some nodes are named": ([FULL, NOMINEE], pod("p").cpu("2").needs(NAMED), None),
    "not where a named node has room": ([FULL, NOMINEE], pod("p").cpu("1").needs(NAMED), "n1"),
    "not while its pod is gated": ([FULL, GATED], pod("p").cpu("4"), "n1"),
}


@pytest.mark.parametrize(("objects", "wanted", "where"), CASES.values(), ids=CASES)
def test_a_nomination_counts(objects, wanted, where):
    decision = Cluster(*objects).schedule(wanted)

    if where is not None:
        assert decision == Placed(where)
    else:
        assert isinstance(decision, Unschedulable)
        assert decision.message.startswith("0/1 nodes are available: 1 ")


def fits(cluster: Cluster, wanted) -> bool:
    return cluster.schedule(wanted) == Placed("n1")


def test_a_pod_must_fit_without_the_nominated_pods_too():
    # The filter passes only with the nominated pod, which may never come.
    cluster = Cluster(FULL, NOMINEE, using=with_filters(Sociable()))

    assert not fits(cluster, pod("p"))


class Sociable(OnePodPerNode):
    """Passes nodes with a pod only."""

    name = "Sociable"
    reasons = ("", "node(s) had no company")

    def filter_node(self, _pod, _node, pods) -> int:
        return int(not pods)


def test_a_preemptor_must_fit_without_the_nominated_pods_too():
    # Without the victim, the only other pod is a nominated one that may never be placed.
    cluster = Cluster(FULL, NOMINEE, using=with_filters(Sociable()))
    cluster.add(pod("low").on("n1").cpu("4").priority(1))

    decision = cluster.schedule(pod("p").cpu("1").priority(50))

    assert isinstance(decision, Unschedulable)
    assert cluster.evicted() == []


def test_nominations_count_for_cluster_wide_filters():
    cluster = Cluster(FULL, NOMINEE, using=with_filters(OnePodPerNode(), Prepares()))

    assert not fits(cluster, pod("p"))


#: With the release of kube-scheduler.
STORIES = {
    **{
        f"a nominated pod counts with the labels that it has now: {scheduler}": (
            f"""pod nominee {scheduler} nominated=n1 label=app,a
            pod nominee {scheduler} nominated=n1 label=app,b; nominee-app b""",
            V1_36,
        )
        for scheduler in ("scheduler=other", "")
    },
    "in v1.37 the nomination of a gated pod counts": (
        """pod gated cpu=4 priority=9 gated=a nominated=n1; schedule p cpu=4; placed p=
        nominated gated=n1""",
        V1_37,
    ),
    "in v1.37 a gated pod loses its nomination with its status": (
        "pod p gated=a nominated=n1; change p nominated=; nominated", V1_37,
    ),
    "the nomination of a pod counts once its last gate is removed": (
        "pod p gated=a nominated=n1; nominated; change p gated; nominated p=n1", V1_36,
    ),
}  # fmt: skip


def nominee_app(cluster: Cluster, app: str) -> None:
    (claim,) = cluster.machine.cluster.nominations
    assert claim.pod.metadata.labels == {"app": app}


@pytest.mark.parametrize(("story", "reference"), STORIES.values(), ids=STORIES)
def test_a_nomination_follows_its_pod(story, reference):
    play(f"node n1 cpu=4; {story}", Cluster(reference=reference), **{"nominee-app": nominee_app})


def test_a_pod_stays_apart_from_a_nominated_pod_that_was_labelled_later():
    cluster = play("""node n1 cpu=4 label=host,n1
        pod nominee scheduler=other priority=9 nominated=n1 label=app,a
        pod nominee scheduler=other priority=9 nominated=n1 label=app,b""")

    assert not fits(cluster, pod("p").apart("host", app="b"))
    assert fits(cluster, pod("q").apart("host", app="a"))


def test_a_pod_that_is_gated_again_loses_its_nomination_with_its_status():
    cluster = Cluster(FULL, claim("c"), claiming("p", "c").nominated("n1"))
    assert cluster.nominations() == {"p": "n1"}
    cluster.delete_claim("c")

    cluster.change("p", lambda own: own.nominated(""))

    assert cluster.nominations() == {}
