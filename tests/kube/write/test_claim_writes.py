"""The writer allocates, reserves, releases and deallocates resource claims."""

import asyncio
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import pytest

from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.write.executor import Patience
from scheduler.kube.write.writer import Writer, WriterSettings
from scheduler.model.api.device_claims import Allocation, DeviceRequests, DeviceResult, Results
from scheduler.model.effects import (
    BindClaims,
    ClaimRef,
    ClaimWrite,
    DeallocateClaim,
    DeleteClaim,
    Effect,
    PodRef,
    ReleaseClaims,
    RequestMapping,
)
from scheduler.model.events import (
    ClaimAnswered,
    EffectDone,
    EffectFailed,
    Event,
    FailureKind,
)
from tests.support.claim_server import CLAIMS, EXISTS, LOST, STATUS_OF_POD, ClaimServer

POD = PodRef("default", "p", "uid-p")
CLAIM, STATUS = f"{CLAIMS}/c", f"{CLAIMS}/c/status"
FINALIZER = "resource.kubernetes.io/delete-protection"
ALLOCATION = Allocation(Results([DeviceResult("r", "d", "n1", "gpu-0")]))
REF = ClaimRef("default", "c", "uid-c", "5")
BIND = BindClaims(POD, "n1", (ClaimWrite(REF, ALLOCATION),))
PROTECTED = BindClaims(POD, "n1", (ClaimWrite(REF, ALLOCATION, is_protected=True),))
RESERVE = BindClaims(POD, "n1", (ClaimWrite(REF),))
UNREADABLE = b'{"metadata": 1}'
ELSEWHERE = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "x", "device": "y"}]}}


#: How many requests of a test are sent without a task: with all, with none, and where it changes.
DISPATCHED: ContextVar[int] = ContextVar("DISPATCHED")


@pytest.fixture(autouse=True, params=[0, 1, 99])
def dispatched(request: pytest.FixtureRequest) -> None:
    DISPATCHED.set(request.param)


def claim(version: str = "5", status: Any = None, **metadata: Any) -> dict[str, Any]:
    named = {"name": "c", "namespace": "default", "uid": "uid-c", "resourceVersion": version}
    spec = {"devices": {"requests": []}, "unknownToUs": 1}
    return {"metadata": {**named, **metadata}, "spec": spec, "status": status or {}}


def extended(
    made: str = "true", owner: str = "uid-p", requests: Any = None, status: Any = None
) -> dict[str, Any]:
    """Return a claim with the name of the one for the extended resources of the pod."""
    known = claim(
        status=status,
        name="p-extended-resources-uid-p",
        annotations={"resource.kubernetes.io/extended-resource-claim": made},
        ownerReferences=[{"kind": "Pod", "name": "p", "uid": owner, "controller": True}],
    )
    return {**known, "spec": {"devices": {"requests": requests}}}


async def write(
    claims: Iterable[dict[str, Any]], effect: Effect = BIND, **faults: list[Any]
) -> tuple[ClaimServer, list[Event]]:
    """Return the server and the events after an effect."""
    paths = {"status": STATUS, "claim": CLAIM, "create": CLAIMS, "pod": STATUS_OF_POD}
    by_path = {f"{CLAIMS}/{each['metadata']['name']}": each for each in claims}
    by_path_faults = {paths[name]: each for name, each in faults.items()}
    server = ClaimServer(by_path, by_path_faults, dispatched=DISPATCHED.get())
    events: list[Event] = []

    async def at_once(_: float) -> None:
        await asyncio.sleep(0)

    patience = Patience(seconds=0.2, uncertain_seconds=0.05)
    writer = Writer(
        Client(server), events.append, lambda: True, lambda: 1_767_225_600.0,
        Sleeper(lambda: 0.0, at_once), WriterSettings(patience=patience),
    )  # fmt: skip
    writer.submit(effect)
    async with asyncio.timeout(5):
        while not any(isinstance(event, EffectDone | EffectFailed) for event in events):
            await asyncio.sleep(0.001)
    await writer.drain(1.0)
    return server, events


