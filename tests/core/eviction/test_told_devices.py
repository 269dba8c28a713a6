"""What is told of a preemption for devices: Events of its preemptor, and numbers for metrics."""

import pytest
from msgspec.structs import replace

from scheduler.core.eviction.transitions import DEALLOCATE_AFTER, DEALLOCATE_WITHIN
from scheduler.core.outbox import Outbox
from scheduler.core.pod_status import StatusReporter
from scheduler.model.effects import RecordEvent
from tests.core.eviction.test_freed_devices import preempting
from tests.support.cluster import Cluster
from tests.support.devices import allocated, claim

WAITS = (
    "WaitingForDeallocation",
    (
        "Waits for devices of evicted pods on node n1: {} not deallocated yet; "
        "kube-controller-manager does that."
    ),
)
GAVE_UP = "NotDeallocated", "Gave up devices of evicted pods on node n1: {} not deallocated."


def told(cluster: Cluster) -> list[tuple[str, str]]:
    """Return the Events of the preemptor about claims."""
    reasons = {WAITS[0], GAVE_UP[0]}
    events = [each for each in cluster.asked(RecordEvent) if each.reason in reasons]
    assert all(each.regarding == cluster.ref("high") for each in events)
    return [(each.reason, each.note) for each in events]


@pytest.mark.parametrize(
    ("seconds", "events"),
    [
        (DEALLOCATE_AFTER - 1, []),
        (DEALLOCATE_AFTER, [WAITS]),
        (DEALLOCATE_WITHIN - 1, [WAITS]),
        (DEALLOCATE_WITHIN + DEALLOCATE_AFTER, [WAITS, GAVE_UP]),
    ],
)
def test_a_preemptor_is_told_once_that_a_claim_keeps_its_device(seconds, events):
    cluster = preempting(nodes=("n1", "n2"))
    cluster.delete("low-n1")

    for _ in range(int(seconds)):
        cluster.wait(1)

    named = "ResourceClaim low-n1-claim is"
    assert told(cluster) == [(reason, note.format(named)) for reason, note in events]


@pytest.mark.parametrize(
    ("own", "others", "named"),
    [
        (2, 0, "ResourceClaims c and c are"),
        (5, 0, "ResourceClaims c, c, c and 2 more are"),
        (1, 2, "ResourceClaim c and 2 ResourceClaims of other namespaces are"),
        (0, 1, "1 ResourceClaim of other namespaces is"),
    ],
)
def test_an_event_names_few_claims_and_none_of_another_namespace(own, others, named):
    cluster = preempting()
    known = claim("c")
    secret = replace(known, metadata=replace(known.metadata, namespace="secret", name="hidden"))
    claims = [known] * own + [secret] * others

    outbox = Outbox()

    StatusReporter(cluster.machine.queue, outbox).report_claims(
        cluster.pod("high"), "n1", claims, given_up=False
    )

    ((event,), _) = outbox.take()
    assert (event.reason, event.note) == (WAITS[0], WAITS[1].format(named))


@pytest.mark.parametrize(
    ("end", "outcomes", "waits", "deallocations"),
    [
        ("all at once", {"taken": 1, "lost": 0}, [0.0], 0),
        ("deallocated", {"taken": 1, "lost": 0}, [2.0], 0),
        ("nobody reserves it", {"taken": 1, "lost": 0}, [DEALLOCATE_AFTER], 1),
        ("given up", {"taken": 0, "lost": 1}, [], 0),
        ("another takes it", {"taken": 0, "lost": 1}, [2.0], 0),
        ("stopped", {"taken": 0, "lost": 0}, [], 0),
    ],
)
def test_what_became_of_devices_is_counted_once(end, outcomes, waits, deallocations):
    cluster = preempting(nodes=("n1", "n2"))
    known = cluster.claim("low-n1-claim")
    match end:
        case "all at once":
            cluster.finish("low-n1")
        case "deallocated" | "another takes it":
            cluster.delete("low-n1")
            cluster.wait(2)
            cluster.deallocate("low-n1-claim")
            if end != "deallocated":
                cluster.add(allocated("other", "n1/a", on="n1", by=("their",)))
        case "nobody reserves it":
            cluster.delete("low-n1")
            cluster.add(replace(known, status=replace(known.status, reserved_for=[])))
            cluster.wait(DEALLOCATE_AFTER)
        case "given up":
            cluster.delete("low-n1")
            for _ in range(int(DEALLOCATE_WITHIN)):
                cluster.wait(1)
    cluster.wait(3)
    cluster.drain()

    devices = cluster.machine.preemptions.devices
    assert devices.outcomes == outcomes
    assert [*devices.waits] == waits
    assert devices.deallocations == deallocations
