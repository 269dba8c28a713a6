"""What of a trial is kept, and when. `tests/properties/test_trials.py` has random trials."""

import contextlib

import pytest

from scheduler.model.api.quantity import QuantityError
from scheduler.state.cluster import Cluster
from scheduler.state.trial import Trial
from tests.support.builders import node, pdb, pod
from tests.support.state_dump import dumped


@pytest.fixture
def cluster() -> Cluster:
    """Return a cluster with two nodes, two pods on one of them, and protected nominated pods."""
    made = Cluster()
    for name in ("n1", "n2"):
        made.write_node(node(name).cpu("4").build())
    for name in ("old", "last"):
        made.place(pod(name).on("n1").cpu("1").port(80).build(), "n1")
    for name in ("nominated", "later"):
        made.nominate(pod(name).cpu("1").label("app", "web").build(), "n1")
    made.write_pdb(pdb("b").selects(app="web").build())
    return made


def names(cluster: Cluster, node: str) -> list[str]:
    row = cluster.columns.row(node)
    assert row is not None
    return [pod.metadata.name for pod in cluster.pods.pods_on(row)]


def test_everything_is_undone_at_the_end(cluster):
    before = dumped(cluster)

    with Trial(cluster) as trial:
        trial.remove(pod("old").build().uid)
        trial.assume(pod("new").port(80).build(), "n1")
        trial.assume(pod("nominated").cpu("1").build(), "n2")
        assert names(cluster, "n1") == ["last", "new"]
        assert names(cluster, "n2") == ["nominated"]

    assert dumped(cluster) == before


def test_an_exception_undoes_as_well(cluster):
    before = dumped(cluster)

    with contextlib.suppress(ZeroDivisionError), Trial(cluster) as trial:
        trial.assume(pod("new").build(), "n2")
        raise ZeroDivisionError

    assert dumped(cluster) == before


def test_what_is_committed_stays(cluster):
    with Trial(cluster) as trial:
        trial.assume(pod("new").build(), "n2")
        trial.commit()
        trial.assume(pod("other").build(), "n2")

    assert names(cluster, "n2") == ["new"]
    assert cluster.assumed == 1


def test_the_latest_changes_are_undone_alone(cluster):
    with Trial(cluster) as trial:
        trial.assume(pod("new").build(), "n2")
        kept = len(trial)
        trial.assume(pod("other").build(), "n2")

        trial.undo(kept)

        assert names(cluster, "n2") == ["new"]


def test_other_changes_are_undone_in_their_order(cluster):
    undone: list[str] = []

    with Trial(cluster) as trial:
        trial.assume(pod("new").build(), "n2")
        trial.undo_also(lambda: undone.extend(names(cluster, "n2")))
        trial.assume(pod("other").build(), "n2")

    assert undone == ["new"]


@pytest.mark.parametrize(
    ("added", "where", "error"),
    [
        (pod("new"), "n3", ValueError),
        (pod("old"), "n2", ValueError),
        (pod("new").cpu("much"), "n1", QuantityError),
    ],
    ids=["a node that does not exist", "a pod on a node", "a request that is no quantity"],
)
def test_nothing_is_changed_by(cluster, added, where, error):
    before = dumped(cluster)

    with Trial(cluster) as trial, pytest.raises(error):
        trial.assume(added.build(), where)

    assert dumped(cluster) == before


def test_a_change_from_outside_is_an_error(cluster):
    trial = Trial(cluster)
    trial.assume(pod("new").build(), "n2")
    cluster.place(pod("foreign").on("n2").build(), "n2")

    with pytest.raises(RuntimeError, match="changed from outside"):
        trial.undo()


def test_readers_learn_that_a_pod_is_overdue_again(cluster):
    uid = pod("old").build().uid
    cluster.mark_overdue(uid)

    with Trial(cluster) as trial:
        trial.remove(uid)
        seen = cluster.overdue_version

    assert cluster.overdue == {uid}
    assert cluster.overdue_version > seen
