"""Users of a cluster's console sign in with a token, follow links of others, and sign out."""

import contextlib
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from tests.support.api_stand_in import StandIn, serving
from tests.support.console_in_browser import LoopThread, Page
from tests.web_console.public_console import PublicConsole, public_console

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

TOKEN = "token-of-ada"
LINK = "#/waiting/prod/api-0"


@pytest.fixture
def scheduler(thread: LoopThread) -> StandIn:
    async def made() -> StandIn:
        stand_in = StandIn()
        stand_in.switches.token = "unused"
        stand_in.switches.users = {TOKEN: "ada"}
        return stand_in

    return thread.run(made())


@pytest.fixture
def console(thread: LoopThread, scheduler: StandIn) -> Iterator[PublicConsole]:
    running = contextlib.AsyncExitStack()

    async def started() -> PublicConsole:
        url = await running.enter_async_context(serving(scheduler))
        return await running.enter_async_context(public_console([url]))

    yield thread.run(started())
    thread.run(running.aclose())


@pytest.fixture
def page(console: PublicConsole, browser: webdriver.Chrome) -> Iterator[Page]:
    """A browser that has not signed in."""
    page = Page(browser, console)
    page.size(1440, 900)
    browser.get(console.origin)
    browser.delete_all_cookies()
    page.problems()
    yield page
    assert page.problems() == []
    browser.get("about:blank")


def sign_in(page: Page, token: str = TOKEN) -> None:
    page.find("input[name=token]").send_keys(token, Keys.ENTER)


def from_another_site(page: Page, address: str) -> None:
    """Follow a link on a page that is not of this site."""
    page.driver.get("data:text/html," + quote(f'<a id="link" href="{address}">look</a>'))
    page.find("#link").click()


def test_the_link_that_was_opened_is_shown_after_signing_in_and_nothing_else_knows_the_token(page):
    page.driver.get(f"{page.console.origin}/{LINK}")
    page.sees("Enter a token", "main")
    sign_in(page, "wrong")
    page.sees("does not accept this token", "[role=alert]")
    sign_in(page)

    page.sees("Node results")
    assert page.driver.current_url == f"{page.console.origin}/{LINK}"
    page.sees("prod ada", "#target")
    assert page.script("return document.cookie") == ""
    kept = (
        "return JSON.stringify([localStorage, sessionStorage, document.documentElement.outerHTML])"
    )
    assert TOKEN not in page.script(kept)
    page.driver.refresh()
    page.sees("Node results")


def test_a_link_from_another_site_needs_no_second_sign_in(page):
    page.driver.get(page.console.origin)
    sign_in(page)
    page.find("#connection.tone-good")

    from_another_site(page, f"{page.console.origin}/{LINK}")

    page.sees("Node results")


def test_a_link_from_another_site_leads_through_the_form_who_has_not_signed_in(page):
    from_another_site(page, f"{page.console.origin}/{LINK}")

    page.sees("Enter a token", "main")
    sign_in(page)
    page.sees("Node results")
    assert page.driver.current_url == f"{page.console.origin}/{LINK}"


def test_who_signs_out_must_sign_in_again(page):
    page.driver.get(page.console.origin)
    sign_in(page)
    page.find("#connection.tone-good")

    page.script("sessionStorage.setItem('typed', 'apiVersion: v1')")

    page.click("Sign out")

    page.find("input[name=token]")
    assert page.script("return sessionStorage.length") == 0
    page.driver.get(page.console.origin)
    page.find("input[name=token]")
    assert page.console.cookies == 0


def test_a_session_that_ends_is_said_and_what_was_shown_stays(page, scheduler):
    page.driver.get(f"{page.console.origin}/{LINK}")
    sign_in(page)
    page.sees("Node results")

    scheduler.switches.users.clear()
    page.console.users._sessions.clear()
    scheduler.switches.break_watches = True
    scheduler.wake()

    page.sees("You are not signed in", "#problems")
    page.click("Sign in", "#problems button")
    page.sees("Your session has ended", "main")
    assert page.driver.current_url.endswith(LINK)


def test_a_token_is_not_sent_over_http_where_the_address_is_https(thread, scheduler, browser):
    running = contextlib.AsyncExitStack()

    async def started() -> PublicConsole:
        url = await running.enter_async_context(serving(scheduler))
        made = public_console([url], url="https://127.0.0.1:{port}")
        return await running.enter_async_context(made)

    page = Page(browser, thread.run(started()))
    browser.get(page.console.origin)
    page.problems()
    sign_in(page)

    page.wait(lambda: any("form-action" in each for each in page.problems()))
    assert scheduler.requests == []
    browser.get("about:blank")
    thread.run(running.aclose())
