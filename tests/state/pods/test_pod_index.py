"""The codes of label sets and affinity terms, and the journal of changes."""

from weakref import ref

from scheduler.state.pods.pod_index import PodIndex
from tests.support.affinities import away, labels, near, term
from tests.support.builders import pod

A = pod("a").label("app", "x").build()
SHY = away(pod("shy"), term("zone", app="x")).build()


def test_keys_of_terms_are_known_while_a_pod_may_have_them() -> None:
    pod_index = PodIndex()
    pod_index.add(0, SHY, 5)
    pod_index.add(1, near(pod("fan"), term("rack", among=labels())).build(), 5)
    pod_index.add(2, away(pod("picky"), term("host"), weight=1).build(), 5)

    assert set(pod_index.carried.anti_keys) == {"zone"}
    assert set(pod_index.carried.other_keys) == {"rack", "host"}

    pod_index.remove(0)
    for number in range(1100):
        pod_index.add(0, away(pod("p"), term("rack", app=f"x{number}")).build(), 5)
        pod_index.remove(0)

    assert set(pod_index.carried.anti_keys) == {"rack"}
    assert set(pod_index.carried.other_keys) == {"rack", "host"}


def test_a_reader_that_missed_an_epoch_must_count_all_pods() -> None:
    pod_index = PodIndex()
    last = pod_index.position
    while pod_index.label_sets.epoch == 0:
        last = pod_index.position
        pod_index.add(0, pod("p").label("number", str(last)).build(), 5)
        pod_index.remove(0)

    assert pod_index.since(last - 1) is None
    fresh = pod_index.since(last)
    assert fresh is not None
    assert len(fresh) == 2


def test_a_reader_that_missed_too_many_changes_must_count_all_pods() -> None:
    pod_index = PodIndex()
    start = pod_index.position
    for _ in range(50):
        pod_index.add(0, A, 5)
        pod_index.remove(0)

    assert pod_index.since(start) is None
    assert pod_index.since(pod_index.position - 10) is not None


class Thing:
    """Something to share."""


def test_shared_objects_are_dropped_with_their_last_holder() -> None:
    pod_index = PodIndex()
    first = pod_index.shared("key", Thing)
    alive = ref(first)

    assert pod_index.shared("key", Thing) is first
    assert pod_index.shared("other", Thing) is not first
    del first

    assert alive() is None
    assert pod_index.shared("key", Thing) is not None