def failure(events: list[Event]) -> tuple[FailureKind, str]:
    assert isinstance(events[-1], EffectFailed)
    return events[-1].failure.kind, events[-1].failure.message


async def test_a_claim_is_protected_then_allocated_and_reserved():
    server, events = await write([claim()])

    status = server.claims[CLAIM]["status"]
    assert server.written() == [("PATCH", CLAIM), ("PATCH", STATUS)]
    assert server.claims[CLAIM]["metadata"]["finalizers"] == [FINALIZER]
    assert server.claims[CLAIM]["spec"]["unknownToUs"] == 1
    assert status["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert status["allocation"]["allocationTimestamp"] == "2026-01-01T00:00:00Z"
    assert status["reservedFor"] == [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    answers = [event.claim for event in events if isinstance(event, ClaimAnswered)]
    assert [each.metadata.resource_version for each in answers] == ["7"]
    assert ("GET", CLAIM) not in server.requests
    assert answers[-1].status.allocation is not None
    assert events[-1] == EffectDone(BIND)


@pytest.mark.parametrize("fault", [None, 500], ids=["", "refused"])
@pytest.mark.parametrize("waits", [True, False])
async def test_a_pod_is_nominated_first_if_its_devices_have_to_be_made_ready(waits, fault):
    effect = BindClaims(POD, "n1", BIND.claims, awaits_devices=waits)

    server, events = await write([claim()], effect, pod=[fault])

    nomination = {"metadata": {"uid": "uid-p"}, "status": {"nominatedNodeName": "n1"}}
    asked = [("PATCH", STATUS_OF_POD), ("PATCH", CLAIM), ("PATCH", STATUS)]
    assert server.requests == (asked if waits else asked[1:])
    assert (STATUS_OF_POD, nomination) in server.bodies or not waits or fault
    assert events[-1] == EffectDone(effect)


async def test_the_claims_of_a_pod_are_written_one_after_the_other():
    """Where one changes meanwhile, the ones before stay, and are not written again."""
    second = ClaimRef("default", "d", "uid-d", "5")
    parts = (*BIND.claims, ClaimWrite(second, ALLOCATION), ClaimWrite(second, None))
    effect = BindClaims(POD, "n1", parts)
    known = [claim(), claim("6", name="d", uid="uid-d")]

    server, events = await write(known, effect)

    other = f"{CLAIMS}/d"
    assert server.written()[:3] == [("PATCH", CLAIM), ("PATCH", STATUS), ("PATCH", other)]
    assert server.written().count(("PATCH", STATUS)) == 1
    assert [server.claims[each]["status"]["reservedFor"][0]["uid"] for each in (CLAIM, other)] == [
        "uid-p"
    ] * 2
    assert events[-1] == EffectDone(effect)


@pytest.mark.parametrize(
    ("known", "effect", "problem"),
    [
        (claim("6", {"allocation": ELSEWHERE}), BIND, "got allocated elsewhere"),
        (claim("6"), RESERVE, "got deallocated elsewhere"),
        (claim("6", deletionTimestamp="2026-01-01T00:00:00Z"), BIND, "got deleted"),
    ],
    ids=["allocated", "deallocated", "deleted"],
)
async def test_a_claim_that_others_changed_is_a_conflict(known, effect, problem):
    server, events = await write([known], effect)

    assert server.claims[CLAIM] == known
    assert failure(events) == (FailureKind.CONFLICT, f"claim default/c {problem} in the meantime")


async def test_a_conflict_is_tried_again_on_the_newest_state():
    server, events = await write([claim()], status=[claim("9", finalizers=[FINALIZER])])

    assert server.written() == [("PATCH", CLAIM), ("PATCH", STATUS), ("PATCH", STATUS)]
    assert events[-1] == EffectDone(BIND)


async def test_conflicts_end_after_five():
    server, events = await write([claim(finalizers=[FINALIZER])], PROTECTED, status=[409] * 9)

    assert len(server.written()) == 5
    assert failure(events)[0] is FailureKind.CONFLICT


async def test_a_claim_that_was_allocated_elsewhere_before_the_write_is_left_alone():
    taken = claim("9", {"allocation": ELSEWHERE})

    server, events = await write([claim(finalizers=[FINALIZER])], PROTECTED, status=[taken])

    assert failure(events)[1] == "claim default/c got allocated elsewhere in the meantime"
    assert server.claims[CLAIM]["status"] == {"allocation": ELSEWHERE}


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("claim", LOST),
        ("claim", UNREADABLE),
        pytest.param("claim", b"{}", id="claim-without a version"),
        ("status", LOST),
        ("status", UNREADABLE),
    ],
)
async def test_a_lost_answer_is_looked_up_and_nothing_is_written_twice(path, fault):
    server, events = await write([claim()], **{path: [fault]})

    assert server.written() == [("PATCH", CLAIM), ("PATCH", STATUS)]
    assert events[-1] == EffectDone(BIND)
    assert isinstance(events[-2], ClaimAnswered)
    assert events[-2].claim.status.allocation is not None


