"""The codes of label sets and affinity terms, and the journal of changes."""

from weakref import ref

from scheduler.state.pods.pod_index import CARRIED, LABELS, PodIndex
from tests.support.affinities import away, labels, near, term
from tests.support.builders import pod

A = pod("a").label("app", "x").build()
B = pod("b").label("app", "x").build()
LEAVING = pod("a").label("app", "x").terminating().build()
SHY = away(pod("shy"), term("zone", app="x")).build()


def test_equal_label_sets_share_a_code() -> None:
    pod_index = PodIndex()
    pod_index.add(0, A, 5)
    pod_index.add(1, B, 6)
    pod_index.add(2, pod("c").namespace("other").label("app", "x").build(), 6)

    codes = pod_index.codes(LABELS)

    assert codes[0] == codes[1] != codes[2]
    assert pod_index.codes(CARRIED).tolist() == [0, 0, 0]
    assert pod_index.label_sets.values[codes[0]] == ("default", {"app": "x"}, False)
    pod_index.check()


def test_equal_terms_in_another_namespace_have_another_code() -> None:
    pod_index = PodIndex()
    pod_index.add(0, SHY, 5)
    pod_index.add(1, away(pod("shy").namespace("other"), term("zone", app="x")).build(), 5)

    here, there = (pod_index.carried.values[code] for code in pod_index.codes(CARRIED))

    assert here.anti_affinity[0].namespaces == {"default"}
    assert there.anti_affinity[0].namespaces == {"other"}


def test_the_journal_has_added_and_removed_pods() -> None:
    pod_index = PodIndex()
    pod_index.add(0, A, 5)
    start = pod_index.position

    pod_index.add(1, SHY, 6)
    pod_index.remove(0)

    news = pod_index.since(start)
    assert news is not None
    assert news.tolist() == [[6, 2, 1, +1], [5, 1, 0, -1]]
    nothing = pod_index.since(pod_index.position)
    assert nothing is not None
    assert nothing.shape == (0, 4)
    assert pod_index.rows().tolist() == [-1, 6]


def test_pods_on_no_row_have_codes_and_are_not_in_the_journal() -> None:
    pod_index = PodIndex()

    pod_index.add(0, SHY, -1)
    pod_index.remove(0)
    pod_index.add(0, SHY, -1)

    assert pod_index.position == 0
    assert pod_index.codes(CARRIED).tolist() == [1]
    pod_index.check()


def test_a_new_state_with_equal_codes_is_not_in_the_journal() -> None:
    pod_index = PodIndex()
    pod_index.add(0, A, 5)
    start = pod_index.position

    pod_index.replace(0, A, pod("a").label("app", "x").status(phase="Running").build())

    assert pod_index.position == start


def test_new_labels_and_termination_are_in_the_journal() -> None:
    pod_index = PodIndex()
    pod_index.add(0, A, 5)
    start = pod_index.position

    pod_index.replace(0, A, LEAVING)
    pod_index.replace(0, LEAVING, pod("a").build())

    news = pod_index.since(start)
    assert news is not None
    assert news[:, [0, 3]].tolist() == [[5, -1], [5, +1]] * 2
    assert pod_index.label_sets.values[pod_index.codes(LABELS)[0]] == ("default", {}, False)
    pod_index.check()


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
