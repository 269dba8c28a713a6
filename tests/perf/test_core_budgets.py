"""No case of the core costs more than its budget, as a multiple of a loop in the same process."""

from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.perf import (
    core_cases,
    device_cases,
    feed_cases,
    policy_cases,
    recording_cases,
    waiting_cases,
)
from tests.perf.core_cases import Case, figure


class Budget(msgspec.Struct, forbid_unknown_fields=True):
    """What a case may cost, and where the figure comes from."""

    turns: float
    measured: float
    note: str = ""


class File(msgspec.Struct, forbid_unknown_fields=True):
    """`budgets.yaml`."""

    provenance: str
    headroom: float
    budgets: dict[str, Budget]


FILE: Final = msgspec.yaml.decode(Path(__file__).with_name("budgets.yaml").read_bytes(), type=File)
BUDGETS: Final = FILE.budgets
CASES: Final[dict[str, Case]] = {
    **core_cases.CASES,
    **policy_cases.CASES,
    **waiting_cases.CASES,
    **device_cases.CASES,
    **recording_cases.CASES,
    **feed_cases.CASES,
}


def test_every_case_has_a_budget_that_was_measured():
    assert FILE.provenance
    assert BUDGETS.keys() == CASES.keys()
    assert {name: each.turns for name, each in BUDGETS.items()} == pytest.approx(
        {name: each.measured * FILE.headroom for name, each in BUDGETS.items()}
    )


@pytest.mark.parametrize("name", CASES)
def test_a_decision_stays_within_its_budget(name: str):
    assert figure(CASES[name]).turns <= BUDGETS[name].turns
