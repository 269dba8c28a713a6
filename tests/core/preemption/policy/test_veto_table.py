"""The vetoes against many candidates are counted as if they were listed row by row."""

import numpy as np

from scheduler.core.preemption.policy.loop_breaker import HANGS
from scheduler.core.preemption.policy.veto_table import RuleVetoes, VetoTable
from scheduler.core.preemption.policy.vetoes import VetoCache, VetoTally
from scheduler.model.policies import PolicyMode
from scheduler.model.policy_vetoes import Rule, RuleVeto

ROWS = np.array([3, 5, 7, 9])
NEVER = np.inf


def refusal(policy="p", until=None):
    return RuleVeto(policy, Rule.BUDGETS, PolicyMode.ENFORCE, "too many", until=until)


def rule(which, *vetoes, ends=None):
    return RuleVetoes(
        vetoes or (refusal(),), np.array(which), None if ends is None else np.array(ends)
    )


def reasons(table):
    tally = VetoTally()
    tally.add(table)
    return tally.reasons()


def test_rows_without_a_veto_are_not_vetoed():
    table = VetoTable(ROWS, [rule([0, 1, 0, 0]), rule([0, 0, 0, 1], HANGS), rule([0, 0, 0, 0])])

    assert table.vetoed.tolist() == [5, 9]
    assert table.detailed() == {5: (refusal(),), 9: (HANGS,)}


def test_each_row_has_its_own_end_and_the_table_the_first_one():
    table = VetoTable(ROWS, [rule([1, 1, 1, 0], ends=[NEVER, 20.0, 10.0, NEVER])])

    assert table.detailed() == {
        3: (refusal(),), 5: (refusal(until=20.0),), 7: (refusal(until=10.0),),
    }  # fmt: skip
    assert table.until == 10.0
    assert reasons(table) == [(f"{refusal().text} (until 1970-01-01T00:00:10Z)", 3)]


def test_dropped_rows_do_not_count():
    table = VetoTable(ROWS, [rule([1, 1, 1, 0], ends=[NEVER, 20.0, 10.0, NEVER])])
    assert table.until == 10.0

    table.forget(np.array([7, 8]))

    assert table.vetoed.tolist() == [3, 5]
    assert table.until == 20.0
    assert reasons(table) == [(f"{refusal().text} (until 1970-01-01T00:00:20Z)", 2)]


def test_a_row_with_the_same_veto_twice_counts_once():
    table = VetoTable(ROWS, [rule([1, 1, 0, 0]), rule([0, 2, 2, 0], HANGS, refusal())])

    assert reasons(table) == [(refusal().text, 3)]


def test_rules_that_share_an_array_are_counted_each():
    shared = np.array([1, 0, 1, 1])

    table = VetoTable(ROWS, [RuleVetoes([refusal(each)], shared) for each in ("a", "b")])

    assert reasons(table) == [(refusal("a").text, 3), (refusal("b").text, 3)]
    assert table.size_bytes == shared.nbytes


def test_eight_tables_are_cached_and_the_smallest_is_dropped_for_another():
    cache = VetoCache()
    cache.known("state", 0.0)
    tables = [VetoTable(ROWS + 10 * each, [rule([1, 1, int(each != 2), 1])]) for each in range(9)]

    for table in tables[:8]:
        cache.add(table)
    assert cache.known("state", 0.0) == tables[:8]
    assert cache.size_bytes > 0

    cache.add(tables[8])
    assert cache.known("state", 0.0) == [*tables[:2], *tables[3:]]


def test_a_table_whose_rows_are_all_dropped_is_dropped():
    cache = VetoCache()
    cache.known("state", 0.0)
    first, second = (VetoTable(ROWS + each, [rule([1, 1, 1, 1])]) for each in (0, 1))
    cache.add(first)

    cache.forget(ROWS)
    cache.add(second)

    assert cache.known("state", 0.0) == [second]


def test_a_table_is_dropped_when_its_first_veto_ends():
    cache = VetoCache()
    cache.known("state", 0.0)
    cache.add(VetoTable(ROWS, [rule([1, 1, 1, 1], ends=[NEVER, 9.0, 9.5, NEVER])]))

    assert len(cache.known("state", 8.0)) == 1
    assert cache.known("state", 9.0) == []
