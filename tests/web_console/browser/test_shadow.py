"""The page of shadow mode: how this scheduler compares, where it does not schedule."""

import msgspec
import pytest
from selenium.webdriver.common.keys import Keys

from scheduler.model.rest.shadow import ShadowDocument
from tests.support.console_in_browser import Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

ROWS = "tr[data-row] .pod"


@pytest.fixture
def page(page: Page) -> Page:
    """The console of a scheduler in shadow mode."""
    page.console.stand_in.switches.shadow = True
    return page


def compared(page: Page) -> ShadowDocument:
    found: ShadowDocument = page.console.stand_in.shadow
    return found


def change(page: Page, **fields: object) -> None:
    page.console.stand_in.shadow = msgspec.structs.replace(compared(page), **fields)


def test_the_verdict_comes_first_then_numbers_then_the_pods_that_differ(page):
    page.open("cluster")
    page.click("Shadow", "nav a")
    page.sees(compared(page).verdict, "main .verdict")

    assert page.texts(".outcomes tbody tr") == [
        f"{each.count} {each.meaning}" for each in compared(page).outcomes if each.count
    ]
    assert page.texts(".sides tbody tr") == [
        "default-scheduler 31 372 core-h · 744 GiB-h · 93 pod-h",
        "this scheduler 12 24 core-h · 48 GiB-h · 6 pod-h",
    ]
    assert page.texts(ROWS) == ["prod/api-7", "prod/web-3"]
    first, second = page.texts("tr[data-row]")
    for words in ("preemption avoided", "node-12, evicts 3\nbatch/etl-0, batch/etl-1, batch/etl-2",
                  "pending", 'PreemptionPolicy "small-steps" refuses', "2m 5s ago"):  # fmt: skip
        assert words in first
    for words in ("other node", "node-4", "node-9", "the score is 21 lower"):
        assert words in second
    page.sees("2 pods, 22 hidden from you", ".totals")
    assert page.driver.title.startswith("Shadow · ")
    assert page.find(ROWS).get_attribute("href").endswith("#/waiting/prod/api-7?uid=uid-api-7")


def test_filter_and_outcome_are_in_the_address(page):
    page.open("shadow?q=web")
    page.wait(lambda: page.texts(ROWS) == ["prod/web-3"])

    page.open("shadow?outcome=preemption_avoided")
    page.wait(lambda: page.texts(ROWS) == ["prod/api-7"])
    assert page.find("#outcome").get_property("value") == "preemption_avoided"
    page.press("/", "batch/etl-1")
    page.wait(
        lambda: page.driver.current_url.endswith("outcome=preemption_avoided&q=batch%2Fetl-1")
    )
    assert page.texts(ROWS) == ["prod/api-7"]
    page.press("0")
    page.sees("None matches", "main")


def test_keys_lead_to_the_view_and_to_the_page_of_a_pod(page):
    page.open("cluster")
    page.find("nav a[href='#/shadow']")
    page.press("6")
    page.find("tr[data-row]")

    page.press("j", "j", "k", Keys.ENTER)

    page.sees("api-7", "h1")


def test_what_was_compared_is_kept_up_to_date(page):
    page.open("shadow")
    page.find("tr[data-row]")

    change(page, verdict="Of 2 pods, 2 were placed on the same node.")
    page.console.tick()

    page.sees("Of 2 pods, 2 were placed on the same node.", ".verdict")


NOTHING = {"outcomes": (), "items": (), "hidden": 0, "their_victims": 0, "our_victims": 0}


@pytest.mark.parametrize(
    ("fields", "title", "words"),
    [
        (NOTHING, "Nothing is compared yet", "default-scheduler"),
        ({"items": (), "hidden": 0}, "No pod was treated differently", ""),
        ({"items": (), "hidden": 24}, "24 pods were treated differently", "not named"),
    ],
    ids=["nothing yet", "no difference", "all hidden"],
)
def test_a_page_without_pods_says_why(page, fields, title, words):
    change(page, **fields)

    page.open("shadow")

    page.sees(title, ".empty")
    page.sees(words, ".empty")
    page.find(".verdict")
    assert page.all(ROWS) == []


def test_a_scheduler_that_schedules_has_no_such_view_and_its_address_says_why(page):
    page.console.stand_in.switches.shadow = False
    page.open("shadow")

    page.sees("Not in shadow mode", ".empty")
    page.sees("it schedules; start one with run --shadow", ".empty")
    assert "Shadow" not in page.texts("nav a")
    page.press("6")
    page.press("4")
    page.find(".gauge")


def test_a_missing_right_is_told_as_in_other_views(page):
    page.console.stand_in.switches.failures["/api/v1/shadow"] = 403

    page.open("shadow")

    page.sees('nonResourceURLs: ["/preemptive-scheduler/api/v1/shadow"]', "#problems")
