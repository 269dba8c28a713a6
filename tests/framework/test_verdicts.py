"""The table of verdicts."""

import numpy as np

from scheduler.framework import verdicts as module
from scheduler.framework.verdicts import NO_NODE, Verdict, Verdicts

FULL = Verdict("NodeResourcesFit", ("Too many pods", "Insufficient cpu"), resolvable=True)
CORDONED = Verdict("NodeUnschedulable", ("node(s) were unschedulable",), resolvable=False)


def test_a_verdict_of_the_framework_shows_the_plugins_that_lead_to_it():
    left_out = Verdict("", ("left out",), resolvable=False, shown_as="NodeAffinity, VolumeBinding")

    assert str(left_out) == "NodeAffinity, VolumeBinding: left out"


def test_codes_stay_within_16_bits_however_many_verdicts_are_added():
    table = Verdicts()
    for number in range(module._HALF + 100):
        code = table.code(Verdict("A", (f"claim {number} not found",), resolvable=False))

    other = table.code(Verdict("B", ("x", "y"), resolvable=True))

    assert max(code, other) < NO_NODE
    assert (table[code].plugin, table[code].resolvable) == ("A", False)
    assert (table[other].plugin, table[other].resolvable) == ("B", True)


def test_a_verdict_that_is_known_keeps_its_code_when_the_table_is_full():
    table = Verdicts()
    first = table.code(FULL)
    for number in range(module._HALF):
        table.code(Verdict("A", (str(number),), resolvable=False))

    assert table.code(FULL) == first


def test_the_verdicts_of_a_half_are_readable_until_its_codes_are_reused():
    table = Verdicts()
    first = table.code(FULL)
    table.switch_half()
    second = table.code(CORDONED)

    assert (table[first], table[second]) == (FULL, CORDONED)
    assert table.code(FULL) not in (first, second)

    table.switch_half()

    assert table.code(CORDONED) == first
    assert (table[first], table[second]) == (CORDONED, CORDONED)
    assert table.resolvable(np.array([first, second], dtype=np.uint16)).tolist() == [False, False]


def test_codes_stay_within_16_bits_over_many_turns():
    table = Verdicts()
    for number in range(4 * module._HALF):
        if table.is_full:
            table.switch_half()
        code = table.code(Verdict("A", (str(number),), resolvable=number % 2 == 0))

    assert len(table) <= 2 * module._STRIDE < NO_NODE
    assert table[code].reasons == (str(number),)
