"""Whether an event can help a waiting pod."""

from scheduler.core.requeue.queueing_hints import QueueingHints
from scheduler.framework import event_diff
from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.profile import Profile
from scheduler.model.api.quantity import QuantityError
from scheduler.plugins.scheduling_gates import SchedulingGates
from tests.support.builders import OURS, pod

P = pod("p").build()
ADDED = event_diff.NODE_ADDED


def waker(*wakes: tuple[str, ClusterEventWithHint]) -> QueueingHints:
    return QueueingHints({OURS: Profile(OURS, queueing_hints=wakes)})


def on_nodes(answer: bool = True) -> ClusterEventWithHint:
    return ClusterEventWithHint(Resource.NODE, Action.ADD, lambda *_: answer)


def helps(found: QueueingHints, *rejectors: str) -> str:
    return found.hint_check(ADDED, None, None)(P, frozenset(rejectors))


def test_after_an_error_every_event_helps():
    assert helps(waker())


def test_a_hint_that_raises_an_error_means_queue():
    def cannot_tell(*_: object) -> bool:
        raise QuantityError("odd")

    assert helps(waker(("A", ClusterEventWithHint(Resource.NODE, Action.ADD, cannot_tell))), "A")


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


def test_the_gates_of_another_pod_do_not_matter():
    (event,) = SchedulingGates().events_to_register()
    waiting = pod("p").gated("a").build()

    assert [event.hint(waiting, None, pod(name).build()) for name in "pq"] == [True, False]
