"""Which disruption budgets protect a pod."""

from scheduler.model.api.objects import PodDisruptionBudget
from scheduler.state.pods.disruption_budgets import UNPROTECTED, BudgetIndex
from tests.support.builders import budget, pod, requirement

WEB = pod("web-0").label("app", "web").build()


def holding(*builders) -> BudgetIndex:
    budgets = BudgetIndex()
    for each in builders:
        budgets.write(each.build())
    return budgets


def protecting(budgets: BudgetIndex, protected=WEB) -> tuple[str, ...]:
    return budgets.sets.values[budgets.code(protected)]


def test_a_budget_protects_the_pods_it_selects():
    assert protecting(holding(budget("b").selects(app="web"))) == ("default/b",)


def test_a_budget_does_not_protect_other_pods():
    budgets = holding(budget("b").selects(app="db"))

    assert budgets.code(WEB) == UNPROTECTED


def test_a_budget_of_another_namespace_does_not_protect():
    budgets = holding(budget("b").namespace("team").selects(app="web"))

    assert budgets.code(WEB) == UNPROTECTED


def test_all_budgets_that_select_a_pod_protect_it():
    budgets = holding(
        budget("z").selects(app="web"),
        budget("other").selects(app="db"),
        budget("a").selects(requirement("app", "Exists")),
    )

    assert protecting(budgets) == ("default/a", "default/z")


def test_an_empty_selector_protects_no_pod():
    assert holding(budget("b").selects()).code(WEB) == UNPROTECTED


def test_an_absent_selector_protects_no_pod():
    assert holding(budget("b")).code(WEB) == UNPROTECTED


def test_an_invalid_selector_protects_no_pod():
    assert holding(budget("b").selects(requirement("app", "Like", "web"))).code(WEB) == UNPROTECTED


def test_a_pod_without_labels_is_not_protected():
    budgets = holding(budget("b").selects(requirement("app", "DoesNotExist")))

    assert budgets.code(pod("bare").build()) == UNPROTECTED


def test_a_new_budget_may_protect_other_pods():
    assert BudgetIndex().write(budget("b").selects(app="web").build())


def test_a_new_allowance_protects_the_same_pods():
    budgets = holding(budget("b").selects(app="web").allows(0))

    assert not budgets.write(budget("b").selects(app="web").allows(5).build())
    assert budgets.allowed("default/b") == 5


def test_another_selector_may_protect_other_pods():
    budgets = holding(budget("b").selects(app="web"))

    assert budgets.write(budget("b").selects(app="db").build())
    assert budgets.code(WEB) == UNPROTECTED


def test_a_deleted_budget_protects_no_pod():
    budgets = holding(budget("b").selects(app="web"), budget("c").selects(app="web"))

    assert budgets.erase("default/b")
    assert protecting(budgets) == ("default/c",)


def test_an_unknown_budget_cannot_be_deleted():
    budgets = holding(budget("b").selects(app="web"))

    assert not budgets.erase("default/c")
    assert not budgets.erase("team/b")


def test_a_pod_that_was_evicted_before_is_not_charged():
    budgets = holding(budget("b").selects(app="web").disrupted("web-1"))

    assert set(budgets.disrupted("default/b")) == {"web-1"}


def test_a_budget_is_found_by_namespace_and_name():
    given = budget("b").selects(app="web").build()
    budgets = BudgetIndex()
    budgets.write(given)

    assert budgets.get("default/b") is given
    assert isinstance(given, PodDisruptionBudget)
