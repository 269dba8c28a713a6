"""A browser for all tests, and a console for each; what the browser complains about is an error."""

from collections.abc import Callable, Iterator

import pytest
from selenium import webdriver

from tests.support.console_in_browser import Console, LoopThread, Page, chromium
from tests.support.stand_in_documents import LARGE, SMALL


@pytest.fixture(scope="session")
def thread() -> Iterator[LoopThread]:
    with LoopThread() as thread:
        yield thread


@pytest.fixture(scope="session")
def browser(
    thread: LoopThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def console(thread: LoopThread, browser: webdriver.Chrome) -> Iterator[Console]:
    with Console(thread, SMALL) as console:
        yield console
        browser.get("about:blank")  # ends the connections of the page


@pytest.fixture
def large(thread: LoopThread, browser: webdriver.Chrome) -> Iterator[Console]:
    with Console(thread, LARGE) as console:
        yield console
        browser.get("about:blank")


@pytest.fixture
def visit(browser: webdriver.Chrome) -> Iterator[Callable[[Console], Page]]:
    """Sign in to a console; nothing that the page does may make the browser complain."""
    pages: list[Page] = []

    def visited(console: Console) -> Page:
        page = Page(browser, console)
        page.size(1440, 900)
        page.prefer("dark")
        page.zone("UTC")
        page.problems()
        page.sign_in()
        pages.append(page)
        return page

    yield visited
    complaints = [each for page in pages for each in page.problems()]
    assert complaints == []


@pytest.fixture
def page(visit: Callable[[Console], Page], console: Console) -> Page:
    return visit(console)
