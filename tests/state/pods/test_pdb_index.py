"""Which disruption budgets protect a pod."""

import pytest

from scheduler.state.pods.pdb_index import UNPROTECTED, PdbIndex
from tests.support.builders import pdb, pod, requirement

WEB = pod("web-0").label("app", "web").build()


def holding(*builders) -> PdbIndex:
    pdbs = PdbIndex()
    for each in builders:
        pdbs.write(each.build())
    return pdbs


def protecting(pdbs: PdbIndex, protected=WEB) -> tuple[str, ...]:
    return pdbs.sets.values[pdbs.code(protected)]


def test_an_absent_selector_protects_no_pod():
    assert holding(pdb("b")).code(WEB) == UNPROTECTED


@pytest.mark.parametrize("operator", ["DoesNotExist", "NotIn"])
def test_a_pod_without_labels_is_protected_by_a_selector_that_needs_none(operator):
    pdbs = holding(pdb("b").selects(requirement("app", operator, *["web"][: operator == "NotIn"])))

    assert protecting(pdbs, pod("bare").build()) == ("default/b",)


def test_a_new_allowance_protects_the_same_pods():
    pdbs = holding(pdb("b").selects(app="web").allows(0))

    assert not pdbs.write(pdb("b").selects(app="web").allows(5).build())
    assert pdbs.allowed("default/b") == 5
