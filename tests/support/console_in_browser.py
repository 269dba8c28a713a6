"""The console in a real browser: its server on a stand-in of the API, and Chromium to drive.

The servers run in an event loop of a thread, because the driver of the browser blocks.
"""

import argparse
import asyncio
import contextlib
import io
import os
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeVar

import uvloop
from selenium import webdriver
from selenium.common.exceptions import (
    JavascriptException,
    NoSuchElementException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from scheduler.kubectl.client import SchedulerClient
from scheduler.kubectl.commands.console import PluginBackend, target
from scheduler.kubectl.connection import Reach
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session
from scheduler.web_console.server import ConsoleServer, page_files
from scheduler.web_console.target import Target
from tests.support.api_stand_in import StandIn, serving
from tests.support.stand_in_documents import SMALL, Shape

__all__ = [
    "PATIENCE_SECONDS",
    "Console",
    "LoopThread",
    "Page",
    "ServedConsole",
    "chromium",
    "chromium_programs",
]

#: For how long a page may take to show something; machines of CI are slow.
PATIENCE_SECONDS: Final = 20.0
#: What the browser says of a question that it was asked while it left the page.
ABORTED: Final = "aborted by navigation"
WIDTH, HEIGHT = 1440, 900
_Result = TypeVar("_Result")


def chromium_programs() -> tuple[str, str] | None:
    """Return the paths of Chromium and of its driver; None if one is missing."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """Run Chromium without a window."""
    programs = chromium_programs()
    if programs is None:
        raise FileNotFoundError("Chromium and its driver are missing: make browser-packages")
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for argument in (
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--hide-scrollbars",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # it does not work for root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(programs[1]))
    try:
        yield driver
    finally:
        driver.quit()


class LoopThread:
    """A thread with an event loop. End it after the browser, which keeps connections open."""

    def __init__(self) -> None:
        # asyncio of Python 3.11 loses a connection that arrives while its server closes.
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "LoopThread":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(asyncio.sleep(0.2))  # connections that the browser has ended close meanwhile
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Run a coroutine in the thread, and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)


class ServedConsole:
    """The server of the console, for the scheduler that `reach` leads to."""

    #: Which cluster the page names; by default that of `reach`.
    target: Target | None = None

    def __init__(self, thread: LoopThread, reach: Reach) -> None:
        self._run = thread.run
        self._console = contextlib.AsyncExitStack()
        self._reach = reach

    def __enter__(self) -> Self:
        self._run(self._serve())
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_server()

    def stop_server(self) -> None:
        """End the server of the page."""
        self._run(self._console.aclose())

    def restart_server(self) -> None:
        """End the server of the page, and start one with another key on the same port."""
        port = self.server.port
        self.stop_server()
        self._run(self._serve(port))

    async def _serve(self, port: int = 0) -> None:
        client = await self._console.enter_async_context(SchedulerClient(self._reach.open))
        arguments = argparse.Namespace(server=self._reach.server, color="")
        out = Output(io.StringIO(), None, color=False)
        session = Session(arguments, client, out, float, self._reach.selection)
        backend = PluginBackend(session)
        self.server = ConsoleServer(backend, page_files(), target=self.target or target(session))
        await self._console.enter_async_context(self.server.serving(port))


class Console(ServedConsole):
    """The server of the console and the stand-in behind it."""

    def __init__(self, thread: LoopThread, shape: Shape = SMALL) -> None:
        super().__init__(thread, Reach((), float))
        self._api = contextlib.AsyncExitStack()
        self._port = 0
        self._shape = shape

    def __enter__(self) -> Self:
        self.stand_in = self.call(lambda: StandIn(self._shape))
        self.start_api()
        self._reach = Reach((), float, server=f"http://127.0.0.1:{self._port}")
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.stop_api()

    @property
    def stand_in_url(self) -> str:
        """The address of the stand-in."""
        return self._reach.server

    def start_api(self) -> None:
        """Let the scheduler answer."""
        self.stand_in.switches.break_watches = False
        url = self._run(self._api.enter_async_context(serving(self.stand_in, self._port)))
        self._port = int(url.rpartition(":")[2])

    def stop_api(self) -> None:
        """Let nothing answer any more; all connections end."""
        self._run(self._api.aclose())

    def tick(self) -> int:
        """Change the state, and return its revision."""
        self.call(self.stand_in.tick)
        return self.stand_in.world.revision

    def call(self, function: Callable[[], _Result]) -> _Result:
        """Call a function in the thread of the servers."""

        async def called() -> _Result:
            return function()

        return self._run(called())


class Page:
    """The page in the browser, as its user sees it."""

    def __init__(self, driver: webdriver.Chrome, console: Any) -> None:
        self.driver = driver
        self.console = console

    def size(self, width: int, height: int) -> None:
        """Set the size of the page in pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Set what the system prefers: dark or light."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def zone(self, name: str) -> None:
        """Set the time zone of the reader."""
        self.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": name})

    def sign_in(self) -> None:
        """Open the console with its key."""
        self.driver.get(self.console.server.url)
        self.find("input[name=key]").send_keys(self.console.server.key, Keys.ENTER)
        self.find("header.bar")

    def open(self, address: str) -> None:
        """Go to a view by the fragment of its address, on a page that is loaded again."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.console.server.url}#/{address}")
        self.find("#connection.tone-good, .banner")

    def find(self, selector: str) -> WebElement:
        """Return the first element, as soon as there is one."""
        return self.wait(
            lambda: self.driver.find_element(By.CSS_SELECTOR, selector), f"no {selector}"
        )

    def all(self, selector: str) -> list[WebElement]:
        """Return the elements that there are now."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements."""
        return [each.text for each in self.all(selector)]

    def text(self, selector: str = "body") -> str:
        """Return the text of an element."""
        return self.find(selector).text

    def sees(self, text: str, selector: str = "body") -> None:
        """Wait until an element shows a text."""
        self.wait(lambda: text in self.text_now(selector), f"{selector} does not show {text!r}")

    def misses(self, text: str, selector: str = "body") -> None:
        """Wait until an element does not show a text."""
        self.wait(lambda: text not in self.text_now(selector), f"{selector} shows {text!r}")

    def text_now(self, selector: str) -> str:
        """Return the text of an element, or nothing if there is none."""
        found = self.all(selector)
        return found[0].text if found else ""

    def click(self, text: str, selector: str = "button, a") -> None:
        """Click the first element with this text."""

        def clicked() -> bool:
            for each in self.all(selector):
                if each.text.strip() == text:
                    each.click()
                    return True
            return False

        self.wait(clicked, f"nothing to click: {text}")

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def focused(self) -> str:
        """Return the text of the element with the focus."""
        return self.driver.switch_to.active_element.text

    def script(self, body: str, *arguments: Any) -> Any:
        """Return the result of the body of a function."""
        return self.driver.execute_script(body, *arguments)

    def module(self, name: str, expression: str) -> Any:
        """Return an expression over a module of the page, called `m` in it."""
        body = (
            "const done = arguments[arguments.length - 1];"
            f"import('/js/{name}.js').then((m) => done({{value: {expression}}}),"
            " (error) => done({error: String(error)}))"
        )
        found = self.driver.execute_async_script(body)
        assert "error" not in found, found["error"]
        return found["value"]

    def wait(self, condition: Callable[[], _Result], problem: str = "") -> _Result:
        """Wait until a condition is true, and return its value.

        A question that the browser gives up because it goes to another page is asked again.
        """

        def held(_: webdriver.Chrome) -> _Result | Literal[False]:
            try:
                return condition()
            except WebDriverException as error:
                if ABORTED not in (error.msg or ""):
                    raise
                return False

        ignored = (NoSuchElementException, StaleElementReferenceException, JavascriptException)
        waiting = WebDriverWait(self.driver, PATIENCE_SECONDS, 0.05, ignored)
        return waiting.until(held, problem)

    def problems(self) -> list[str]:
        """Return what the browser complained about since the last call.

        Answers with an error are not among it: they are part of some tests.
        """
        return [
            each["message"]
            for each in self.driver.get_log("browser")
            if each["source"] != "network" and each["level"] in {"SEVERE", "WARNING"}
        ]
