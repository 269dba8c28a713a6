"""The plan as it is written to a preemptor."""

import pytest

from scheduler.model.plan_record import PlanRecord, VictimRecord, decode, encode

VICTIM = VictimRecord(
    "default", "low", "uid-1", "ReplicaSet/default/web", leaving=True, strict=True
)
RECORD = PlanRecord(1, "n1", 1.5, 121.5, (VICTIM,), {"gold": 3})


def test_what_is_written_is_read_again():
    assert decode(encode(RECORD)) == RECORD


def test_it_is_compact():
    text = encode(PlanRecord(1, "n1", 1.0, 2.0, (VICTIM,)))

    assert text == (
        '{"version":1,"node":"n1","begun":1.0,"deadline":2.0,'
        '"victims":[["default","low","uid-1","ReplicaSet/default/web",true,true]]}'
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="no annotation"),
        pytest.param("", id="nothing"),
        pytest.param("{", id="no JSON"),
        pytest.param('{"version":1}', id="no node"),
        pytest.param("[" * 100_000, id="too deep"),
        pytest.param(encode(RECORD).replace('"version":1', '"version":2'), id="another version"),
    ],
)
def test_what_cannot_be_read_is_no_plan(text):
    assert decode(text) is None