@pytest.mark.parametrize("decided_on", ["9", "5"], ids=["before", "during the write"])
async def test_an_earlier_leader_has_reserved_devices_of_another_node_for_the_pod(decided_on):
    reserved = {"allocation": ELSEWHERE, "reservedFor": [{"uid": "uid-p"}]}
    theirs = claim("9", reserved, finalizers=[FINALIZER])
    known = theirs if decided_on == "9" else claim(decided_on, finalizers=[FINALIZER])

    server, events = await write([known], PROTECTED, status=[theirs])

    assert failure(events)[1] == "claim default/c got allocated elsewhere in the meantime"
    assert server.claims[CLAIM]["status"] == reserved


async def test_what_the_api_server_refuses_says_what_was_to_be_written():
    _, events = await write([claim(finalizers=[FINALIZER])], PROTECTED, status=[422])

    kind, message = failure(events)
    assert kind is FailureKind.REFUSED
    assert message.startswith("add allocation and reservation to claim default/c: ")


async def test_the_claim_of_an_earlier_attempt_keeps_its_devices():
    part = ClaimWrite(ClaimRef("default", "", "x"), ALLOCATION, DeviceRequests())
    earlier = extended(status={"allocation": ELSEWHERE, "reservedFor": []})

    server, events = await write([earlier], BindClaims(POD, "n1", (part,)), create=[EXISTS])

    assert server.claims[f"{CLAIMS}/p-extended-resources-uid-p"] == earlier
    assert failure(events)[1].endswith("got allocated elsewhere in the meantime")


@pytest.mark.parametrize(
    ("made", "owner", "requests"),
    [("false", "uid-p", []), ("true", "other", []), ("true", "uid-p", [{"name": "more"}])],
    ids=["not marked", "of another pod", "for more"],
)
async def test_a_claim_of_others_with_the_name_of_one_for_extended_resources(made, owner, requests):
    part = ClaimWrite(ClaimRef("default", "", "x"), ALLOCATION, DeviceRequests())
    theirs = extended(made, owner, requests)

    server, events = await write([theirs], BindClaims(POD, "n1", (part,)), create=[EXISTS])

    assert server.claims[f"{CLAIMS}/p-extended-resources-uid-p"] == theirs
    assert failure(events)[1].endswith(
        "p-extended-resources-uid-p is not the one that the pod needs"
    )


async def test_a_claim_for_extended_resources_whose_answer_was_lost_is_found():
    part = ClaimWrite(ClaimRef("default", "", "x"), ALLOCATION, DeviceRequests())

    server, events = await write([extended()], BindClaims(POD, "n1", (part,)), create=[EXISTS])

    status = server.claims[f"{CLAIMS}/p-extended-resources-uid-p"]["status"]
    assert status["reservedFor"][0]["uid"] == "uid-p"
    assert isinstance(events[-1], EffectDone)


