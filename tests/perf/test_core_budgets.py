"""No case of the core calls more functions than its budget allows.

Time is left to `make bench-core`: it depends on the machine, and calls do not. Cases beside the hot
path are left to `make deep`.
"""

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
from tests.perf.core_cases import Case, calls


class Budget(msgspec.Struct, forbid_unknown_fields=True):
    """What was measured of a case."""

    #: CPU time in turns of the loop of comparison.
    measured: float
    #: Function calls.
    calls: float
    note: str = ""


class Headroom(msgspec.Struct, forbid_unknown_fields=True):
    """How often a case may cost what was measured."""

    turns: float
    calls: float


class File(msgspec.Struct, forbid_unknown_fields=True):
    """`budgets.yaml`."""

    provenance: str
    headroom: Headroom
    budgets: dict[str, Budget]


FILE: Final = msgspec.yaml.decode(Path(__file__).with_name("budgets.yaml").read_bytes(), type=File)
CASES: Final[dict[str, Case]] = {
    **core_cases.CASES,
    **policy_cases.CASES,
    **waiting_cases.CASES,
    **device_cases.CASES,
    **recording_cases.CASES,
    **feed_cases.CASES,
}

#: What every pod costs, or every preemption.
HOT: Final = (
    "plain, 100 nodes",
    "plain, 5000 nodes",
    "anti-affinity, 5000 nodes",
    "affinity, 5000 nodes",
    "preferred anti-affinity, 5000 nodes",
    "spread, 5000 nodes",
    "unschedulable, 5000 nodes",
    "preemption, 1000 nodes with 4 pods",
    "preemption, 1000 nodes with 30 pods",
    "recording, a plain pod",
)


def test_every_case_has_a_budget_that_was_measured():
    assert FILE.provenance
    assert FILE.budgets.keys() == CASES.keys()


@pytest.mark.parametrize(
    "name",
    [*HOT, *(pytest.param(name, marks=pytest.mark.deep) for name in CASES if name not in HOT)],
)
def test_a_decision_calls_no_more_functions_than_its_budget_allows(name: str):
    assert calls(CASES[name]) <= FILE.budgets[name].calls * FILE.headroom.calls
