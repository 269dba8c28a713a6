"""What is said against many candidates is counted as if it were written down row by row."""

import numpy as np

from scheduler.core.preemption.policy.loop_breaker import HANGS
from scheduler.core.preemption.policy.veto_sheet import RuleVetoes, VetoSheet
from scheduler.core.preemption.policy.vetoes import VetoCache, VetoTally
from scheduler.model.policies import PolicyMode
from scheduler.model.policy_refusals import PolicyRefusal, Rule

ROWS = np.array([3, 5, 7, 9])
NEVER = np.inf


def refusal(policy="p", until=None):
    return PolicyRefusal(policy, Rule.BUDGETS, PolicyMode.ENFORCE, "too many", until=until)


def sweep(which, *said, ends=None):
    return RuleVetoes(
        said or (refusal(),), np.array(which), None if ends is None else np.array(ends)
    )


def reasons(sheet):
    tally = VetoTally()
    tally.add_sheet(sheet)
    return tally.reasons()


def test_rows_of_which_nothing_is_said_are_not_refused():
    sheet = VetoSheet(ROWS, [sweep([0, 1, 0, 0]), sweep([0, 0, 0, 1], HANGS), sweep([0, 0, 0, 0])])

    assert sheet.refused.tolist() == [5, 9]
    assert sheet.by_row() == {5: (refusal(),), 9: (HANGS,)}


def test_each_row_is_told_its_own_end_and_all_the_first():
    sheet = VetoSheet(ROWS, [sweep([1, 1, 1, 0], ends=[NEVER, 20.0, 10.0, NEVER])])

    assert sheet.by_row() == {
        3: (refusal(),), 5: (refusal(until=20.0),), 7: (refusal(until=10.0),),
    }  # fmt: skip
    assert sheet.until == 10.0
    assert reasons(sheet) == [(f"{refusal().text} (until 1970-01-01T00:00:10Z)", 3)]


def test_what_is_forgotten_counts_no_more():
    sheet = VetoSheet(ROWS, [sweep([1, 1, 1, 0], ends=[NEVER, 20.0, 10.0, NEVER])])
    assert sheet.until == 10.0

    sheet.forget(np.array([7, 8]))

    assert sheet.refused.tolist() == [3, 5]
    assert sheet.until == 20.0
    assert reasons(sheet) == [(f"{refusal().text} (until 1970-01-01T00:00:20Z)", 2)]


def test_a_row_that_is_told_the_same_twice_counts_once():
    sheet = VetoSheet(ROWS, [sweep([1, 1, 0, 0]), sweep([0, 2, 2, 0], HANGS, refusal())])

    assert reasons(sheet) == [(refusal().text, 3)]


def test_rules_that_share_an_array_are_told_apart():
    shared = np.array([1, 0, 1, 1])

    sheet = VetoSheet(ROWS, [RuleVetoes([refusal(each)], shared) for each in ("a", "b")])

    assert reasons(sheet) == [(refusal("a").text, 3), (refusal("b").text, 3)]
    assert sheet.size_bytes == shared.nbytes


def test_so_many_sheets_are_remembered_and_then_only_the_last():
    memory = VetoCache()
    memory.known("state", 0.0)
    sheets = [VetoSheet(ROWS + 10 * each, [sweep([1, 1, 1, 1])]) for each in range(9)]

    for sheet in sheets[:8]:
        memory.note_sheet(sheet)
    assert memory.known("state", 0.0).sheets == sheets[:8]
    assert memory.size_bytes > 0

    memory.note_sheet(sheets[8])
    assert memory.known("state", 0.0).sheets == sheets[8:]


def test_a_sheet_of_which_all_was_forgotten_makes_room():
    memory = VetoCache()
    memory.known("state", 0.0)
    first, second = (VetoSheet(ROWS + each, [sweep([1, 1, 1, 1])]) for each in (0, 1))
    memory.note_sheet(first)

    memory.forget(ROWS)
    memory.note_sheet(second)

    assert memory.known("state", 0.0).sheets == [second]


def test_a_sheet_is_forgotten_when_the_first_of_what_it_says_ends():
    memory = VetoCache()
    memory.known("state", 0.0)
    memory.note_sheet(VetoSheet(ROWS, [sweep([1, 1, 1, 1], ends=[NEVER, 9.0, 9.5, NEVER])]))

    assert len(memory.known("state", 8.0).sheets) == 1
    assert memory.known("state", 9.0).sheets == []
