"""What is observed: pods, nodes and nominations; repeats, late states, re-created pods."""

import pytest

from scheduler.model.decisions import Placed, Unschedulable
from scheduler.model.effects import Evict, Nominate, SetCondition
from scheduler.model.events import NamespaceGone, NodeGone, PodGone, PodObserved
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.stories import made, play

NODE = "node n1 cpu=4;"
ONE, NONE = "drain p=n1", "quiet"
#: Whatever is free on the node is taken, and it is as much as the first probe needs.
FREE_4 = "schedule probe-1 cpu=5; schedule probe-2 cpu=4; placed probe-1= probe-2=n1"
FREE_1 = "schedule probe-1 cpu=2; schedule probe-2 cpu=1; placed probe-1= probe-2=n1"
#: etcd may have been restored with higher versions, and without a binding.
UNBOUND = "pod p@n1 cpu=4 version=1000 {0}; pod p cpu=4 version=2000 {0}"
#: A preemptor waits for its victim; the watch lags.
LAGGING = f"{NODE} pod low@n1 cpu=4 priority=0; pod high; lag; step; nominated high=n1;"
OTHER = "pod p scheduler=other nominated=n1"
STORIES = {
    # What is free
    "a pod whose binding never was takes nothing": f"""
        {NODE} {UNBOUND.format("scheduler=other")}; {FREE_4}""",
    "a finished pod takes nothing": f"{NODE} pod a@n1 cpu=3 finished; {FREE_4}",
    "a pod that fails takes nothing": f"""
        {NODE} pod a@n1 cpu=3; pod a@n1 cpu=3 finished=Failed; {FREE_4}""",
    "a terminating pod takes what it has": f"{NODE} pod a@n1 cpu=3 terminating; {FREE_1}",
    "pods of a node that is created again count": f"""
        {NODE} pod a@n1 cpu=3; delete-node n1; {NODE} {FREE_1}""",
    "a pod that another scheduler binds takes what it has": f"""
        {NODE} pod p cpu=3; change p on=n1; {FREE_1}""",
    "the ends of unknown objects change nothing": f"{NODE} end-unknown; {FREE_4}",
    # How often a pod is decided for
    "a pod whose binding never was": f"{NODE} {UNBOUND.format('')}; {ONE}",
    "a pod that is seen twice": f"{NODE} pod p; pod p version=1; {ONE}",
    "one that is being deleted": f"{NODE} pod p terminating; {NONE}",
    "one that is deleted": f"{NODE} pod p; delete p; {NONE}",
    "one that terminates while it waits": f"{NODE} pod p; change p terminating; {NONE}",
    "one that another scheduler binds": f"{NODE} pod p; change p on=n1; {NONE}",
    "one that finishes without a node": f"{NODE} pod p; change p finished=Failed; {NONE}",
    "its last observed state counts": f"{NODE} pod p cpu=9; change p cpu=1; {ONE}",
    "an earlier pod of its name ends": f"{NODE} pod p uid=new; end p old; {ONE}",
    # Nominations by status
    "a pod of another scheduler": f"{NODE} {OTHER}; nominated p=n1",
    "one that moves": f"{NODE} {OTHER}; {OTHER} nominated=n2; nominated p=n2",
    "one that loses its nomination": f"{NODE} {OTHER}; pod p scheduler=other; nominated",
    "one that terminates": f"{NODE} {OTHER}; {OTHER} terminating; nominated",
    "one of another scheduler that is deleted": f"{NODE} {OTHER}; delete p; nominated",
    "one of ours that is deleted": f"{NODE} pod p nominated=n1; delete p; nominated",
    "a nomination of another scheduler follows a resize of its pod": f"""
        {NODE} {OTHER} cpu=4 priority=1; schedule probe-1 cpu=1
        {OTHER} cpu=3 priority=1; schedule probe-2 cpu=1; placed probe-1= probe-2=n1""",
    "a nomination of this scheduler is cleared when its node is deleted": f"""
        {NODE} pod p nominated=n1 cpu=1; pod f scheduler=other nominated=n1; delete-node n1
        nominated f=n1; cleared p; nominee p=""",
    "a stale state without the nomination does not clear it": f"""
        {LAGGING} late high label=a version=7; nominated high=n1""",
    "a stale state with an earlier nomination does not move it": """
        node n1 cpu=4 taint=a; node n2 cpu=4; pod low@n2 cpu=4 priority=0
        pod high nominated=n1; lag; step; nominated high=n2
        late high nominated=n1 label=a version=7; nominated high=n2""",
    "a nomination that another client clears ends": f"""
        {LAGGING} catch-up; change high nominated=; nominated""",
}  # fmt: skip


