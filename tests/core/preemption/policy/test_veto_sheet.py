"""The vetoes against many candidates are counted as if they were listed row by row."""

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


def rule(which, *vetoes, ends=None):
    return RuleVetoes(
        vetoes or (refusal(),), np.array(which), None if ends is None else np.array(ends)
    )


def reasons(sheet):
    tally = VetoTally()
    tally.add_sheet(sheet)
    return tally.reasons()


def test_rows_without_a_veto_are_not_vetoed():
    sheet = VetoSheet(ROWS, [rule([0, 1, 0, 0]), rule([0, 0, 0, 1], HANGS), rule([0, 0, 0, 0])])

    assert sheet.vetoed.tolist() == [5, 9]
    assert sheet.by_row() == {5: (refusal(),), 9: (HANGS,)}


def test_each_row_has_its_own_end_and_the_sheet_the_first_one():
    sheet = VetoSheet(ROWS, [rule([1, 1, 1, 0], ends=[NEVER, 20.0, 10.0, NEVER])])

    assert sheet.by_row() == {
        3: (refusal(),), 5: (refusal(until=20.0),), 7: (refusal(until=10.0),),
    }  # fmt: skip
    assert sheet.until == 10.0
    assert reasons(sheet) == [(f"{refusal().text} (until 1970-01-01T00:00:10Z)", 3)]


def test_dropped_rows_do_not_count():
    sheet = VetoSheet(ROWS, [rule([1, 1, 1, 0], ends=[NEVER, 20.0, 10.0, NEVER])])
    assert sheet.until == 10.0

    sheet.forget(np.array([7, 8]))

    assert sheet.vetoed.tolist() == [3, 5]
    assert sheet.until == 20.0
    assert reasons(sheet) == [(f"{refusal().text} (until 1970-01-01T00:00:20Z)", 2)]


def test_a_row_with_the_same_veto_twice_counts_once():
    sheet = VetoSheet(ROWS, [rule([1, 1, 0, 0]), rule([0, 2, 2, 0], HANGS, refusal())])

    assert reasons(sheet) == [(refusal().text, 3)]


def test_rules_that_share_an_array_are_counted_each():
    shared = np.array([1, 0, 1, 1])

    sheet = VetoSheet(ROWS, [RuleVetoes([refusal(each)], shared) for each in ("a", "b")])

    assert reasons(sheet) == [(refusal("a").text, 3), (refusal("b").text, 3)]
    assert sheet.size_bytes == shared.nbytes


def test_eight_sheets_are_cached_and_then_only_the_last():
    cache = VetoCache()
    cache.known("state", 0.0)
    sheets = [VetoSheet(ROWS + 10 * each, [rule([1, 1, 1, 1])]) for each in range(9)]

    for sheet in sheets[:8]:
        cache.add_sheet(sheet)
    assert cache.known("state", 0.0).sheets == sheets[:8]
    assert cache.size_bytes > 0

    cache.add_sheet(sheets[8])
    assert cache.known("state", 0.0).sheets == sheets[8:]


def test_a_sheet_whose_rows_are_all_dropped_is_dropped():
    cache = VetoCache()
    cache.known("state", 0.0)
    first, second = (VetoSheet(ROWS + each, [rule([1, 1, 1, 1])]) for each in (0, 1))
    cache.add_sheet(first)

    cache.forget(ROWS)
    cache.add_sheet(second)

    assert cache.known("state", 0.0).sheets == [second]


def test_a_sheet_is_dropped_when_its_first_veto_ends():
    cache = VetoCache()
    cache.known("state", 0.0)
    cache.add_sheet(VetoSheet(ROWS, [rule([1, 1, 1, 1], ends=[NEVER, 9.0, 9.5, NEVER])]))

    assert len(cache.known("state", 8.0).sheets) == 1
    assert cache.known("state", 9.0).sheets == []
