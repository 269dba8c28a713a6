"""The document of shadow mode: its sentence, and what callers see who may not see all pods."""

import json

import pytest

from scheduler.observe.api import shadow as document
from scheduler.observe.api.requests import EVERY_NAME, NO_NAME, ApiRequest, NameAccess
from scheduler.observe.shadow.comparison import Outcome
from scheduler.observe.shadow.shadow import Shadow
from tests.observe.shadow.test_shadow import LARGE, SMALL, Watched, cluster
from tests.support.builders import pod


class Only:
    """A caller who may see the pods of one namespace."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace

    async def visible(self, _namespaces: object) -> frozenset[str]:
        return frozenset({self._namespace})


async def read(shadow: Shadow | None, names: NameAccess = EVERY_NAME, **query: str) -> dict:
    request = ApiRequest(query, names)
    parts = await document.page(shadow, request, leader=True)
    return json.loads(b"".join([part async for part in parts]))


@pytest.fixture
def differing() -> tuple[Watched, Shadow]:
    """A pod of `team` is bound to the worse node; for one of `default` one of `team` is evicted."""
    low = pod("low").namespace("team").cpu("4").on("small").priority(1).started(-3600)
    there, shadow = cluster(
        SMALL, LARGE, low, pod("vip").cpu("4").priority(9), pod("b").namespace("team").cpu("1")
    )
    there.nominate("vip", "small")
    there.evict("team/low")
    there.delete("team/low")
    there.bind("vip", "small")
    there.bind("team/b", "small")
    return there, shadow


async def test_a_caller_sees_the_pods_of_his_namespaces_and_a_number_of_the_others(differing):
    _, shadow = differing

    everything = await read(shadow)
    own, nothing = await read(shadow, Only("default")), await read(shadow, NO_NAME)

    assert [each["pod"]["name"] for each in everything["items"]] == ["b", "vip"]
    assert everything["items"][1]["theirCost"]["pods"] > 0
    (vip,) = own["items"]
    assert (vip["pod"]["name"], vip.get("theirVictims"), vip["theirVictimsTotal"]) == (
        "vip",
        None,
        1,
    )
    assert "theirCost" not in vip
    assert own["hidden"] == 1
    assert (nothing.get("items", []), nothing["hidden"]) == ([], 2)
    assert not any(name in json.dumps(nothing) for name in ('"vip"', '"low"', '"team"'))


async def test_a_page_has_as_many_as_are_asked_for(differing):
    found = await read(differing[1], limit="1")

    assert [each["pod"]["name"] for each in found["items"]] == ["b"]
    assert found["remaining"] == 1


async def test_a_scheduler_that_schedules_has_no_such_document():
    with pytest.raises(LookupError, match="does not run in shadow mode"):
        await read(None)


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ({}, "No pod of preemptive-scheduler was placed yet, so no placement is compared."),
        (
            {Outcome.BOTH_UNSCHEDULABLE: 1},
            "No pod of preemptive-scheduler was placed yet, so no placement is compared.",
        ),
        (
            {Outcome.SAME_NODE: 1},
            "Of 1 pod of preemptive-scheduler, 1 (100.0 %) was placed on the same or an equally"
            " good node.",
        ),
        (
            {Outcome.EQUAL_NODE: 1500, Outcome.NO_ROOM: 500, Outcome.PREEMPTION_ADDED: 1},
            "Of 2,000 pods of preemptive-scheduler, 1,500 (75.0 %) were placed on the same or an"
            " equally good node; 1 preemption would have been added.",
        ),
        (
            {Outcome.OTHER_PREEMPTION: 2, Outcome.WOULD_PLACE: 3},
            "No pod of preemptive-scheduler was placed without a preemption yet, so no placement"
            " is compared; 2 preemptions would have had other victims; 3 pending pods would have"
            " been placed.",
        ),
    ],
)
def test_the_verdict_is_one_sentence(counts, sentence):
    _, shadow = cluster(SMALL)
    shadow.outcomes.update(counts)

    assert document.verdict(shadow) == sentence


def test_every_outcome_has_a_meaning():
    assert document.MEANINGS.keys() == set(Outcome)
