"""Events as lines of JSON, and back."""

import pytest

from scheduler.model import capture_codec
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
from scheduler.model.capture_codec import WireError
from scheduler.model.events import (
    ClaimAnswered,
    ClockAhead,
    DeviceClassGone,
    DeviceClassObserved,
    DevicesGone,
    DevicesObserved,
    NodeObserved,
    PodObserved,
    PolicyGone,
    PolicyObserved,
    StorageGone,
    StorageObserved,
    WorkloadGone,
    WorkloadObserved,
)
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    PodSelection,
    PreemptionLimit,
    PreemptionPolicy,
)
from tests.support.builders import node, pod
from tests.support.devices import allocated, claim, device, gpus, wants

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
    back, at = capture_codec.decode(capture_codec.encode(event, 17.25))

    assert (back, at) == (event, 17.25)
    assert {type(getattr(back, each)) for each in back.__slots__} == {
        type(getattr(event, each)) for each in event.__slots__
    }


@pytest.mark.parametrize(
    "line",
    [
        b'{"at":1,"kind":"StorageObserved","value":{"item":{"kind":"Pod","value":{}}}}',
        b'{"at":1,"kind":"StorageObserved","value":{"what":{"kind":"CSINode","value":{}}}}',
        b'{"at":1,"kind":"WorkloadObserved","value":{"workload":{"metadata":{}}}}',
        b'{"at":1,"kind":"Unheard","value":{}}',
        b"no line",
    ],
    ids=["another kind", "another field", "no kind", "no event", "no JSON"],
)
def test_what_is_no_event_is_refused(line):
    with pytest.raises(WireError, match="not an event"):
        capture_codec.decode(line)
