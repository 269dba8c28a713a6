"""The cluster changes while extenders are called for scores, also if all of them fail."""

import pytest

from scheduler.model.decisions import Placed, Waiting
from scheduler.model.effects import Ask, BindClaims
from scheduler.model.extender_answers import NoAnswer, Scored
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.devices import (
    allocated,
    claim,
    claiming,
    device_class,
    gpus,
    wants,
)

NAMES = ("n1", "n2", "n3")
LICENSE = "example.com/license"
CONFIG = """
    extenders:
    - {urlPrefix: http://b, prioritizeVerb: s, weight: 2, ignorable: true}
"""
TWO = """
    profiles:
    - {schedulerName: preemptive-scheduler}
    - {schedulerName: other}
    extenders:
    - urlPrefix: http://b
      prioritizeVerb: s
      weight: 2
      ignorable: true
      managedResources: [{name: example.com/license}]
"""
SAID = pytest.mark.parametrize(
    "said", [NoAnswer("broken"), Scored(())], ids=["extender failed", "extender answered"]
)


def cluster_of(config=CONFIG) -> Cluster:
    cluster = Cluster(
        *(node(name).cpu("4").has({LICENSE: "4"}) for name in ("n1", "n2")),
        device_class(),
        gpus("n1", "a", "b"),
        gpus("n2", "a", "b"),
        claim("c", wants()),
        config=config,
    )
    cluster.hold(Ask, BindClaims)
    return cluster


@SAID
def test_the_claim_is_deleted_meanwhile(said):
    cluster = cluster_of()
    cluster.add(claiming("p", "c"))
    assert isinstance(cluster.step().decision, Waiting)

    cluster.delete_claim("c")
    cluster.answer(said)

    assert not isinstance(cluster.step().decision, Placed)
    assert not cluster.asked(BindClaims)


@SAID
def test_the_claim_is_allocated_by_others_meanwhile(said):
    cluster = cluster_of()
    cluster.add(claiming("p", "c"))
    assert isinstance(cluster.step().decision, Waiting)

    cluster.add(allocated("c", "n2/a", on="n2"))
    cluster.answer(said)
    cluster.step()

    # It must never ask for other devices for a claim that has some.
    assert all(
        each.allocation is None for bind in cluster.asked(BindClaims) for each in bind.claims
    )


@SAID
def test_the_claim_is_in_flight_for_a_pod_of_another_profile(said):
    """Two pods share a claim; the second is of another profile, and no extender is asked."""
    cluster = cluster_of(TWO)
    cluster.add(claiming("p", "c").requests({LICENSE: "1"}))
    assert isinstance(cluster.step().decision, Waiting)
    cluster.add(claiming("q", "c").spec(scheduler_name="other"))
    assert isinstance(cluster.step().decision, Placed)  # its BindClaims is held

    cluster.answer(said, ask=next(each for each in cluster.held if isinstance(each, Ask)))
    cluster.step()

    made = [each.claims[0].allocation for each in cluster.asked(BindClaims)]
    assert len([each for each in made if each is not None]) == 1, "allocated twice"


@SAID
def test_nodes_that_no_longer_fit_are_not_selected(said):
    cluster = cluster_of()
    cluster.add(pod("p").cpu("3"))
    assert isinstance(cluster.step().decision, Waiting)

    cluster.add(*(pod(f"on-{name}").cpu("3").on(name) for name in ("n1", "n2")))
    cluster.answer(said)

    assert not isinstance(cluster.step().decision, Placed)


@SAID
def test_one_device_is_never_allocated_to_two_claims(said):
    """Reserving c twice would free the device that is in flight for it."""
    cluster = Cluster(
        *(node(name).cpu("4").has({LICENSE: "4"}).label("name", name) for name in NAMES),
        device_class(),
        gpus("n1", "a"),
        gpus("n2", "a"),
        gpus("n3", "a"),
        claim("c", wants()),
        claim("d", wants()),
        config=TWO,
    )
    cluster.hold(Ask, BindClaims)
    cluster.add(claiming("p", "c").requests({LICENSE: "1"}))
    assert isinstance(cluster.step().decision, Waiting)
    cluster.add(claiming("q", "c").spec(scheduler_name="other"))
    where = cluster.step().decision.node

    cluster.answer(said, ask=next(each for each in cluster.held if isinstance(each, Ask)))
    cluster.step()
    cluster.add(claiming("r", "d").spec(scheduler_name="other", node_selector={"name": where}))
    while cluster.step() is not None:
        pass

    given = {}
    for bind in cluster.asked(BindClaims):
        for write in bind.claims:
            for each in write.allocation.devices.results if write.allocation else ():
                given.setdefault((each.pool, each.device), set()).add(write.claim.name)
    assert all(len(claims) == 1 for claims in given.values()), given