async def test_a_claim_for_extended_resources_is_made_and_named_in_the_pod():
    mapping = RequestMapping("main", "example.com/gpu", "container-0-request-0")
    part = ClaimWrite(ClaimRef("default", "", "x"), ALLOCATION, DeviceRequests(), (mapping,))

    server, events = await write([], BindClaims(POD, "n1", (part,)))

    name = "p-extended-resources-uid-p"
    created = server.bodies[0][1]
    assert created["metadata"]["annotations"] == {
        "resource.kubernetes.io/extended-resource-claim": "true"
    }
    (owner,) = created["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == ("uid-p", True)
    assert owner["blockOwnerDeletion"] is False, "we may not set it where the right is checked"
    assert server.claims[f"{CLAIMS}/{name}"]["status"]["reservedFor"][0]["uid"] == "uid-p"
    assert server.bodies[-1][1]["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": name,
        "requestMappings": [
            {
                "containerName": "main",
                "resourceName": "example.com/gpu",
                "requestName": "container-0-request-0",
            }
        ],
    }
    assert any(isinstance(event, ClaimAnswered) and event.created for event in events)


async def test_a_reservation_is_taken_back_by_the_uid_of_the_pod():
    effect = ReleaseClaims(POD, (REF,))

    server, events = await write([claim()], effect)

    assert server.bodies == [
        (
            STATUS,
            {
                "metadata": {"uid": "uid-c"},
                "status": {"reservedFor": [{"$patch": "delete", "uid": "uid-p"}]},
            },
        )
    ]
    assert events[-1] == EffectDone(effect)


@pytest.mark.parametrize(
    "first", [ClaimRef("default", "c", "replaced"), ClaimRef("default", "gone", "uid-gone"), REF]
)
async def test_a_claim_that_cannot_be_released_does_not_keep_the_next_one(first):
    reserved = {"allocation": ELSEWHERE, "reservedFor": [{"uid": "uid-p"}]}
    second = ClaimRef("default", "d", "uid-d")
    claims = [claim(status=reserved), claim(status=reserved, name="d", uid="uid-d")]
    faults = {"status": [403]} if first == REF else {}

    server, events = await write(claims, ReleaseClaims(POD, (first, second)), **faults)

    assert server.claims[f"{CLAIMS}/d"]["status"]["reservedFor"] == []
    assert isinstance(events[-1], EffectFailed if faults else EffectDone)


async def test_a_claim_is_deallocated_in_the_state_that_was_decided_on():
    effect = DeallocateClaim(POD, REF)

    server, events = await write([claim(status={"allocation": ELSEWHERE})], effect)
    changed, refused = await write([claim("6", {"allocation": ELSEWHERE})], effect)

    assert server.claims[CLAIM]["status"] == {}
    assert events[-1] == EffectDone(effect)
    assert changed.claims[CLAIM]["status"] == {"allocation": ELSEWHERE}
    assert failure(refused)[0] is FailureKind.CONFLICT


async def test_a_claim_is_deleted_without_its_finalizer():
    effect = DeleteClaim(POD, REF)

    server, events = await write([claim(finalizers=[FINALIZER, "other"])], effect)
    _, gone = await write([], effect)

    assert server.written() == [("PATCH", CLAIM), ("DELETE", CLAIM)]
    assert server.bodies[0][1]["metadata"]["$deleteFromPrimitiveList/finalizers"] == [FINALIZER]
    assert [events[-1], gone[-1]] == [EffectDone(effect)] * 2


async def test_another_claim_of_that_name_is_not_written():
    another = claim("6", uid="another")

    server, events = await write([another])

    assert server.claims[CLAIM] == another
    assert failure(events)[0] is FailureKind.GONE
