"""Every row of the table in docs/preemption-policy.md is a test, and every such test is a row."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[4] / "docs" / "preemption-policy.md"
#: In the order of the table.
FILES = ("test_policy_table.py", "test_policy_budgets.py", "test_policy_disruption.py")


def test_every_row_is_a_test_and_every_test_a_row():
    table = PAGE.read_text().partition("| field, or what it is about |")[2].partition("\n\n")[0]
    rows = re.findall(r" <!-- ([a-z-]+) --> \|$", table, re.MULTILINE)

    tests = [
        name
        for file in FILES
        for name in re.findall(
            r'^@row\("([a-z-]+)"\)\ndef test_',
            Path(__file__).with_name(file).read_text(),
            re.MULTILINE,
        )
    ]
    assert rows == tests
