"""The plan as it is written to a preemptor."""

import pytest

from scheduler.model.plan_record import (
    MAX_CHARACTERS,
    MAX_VICTIMS,
    VERSION,
    PlanRecord,
    decode,
    encode,
    fingerprint,
)

RECORD = PlanRecord(VERSION, "n1", 1.5, ("aa", "bb"), ("cc",))


def test_what_is_written_is_read_again():
    assert decode(encode(RECORD)) == RECORD


def test_it_is_compact():
    assert encode(PlanRecord(VERSION, "n1", 1.0, ("aa",))) == (
        '{"version":2,"node":"n1","begun":1.0,"victims":["aa"]}'
    )


def test_the_longest_plan_can_be_read():
    marks = tuple(fingerprint("preemptor", str(each)) for each in range(MAX_VICTIMS))
    longest = PlanRecord(VERSION, "n" * 253, 1_700_000_000.123, marks)

    assert decode(encode(longest)) == longest


def test_a_plan_with_more_victims_is_not_written():
    assert encode(PlanRecord(VERSION, "n1", 1.0, ("aa",) * (MAX_VICTIMS + 1))) == ""


def test_the_fingerprint_of_a_pod_differs_between_preemptors():
    assert fingerprint("one", "victim") != fingerprint("other", "victim")
    assert fingerprint("one", "victim") != fingerprint("one", "other")
    assert fingerprint("one", "victim") == fingerprint("one", "victim")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("{", id="no JSON"),
        pytest.param('{"version":2}', id="no node"),
        pytest.param("[" * 100_000, id="too deep"),
        pytest.param(encode(RECORD).replace('"version":2', '"version":1'), id="another version"),
        pytest.param(encode(RECORD).replace("1.5", "1e999"), id="no number"),
        pytest.param(encode(RECORD).replace('"n1"', f'"{"n" * MAX_CHARACTERS}"'), id="too long"),
    ],
)
def test_what_cannot_be_read_is_no_plan(text):
    assert decode(text) is None