def end_unknown(cluster: Cluster) -> None:
    cluster.observe(PodGone("default/p", "never-seen"))
    cluster.observe(NodeGone("never-seen"))
    cluster.observe(NamespaceGone("never-seen"))


MORE = {
    "end": lambda cluster, name, uid: cluster.observe(PodGone(f"default/{name}", uid)),
    "late": lambda cluster, *words: cluster.observe(PodObserved(made(*words).build())),
    "end-unknown": end_unknown,
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_what_is_observed(story):
    play(story, **MORE)


def one_node(*objects) -> Cluster:
    return Cluster(node("n1").cpu("4"), *objects)


def fits(cluster: Cluster, cpu: str) -> bool:
    probe = pod(f"probe-{len(cluster.attempts)}").cpu(cpu)
    return cluster.schedule(probe) == Placed("n1")


def test_a_pod_that_was_created_again_under_its_name_is_another_pod():
    cluster = one_node(pod("p").uid("old").cpu("9"))
    cluster.drain()
    cluster.observe(PodGone("default/p", "old"))

    cluster.add(pod("p").uid("new").cpu("1"))

    (attempt,) = cluster.drain()
    assert (attempt.decision, attempt.pod.uid, attempt.number) == (Placed("n1"), "new", 1)


def test_a_pod_with_an_invalid_request_is_refused_and_does_not_block_others():
    cluster = one_node()

    cluster.add(pod("odd").cpu("lots"))
    assert cluster.refused == "'lots' is not a quantity"

    cluster.add(pod("fine"))
    assert [attempt.pod.name for attempt in cluster.drain()] == ["fine"]


@pytest.mark.parametrize("where", [pod("p").scheduler("other").nominated("n1"), pod("p").on("n1")])
def test_an_invalid_pod_of_another_scheduler_is_refused(where):
    cluster = one_node(where.cpu("lots"))

    assert cluster.refused
    assert fits(cluster, "4")


def test_a_pod_that_becomes_invalid_keeps_its_last_valid_state():
    cluster = one_node(pod("p").cpu("3"))

    cluster.change("p", lambda own: own.cpu("lots"))

    assert cluster.refused
    assert cluster.step().decision == Placed("n1")
    assert not fits(cluster, "2")


def test_a_node_with_an_invalid_amount_is_refused():
    cluster = Cluster(node("n1").cpu("lots"))

    assert cluster.refused
    assert isinstance(cluster.schedule(pod("p")), Unschedulable)


def test_a_repeated_nomination_of_another_schedulers_pod_changes_nothing():
    nominee = pod("p").scheduler("other").nominated("n1")
    cluster = one_node(nominee)
    claim = cluster.machine.cluster.nominations.get("uid:default/p")

    cluster.add(nominee.meta(resource_version="2"))

    assert cluster.machine.cluster.nominations.get("uid:default/p") is claim


def test_a_nomination_of_this_scheduler_follows_a_resize_of_its_pod():
    cluster = one_node(pod("p").cpu("4").priority(9).nominated("n1"))

    cluster.change("p", lambda own: own.cpu("2"))

    claim = cluster.machine.cluster.nominations.get("uid:default/p")
    assert claim is not None
    assert claim.pod.spec.containers[0].resources.requests == {"cpu": "2"}


def test_the_machine_knows_when_it_has_something_to_do():
    cluster = one_node()
    assert not cluster.machine.ready()
    assert cluster.machine.next_wakeup() is None

    cluster.add(pod("p").cpu("9"))
    assert cluster.machine.ready()

    cluster.drain()
    assert not cluster.machine.ready()
    assert cluster.machine.next_wakeup() == cluster.now + 30


def test_the_machine_knows_its_sizes():
    cluster = one_node(pod("low").on("n1").cpu("4").priority(0))
    cluster.hold(Evict)
    cluster.schedule(pod("high").cpu("4").priority(9))

    numbers = cluster.machine.sizes()

    assert (numbers.nodes, numbers.pods, numbers.assumed) == (1, 1, 0)
    assert (numbers.nominations, numbers.preempting) == (1, 1)
    assert numbers.queue == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    assert [type(effect) for effect in cluster.asked(Nominate, SetCondition)] == [Nominate]
