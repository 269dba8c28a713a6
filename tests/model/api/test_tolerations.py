"""Taints and tolerations."""

import pytest

from scheduler.model.api.objects import Taint, Toleration
from scheduler.model.api.selectors import Tolerations

TAINT = Taint("dedicated", "db", "NoSchedule")

TOLERATES = [
    ("the same key, value and effect", Toleration("dedicated", "Equal", "db", "NoSchedule"), True),
    ("no operator means Equal", Toleration("dedicated", "", "db", "NoSchedule"), True),
    ("another value", Toleration("dedicated", "Equal", "web", "NoSchedule"), False),
    ("another key", Toleration("reserved", "Equal", "db", "NoSchedule"), False),
    ("another effect", Toleration("dedicated", "Equal", "db", "NoExecute"), False),
    ("any effect", Toleration("dedicated", "Equal", "db", ""), True),
    ("Exists with the key", Toleration("dedicated", "Exists", "", "NoSchedule"), True),
    ("Exists does not look at the value", Toleration("dedicated", "Exists", "web", ""), True),
    ("Exists without a key covers all", Toleration("", "Exists", "", ""), True),
    ("Exists without a key, another effect", Toleration("", "Exists", "", "NoExecute"), False),
    ("Equal without a key compares values only", Toleration("", "Equal", "db", ""), True),
    ("Equal without a key, another value", Toleration("", "Equal", "web", ""), False),
    ("an unknown operator", Toleration("dedicated", "Like", "db", ""), False),
    ("Gt, which is switched off", Toleration("dedicated", "Gt", "db", ""), False),
]


@pytest.mark.parametrize(
    ("toleration", "want"), [pytest.param(*row[1:], id=row[0]) for row in TOLERATES]
)
def test_a_toleration_covers_a_taint(toleration, want):
    assert Tolerations([toleration]).cover(TAINT) is want
