"""What an informer reports next about an object, by what it has reported before."""

from scheduler.kube.watch.known_objects import KnownObjects
from scheduler.kube.watch.resources import PODS
from scheduler.model.events import Event, PodGone, PodObserved
from tests.support.builders import pod


def test_what_became_older_is_gone_before_it_is_there_again(heard):
    """A restored etcd took the pod off its node; no API server does."""
    known = KnownObjects(PODS, heard)
    events: list[Event] = []
    known.observe(pod("a").version(1000).on("n1").build(), events)

    known.observe(pod("a").version(999).build(), events)

    assert [type(each) for each in events] == [PodObserved, PodGone, PodObserved]
