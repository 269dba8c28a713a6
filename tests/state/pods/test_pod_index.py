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
    census = PodIndex()
    census.add(0, A, 5)
    census.add(1, B, 6)
    census.add(2, pod("c").namespace("other").label("app", "x").build(), 6)

    codes = census.codes(LABELS)

    assert codes[0] == codes[1] != codes[2]
    assert census.codes(CARRIED).tolist() == [0, 0, 0]
    assert census.label_sets.values[codes[0]] == ("default", {"app": "x"}, False)
    census.check()


def test_equal_terms_in_another_namespace_have_another_code() -> None:
    census = PodIndex()
    census.add(0, SHY, 5)
    census.add(1, away(pod("shy").namespace("other"), term("zone", app="x")).build(), 5)

    here, there = (census.carried.values[code] for code in census.codes(CARRIED))

    assert here.anti_affinity[0].namespaces == {"default"}
    assert there.anti_affinity[0].namespaces == {"other"}


def test_the_journal_has_added_and_removed_pods() -> None:
    census = PodIndex()
    census.add(0, A, 5)
    start = census.position

    census.add(1, SHY, 6)
    census.remove(0)

    news = census.since(start)
    assert news is not None
    assert news.tolist() == [[6, 2, 1, +1], [5, 1, 0, -1]]
    nothing = census.since(census.position)
    assert nothing is not None
    assert nothing.shape == (0, 4)
    assert census.rows().tolist() == [-1, 6]


def test_pods_on_no_row_have_codes_and_are_not_in_the_journal() -> None:
    census = PodIndex()

    census.add(0, SHY, -1)
    census.remove(0)
    census.add(0, SHY, -1)

    assert census.position == 0
    assert census.codes(CARRIED).tolist() == [1]
    census.check()


def test_a_new_state_with_equal_codes_is_not_in_the_journal() -> None:
    census = PodIndex()
    census.add(0, A, 5)
    start = census.position

    census.replace(0, A, pod("a").label("app", "x").status(phase="Running").build())

    assert census.position == start


def test_new_labels_and_termination_are_in_the_journal() -> None:
    census = PodIndex()
    census.add(0, A, 5)
    start = census.position

    census.replace(0, A, LEAVING)
    census.replace(0, LEAVING, pod("a").build())

    news = census.since(start)
    assert news is not None
    assert news[:, [0, 3]].tolist() == [[5, -1], [5, +1]] * 2
    assert census.label_sets.values[census.codes(LABELS)[0]] == ("default", {}, False)
    census.check()


def test_keys_of_terms_are_known_while_a_pod_may_have_them() -> None:
    census = PodIndex()
    census.add(0, SHY, 5)
    census.add(1, near(pod("fan"), term("rack", among=labels())).build(), 5)
    census.add(2, away(pod("picky"), term("host"), weight=1).build(), 5)

    assert set(census.carried.anti_keys) == {"zone"}
    assert set(census.carried.other_keys) == {"rack", "host"}

    census.remove(0)
    for number in range(1100):
        census.add(0, away(pod("p"), term("rack", app=f"x{number}")).build(), 5)
        census.remove(0)

    assert set(census.carried.anti_keys) == {"rack"}
    assert set(census.carried.other_keys) == {"rack", "host"}


def test_a_reader_that_missed_an_epoch_must_count_all_pods() -> None:
    census = PodIndex()
    last = census.position
    while census.label_sets.epoch == 0:
        last = census.position
        census.add(0, pod("p").label("number", str(last)).build(), 5)
        census.remove(0)

    assert census.since(last - 1) is None
    fresh = census.since(last)
    assert fresh is not None
    assert len(fresh) == 2


def test_a_reader_far_behind_must_count_all_pods() -> None:
    census = PodIndex()
    start = census.position
    for _ in range(50):
        census.add(0, A, 5)
        census.remove(0)

    assert census.since(start) is None
    assert census.since(census.position - 10) is not None


class Thing:
    """Something to share."""


def test_shared_objects_are_dropped_with_their_last_holder() -> None:
    census = PodIndex()
    first = census.shared("key", Thing)
    alive = ref(first)

    assert census.shared("key", Thing) is first
    assert census.shared("other", Thing) is not first
    del first

    assert alive() is None
    assert census.shared("key", Thing) is not None
