"""What happened as lines of JSON, and back."""

import pytest

from scheduler.model import recording_lines
from scheduler.model.api.devices import DeviceClass, DeviceClassSpec
from scheduler.model.api.objects import (
    LabelSelector,
    LabelsSpec,
    ObjectMeta,
    ReplicaSet,
    Service,
)
from scheduler.model.api.selectors import Selector
from scheduler.model.api.storage import CSINode, PersistentVolumeClaim, StorageMeta
from scheduler.model.effects import (
    Ask,
    Bind,
    Evict,
    PodRef,
    Question,
    SaveLedger,
    Verb,
)
from scheduler.model.events import (
    Answered,
    ClaimAnswered,
    ClockAhead,
    DeviceClassGone,
    DeviceClassObserved,
    DevicesGone,
    DevicesObserved,
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
    NodeObserved,
    PodGone,
    PodObserved,
    PolicyGone,
    PolicyObserved,
    StorageGone,
    StorageObserved,
    WorkloadGone,
    WorkloadObserved,
)
from scheduler.model.extender_answers import (
    ExtenderVictims,
    Filtered,
    NoAnswer,
    Scored,
    VictimUids,
)
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    PodSelection,
    PreemptionLimit,
    PreemptionPolicy,
)
from scheduler.model.recording_lines import LineError
from tests.support.builders import node, pod
from tests.support.devices import allocated, claim, device, gpus, wants
from tests.support.recordings import line_of

META = ObjectMeta(name="a", namespace="b")


@pytest.mark.parametrize(
    "event",
    [
        PodObserved(pod("p").cpu("1").build()),
        NodeObserved(node("n").cpu("4").build()),
        StorageObserved(PersistentVolumeClaim(StorageMeta("a", "b"))),
        StorageObserved(CSINode(StorageMeta("a"))),
        StorageGone("CSINode", "a"),
        WorkloadObserved(Service(META, LabelsSpec({"a": "b"}))),
        WorkloadObserved(ReplicaSet(META)),
        WorkloadGone("Service", "b/a"),
        DeviceClassObserved(DeviceClass(META, DeviceClassSpec("example.com/gpu"))),
        DeviceClassGone("a"),
        DevicesObserved(allocated("c", "n1/d", on="n1", by=("p",))),
        DevicesObserved(gpus("n1", device("d", size=1, capacity={"memory": "1Gi"}))),
        DevicesGone("ResourceClaim", "default/c"),
        ClaimAnswered(claim("c", wants())),
        PolicyObserved(
            PreemptionPolicy(
                "a",
                victims=PodSelection(
                    pods=Selector.of(LabelSelector({"a": "b"})), priority_classes=frozenset({"c"})
                ),
                budgets=(Budget(1, 60.0, BudgetScope.OWNER),),
                max_preemptions_per_owner=PreemptionLimit(1, 60.0),
            )
        ),
        PolicyGone("a"),
        ClockAhead(3600.0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_decoded_event_equals_the_encoded_one(event):
    back, at = recording_lines.decode(line_of(event, 17.25))

    assert (back, at) == (event, 17.25)
    assert {type(getattr(back, each)) for each in back.__slots__} == {
        type(getattr(event, each)) for each in event.__slots__
    }


@pytest.mark.parametrize(
    "line",
    [
        b'[1,"StorageObserved","Pod",{}]',
        b'[1,"PodObserved",{"what":{}}]',
        b'[1,"WorkloadObserved",{}]',
        b'[1,"Unheard",{}]',
        b'["soon","PodGone",{"key":"a/b","uid":"c"}]',
        b"no line",
        b"[" * 100_000,
    ],
    ids=["another kind", "another field", "no kind", "no event", "no time", "no JSON", "deep"],
)
def test_what_is_no_event_is_refused(line):
    with pytest.raises(LineError, match="not part of a recording"):
        recording_lines.decode(line)


@pytest.mark.parametrize(
    "event",
    [
        PodObserved(pod("a").build()),
        PodGone("default/a", "a"),
        EffectDone(Bind(PodRef("default", "a", "a"), "n1", "ours"), changed=False),
        EffectFailed(
            Evict(PodRef("d", "v", "v"), "n1", PodRef("d", "p", "p"), "ours", 3),
            Failure(FailureKind.FORBIDDEN, "no"),
        ),
        EffectFailed(
            Ask(PodRef("d", "p", "p"), 3, "7", (Question(0, Verb.FILTER, ("n1",)),)),
            Failure(FailureKind.GONE, "no"),
        ),
        Answered(
            PodRef("d", "p", "p"),
            3,
            (
                Filtered(("n1",), {"n2": "no"}, {"n3": "never"}),
                Scored((("n1", 3),)),
                ExtenderVictims((VictimUids("n1", ("v",), 1),)),
                NoAnswer("broken"),
            ),
        ),
    ],
    ids=lambda event: type(event).__name__,
)
def test_events_are_written_to_a_line_and_read_back_unchanged(event: Event):
    assert recording_lines.decode(line_of(event, 1.25)) == (event, 1.25)


def test_the_text_of_a_saved_ledger_is_left_out():
    written = line_of(EffectDone(SaveLedger("long", 7)), 1.5)

    assert recording_lines.decode(written) == (EffectDone(SaveLedger("", 7)), 1.5)


def test_time_that_passed_is_a_number():
    assert line_of(None, 1.5) == b"1.5"
    assert recording_lines.decode(b"1.5") == (recording_lines.Flushed(), 1.5)
