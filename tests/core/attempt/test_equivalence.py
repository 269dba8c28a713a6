"""Classes of equal pods."""

import pytest

from scheduler.core.attempt import equivalence as module
from scheduler.core.attempt.equivalence import EquivalenceClasses
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.events import EffectDone, NodeObserved, PodGone, PodObserved
from scheduler.state.cluster import Cluster
from tests.support.builders import node, pod
from tests.support.cluster import profiles
from tests.support.storage import using

P = pod("p").cpu("1").label("app", "web")


def test_pods_that_differ_in_name_uid_and_status_are_of_one_class():
    other = pod("q").cpu("1").label("app", "web").created(5).nominated("n1")

    assert ClassifiedPod(P.build()).key == ClassifiedPod(other.build()).key


def test_pods_that_differ_in_spec_labels_or_namespace_are_of_different_classes():
    different = [P, P.cpu("2"), P.label("app", "db"), P.namespace("team"), P.priority(1)]

    assert len({ClassifiedPod(each.build()).key for each in different}) == len(different)


def made(most_bytes: int = module.MAX_BYTES) -> EquivalenceClasses:
    return EquivalenceClasses(profiles(), Cluster(), Verdicts(), most_bytes)


def get(classes: EquivalenceClasses, builder):
    return classes.get(ClassifiedPod(builder.build()))


def test_a_class_is_compiled_once():
    classes = made()

    first = get(classes, P)

    assert get(classes, pod("q").cpu("1").label("app", "web")) is first
    assert len(classes) == 1


@pytest.mark.parametrize(
    ("budget", "labels"),
    [(5 * module._BYTES_PER_CLASS, ""), (module.MAX_BYTES, "x" * 2_000_000)],
    ids=["for their number", "for the size of their specs"],
)
def test_the_least_recently_used_class_is_dropped_when_classes_need_too_much_memory(budget, labels):
    classes = made(budget)
    pods = [P.label("number", f"{number}{labels}") for number in range(6)]
    found = [get(classes, each) for each in pods[:3]]
    assert get(classes, pods[0]) is found[0]

    for each in pods[3:]:
        get(classes, each)

    assert 1 < len(classes) < 6
    assert get(classes, pods[5]) is not get(classes, pods[1])
    assert get(classes, pods[1]) is not found[1]


def test_the_class_in_use_stays_whatever_it_takes():
    classes = made(1)

    assert get(classes, P) is get(classes, P)
    assert len(classes) == 1


def test_messages_stay_right_after_more_different_ones_than_there_are_codes(machine):
    machine.observe(NodeObserved(node("n1").build()), 0.0)

    def told(name: str) -> str:
        waiting = using(pod(name).cpu("1"), name).build()
        machine.observe(PodObserved(waiting), 0.0)
        attempt = machine.step(0.0)
        for effect in attempt.effects:
            machine.observe(EffectDone(effect), 0.0)
        machine.observe(PodGone(waiting.key, waiting.uid), 0.0)
        return attempt.decision.message

    verdicts = machine._attempts._verdicts
    for number in range(70_000):
        if number % 10_000 == 0:
            assert f'persistentvolumeclaim "p{number}" not found' in told(f"p{number}")
        verdicts.code(Verdict("A", (f"reason {number}",), resolvable=False))
