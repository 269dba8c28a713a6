"""Which disruption budgets protect a pod."""

import pytest

from scheduler.model.api.objects import PodDisruptionBudget
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


def test_a_budget_protects_the_pods_it_selects():
    assert protecting(holding(pdb("b").selects(app="web"))) == ("default/b",)


def test_a_budget_does_not_protect_other_pods():
    pdbs = holding(pdb("b").selects(app="db"))

    assert pdbs.code(WEB) == UNPROTECTED


def test_a_budget_of_another_namespace_does_not_protect():
    pdbs = holding(pdb("b").namespace("team").selects(app="web"))

    assert pdbs.code(WEB) == UNPROTECTED


def test_all_budgets_that_select_a_pod_protect_it():
    pdbs = holding(
        pdb("z").selects(app="web"),
        pdb("other").selects(app="db"),
        pdb("a").selects(requirement("app", "Exists")),
    )

    assert protecting(pdbs) == ("default/a", "default/z")


def test_an_absent_selector_protects_no_pod():
    assert holding(pdb("b")).code(WEB) == UNPROTECTED


def test_an_invalid_selector_protects_no_pod():
    assert holding(pdb("b").selects(requirement("app", "Like", "web"))).code(WEB) == UNPROTECTED


@pytest.mark.parametrize("protected", [WEB, pod("bare").build()], ids=["labelled", "bare"])
def test_an_empty_selector_protects_every_pod_of_the_namespace(protected):
    assert protecting(holding(pdb("b").selects()), protected) == ("default/b",)


@pytest.mark.parametrize("operator", ["DoesNotExist", "NotIn"])
def test_a_pod_without_labels_is_protected_by_a_selector_that_needs_none(operator):
    pdbs = holding(pdb("b").selects(requirement("app", operator, *["web"][: operator == "NotIn"])))

    assert protecting(pdbs, pod("bare").build()) == ("default/b",)


def test_a_new_budget_may_protect_other_pods():
    assert PdbIndex().write(pdb("b").selects(app="web").build())


def test_a_new_allowance_protects_the_same_pods():
    pdbs = holding(pdb("b").selects(app="web").allows(0))

    assert not pdbs.write(pdb("b").selects(app="web").allows(5).build())
    assert pdbs.allowed("default/b") == 5


def test_another_selector_may_protect_other_pods():
    pdbs = holding(pdb("b").selects(app="web"))

    assert pdbs.write(pdb("b").selects(app="db").build())
    assert pdbs.code(WEB) == UNPROTECTED


def test_a_deleted_budget_protects_no_pod():
    pdbs = holding(pdb("b").selects(app="web"), pdb("c").selects(app="web"))

    assert pdbs.erase("default/b")
    assert protecting(pdbs) == ("default/c",)


def test_an_unknown_budget_cannot_be_deleted():
    pdbs = holding(pdb("b").selects(app="web"))

    assert not pdbs.erase("default/c")
    assert not pdbs.erase("team/b")


def test_a_pod_that_was_evicted_before_is_not_charged():
    pdbs = holding(pdb("b").selects(app="web").disrupted("web-1"))

    assert set(pdbs.disrupted("default/b")) == {"web-1"}


def test_a_budget_is_found_by_namespace_and_name():
    given = pdb("b").selects(app="web").build()
    pdbs = PdbIndex()
    pdbs.write(given)

    assert pdbs.get("default/b") is given
    assert isinstance(given, PodDisruptionBudget)
