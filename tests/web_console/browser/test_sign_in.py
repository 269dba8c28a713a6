"""The user signs in: by the file with the key, or by typing it."""

from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from scheduler.kubectl.commands.console import file_with_key
from tests.support.console_in_browser import PATIENCE_SECONDS, Console, Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]


@pytest.fixture
def page(console: Console, browser: webdriver.Chrome) -> Iterator[Page]:
    """A browser that has not signed in."""
    page = Page(browser, console)
    browser.get(console.server.url)
    browser.delete_all_cookies()
    page.problems()
    yield page
    assert page.problems() == []


def type_key(page: Page, key: str) -> None:
    """Send the form, and wait until its answer replaces the page."""
    page.script("window.earlier = true")
    page.find("input[name=key]").send_keys(key, Keys.ENTER)
    # While pages are replaced, the driver may fail in many ways.
    waiting = WebDriverWait(page.driver, PATIENCE_SECONDS, 0.05, [WebDriverException])
    waiting.until(lambda driver: not driver.execute_script("return window.earlier"))


def sign_in(page: Page) -> None:
    """Open the page, and wait until it is live."""
    page.driver.get(page.console.server.url)
    type_key(page, page.console.server.key)
    page.find("#connection.tone-good")


def test_the_file_with_the_key_opens_the_page(page):
    with file_with_key(page.console.server) as path:
        page.driver.get(path.as_uri())
        page.find("#connection.tone-good")

    assert page.driver.current_url.startswith(page.console.server.url)
    assert page.console.server.key not in page.driver.current_url
    assert page.script("return document.cookie") == ""


def test_a_wrong_key_is_refused_with_what_to_do_and_the_right_one_opens_the_page(page):
    page.driver.get(page.console.server.url)
    assert "Enter the key that kubectl preemptive console shows" in page.text("main")
    assert page.driver.switch_to.active_element.get_attribute("id") == "key"

    for _ in range(6):
        type_key(page, "wrong")
        page.sees("Wrong key", "[role=alert]")
    type_key(page, page.console.server.key)

    page.find("#connection.tone-good")


def test_the_link_that_was_opened_is_shown_after_signing_in(page):
    page.driver.get(f"{page.console.server.url}#/waiting/prod/api-0")
    page.sees(page.console.stand_in_url, "main .target")

    type_key(page, "wrong")
    page.sees("Wrong key", "[role=alert]")
    type_key(page, page.console.server.key)

    page.sees("Node results")
    assert page.driver.current_url == f"{page.console.server.url}#/waiting/prod/api-0"


def test_a_reload_and_a_second_tab_need_no_key(page):
    sign_in(page)

    page.driver.refresh()
    page.find("#connection.tone-good")
    first = page.driver.current_window_handle
    page.driver.switch_to.new_window("tab")
    try:
        page.driver.get(page.console.server.url)
        page.find("#connection.tone-good")
    finally:
        page.driver.close()
        page.driver.switch_to.window(first)


def test_after_a_restart_one_message_says_to_enter_the_new_key(page, thread):
    sign_in(page)

    page.console.restart_server()

    page.sees("You are not signed in", "#problems")
    assert len(page.all("#problems .banner")) == 1
    page.click("Enter the key", "#problems button")
    page.sees("was started again, with a new key", "main")
    type_key(page, page.console.server.key)
    page.find("#connection.tone-good")
