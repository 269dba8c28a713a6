"""Addresses say what is shown, so that links, reloads and Back lead to the same."""

import pytest

from tests.support.console_in_browser import Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


def address(page: Page) -> str:
    """Return the fragment of the address."""
    return page.driver.current_url.partition("#")[2]


def test_filter_phase_and_grouping_are_in_the_address_and_back_restores_them(page):
    page.open("waiting")
    page.find("tr[data-row]")
    page.click("None", ".choice button")
    page.find(".facet").click()
    page.find("#filter").send_keys("api")
    page.wait(lambda: "q=api" in address(page))
    before = address(page)
    rows = page.wait(lambda: page.texts("tr[data-row] .pod"))

    page.click(rows[0], "tr[data-row] .pod")
    page.sees("Node results")
    page.driver.back()
    page.wait(lambda: page.texts("tr[data-row] .pod") == rows)

    assert address(page) == before
    assert page.find("#filter").get_property("value") == "api"
    page.click(rows[0], "tr[data-row] .pod")
    page.click("Waiting", ".crumbs a")
    page.wait(lambda: address(page) == before)


def test_a_link_in_a_row_does_not_open_the_row(page):
    page.open("preemptions")
    page.find("tr[data-row] .node").click()
    page.find(".panel h2")

    page.driver.back()

    page.wait(lambda: address(page) == "/preemptions")


@pytest.mark.parametrize("wrong", ["nonsense", "waiting/prod", "policies/x", "preemptions/a/b"])
def test_an_unknown_address_says_so(page, wrong):
    page.open(wrong)

    page.sees("There is no such page", "main")
    page.sees(f"#/{wrong}", "main code")
    assert page.driver.title.startswith("No such page · ")
    page.click("Cluster", "nav a")
    page.find(".bars canvas")


def test_the_page_says_which_cluster_it_is(page):
    url = page.console.stand_in_url
    page.open("preemptions/preemption-00004")

    page.sees(url, "header .target")
    page.wait(
        lambda: (
            page.driver.title
            == f"preemption-00004 \u00b7 Preemptions \u00b7 {url} \u00b7 preemptive-scheduler"
        )
    )
