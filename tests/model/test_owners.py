"""Who a pod belongs to."""

from scheduler.model.owners import owner
from tests.support.builders import pod


def test_a_pod_without_a_controller_belongs_to_itself():
    assert owner(pod("a").build()) == "Pod/default/a"


def test_a_pod_belongs_to_its_controller():
    assert owner(pod("a").owner("StatefulSet", "db").build()) == "StatefulSet/default/db"


def test_the_replica_sets_of_a_deployment_are_one_owner():
    first = pod("a").owner("ReplicaSet", "web-6d4b9c").label("pod-template-hash", "6d4b9c")
    second = pod("b").owner("ReplicaSet", "web-77f5").label("pod-template-hash", "77f5")

    assert owner(first.build()) == owner(second.build()) == "ReplicaSet/default/web"


def test_a_replica_set_of_nobody_keeps_its_name():
    assert owner(pod("a").owner("ReplicaSet", "web-6d4b9c").build()).endswith("/web-6d4b9c")


def test_an_owner_that_controls_nothing_does_not_count():
    made = pod("a").owner("Job", "j").build()
    (reference,) = made.metadata.owner_references
    other = pod("a").meta(owner_references=[type(reference)(kind="Job", name="j")]).build()

    assert (owner(made), owner(other)) == ("Job/default/j", "Pod/default/a")
