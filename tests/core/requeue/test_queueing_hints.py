"""Whether an event can help a waiting pod."""

from scheduler.core.requeue.queueing_hints import QueueingHints
from scheduler.framework import event_diff
from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.profile import Profile
from scheduler.model.api.quantity import QuantityError
from tests.support.builders import OURS, pod

P = pod("p").build()
ADDED = event_diff.NODE_ADDED


def waker(*wakes: tuple[str, ClusterEventWithHint]) -> QueueingHints:
    return QueueingHints({OURS: Profile(OURS, queueing_hints=wakes)})


def on_nodes(answer: bool = True) -> ClusterEventWithHint:
    return ClusterEventWithHint(Resource.NODE, Action.ADD, lambda *_: answer)


def helps(found: QueueingHints, *rejectors: str) -> str:
    return found.hint_check(ADDED, None, None)(P, frozenset(rejectors))


def test_the_plugins_that_rejected_a_pod_are_asked():
    assert helps(waker(("A", on_nodes())), "A")
    assert not helps(waker(("A", on_nodes(answer=False))), "A")


def test_other_plugins_are_not_asked():
    assert not helps(waker(("A", on_nodes())), "B")


def test_one_plugin_whose_hint_says_queue_is_enough():
    found = waker(("A", on_nodes(answer=False)), ("B", on_nodes()))

    assert helps(found, "A", "B") == "B"


def test_a_plugin_may_listen_twice():
    assert helps(waker(("A", on_nodes(answer=False)), ("A", on_nodes())), "A")


def test_after_an_error_every_event_helps():
    assert helps(waker())


def test_a_hint_that_raises_an_error_means_queue():
    def cannot_tell(*_: object) -> bool:
        raise QuantityError("odd")

    assert helps(waker(("A", ClusterEventWithHint(Resource.NODE, Action.ADD, cannot_tell))), "A")


def test_the_hint_gets_the_waiting_pod_and_the_old_and_new_object():
    seen = []
    wake = ClusterEventWithHint(Resource.NODE, Action.ADD, lambda *args: bool(seen.append(args)))

    waker(("A", wake)).hint_check(ADDED, None, P)(P, frozenset({"A"}))

    assert seen == [(P, None, P)]


def test_only_events_that_a_plugin_registered_for_are_checked():
    found = waker(("A", on_nodes()))

    assert found.is_registered(ADDED)
    assert not found.is_registered(event_diff.NODE_DELETED)


def test_the_plugins_of_another_profile_are_not_asked():
    found = QueueingHints(
        {OURS: Profile(OURS), "other": Profile("other", queueing_hints=(("A", on_nodes()),))}
    )

    assert found.is_registered(ADDED)
    assert not helps(found, "A")


def test_a_pod_without_a_profile_is_helped_by_no_event():
    found = waker(("A", on_nodes()))

    foreign = pod("q").scheduler("another").build()
    assert not found.hint_check(ADDED, None, None)(foreign, frozenset({"A"}))
