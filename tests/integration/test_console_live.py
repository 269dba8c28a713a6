"""The console in a browser, on a real scheduler and a real API server."""

import contextlib
import ssl

import pytest

from scheduler.kubectl.connection import Reach
from tests.integration.objects import pod
from tests.support.console_in_browser import Page, ServedConsole
from tests.web_console.browser.conftest import browser, thread  # noqa: F401 - fixtures

pytestmark = [pytest.mark.cluster, pytest.mark.browser]


@pytest.fixture
def visit(thread, browser, tmp_path):  # noqa: F811 - fixtures
    """Open the console of a scheduler, with a token or without; the browser may not complain."""
    with contextlib.ExitStack() as opened:

        def visited(scheduler, token_file=""):
            scheduler.wait_log("serving")
            url = f"https://127.0.0.1:{scheduler.port}"
            # The certificate is self-signed, so it is its own authority.
            authority = tmp_path / "scheduler.crt"
            authority.write_text(ssl.get_server_certificate(("127.0.0.1", scheduler.port)))
            reach = Reach(
                (), float, server=url, token_file=token_file, certificate_authority=str(authority)
            )
            page = Page(browser, opened.enter_context(ServedConsole(thread, reach)))
            page.size(1440, 900)
            page.problems()
            page.sign_in()
            opened.callback(browser.get, "about:blank")  # ends the connections of the page
            return page

        yield visited
        complaints = Page(browser, None).problems()
    assert complaints == []


def test_the_views_follow_a_real_preemption(scene, scheduler, namespace, visit):
    first, second = scene.node("2"), scene.node("4")
    scene.run(pod("low", "2", "low", on=first), pod("middle", "4", "middle", on=second))
    page = visit(scheduler)

    page.open("cluster?by=none")
    page.wait(lambda: int(page.find(".bars canvas").get_attribute("data-nodes") or 0) >= 2)
    page.open(f"cluster?by=none&node={first}")
    page.sees(f"{namespace}/low", ".panel")

    scene.create(pod("waits", "64", "low"))
    scene.wait_rejected("waits")
    page.open("waiting?by=none")
    page.sees(f"{namespace}/waits")
    page.click(f"{namespace}/waits")
    page.sees("Insufficient cpu", ".verdicts")
    page.sees("Unschedulable", ".history")

    page.open("preemptions")
    scene.create(pod("high", "2", "high"))
    scene.wait_bound("high")
    page.sees(f"{namespace}/high", "main")
    page.click(f"{namespace}/high", "tr[data-row] .pod")
    page.sees("bound", ".facts")
    page.sees(f"{namespace}/low", "main")
    assert page.texts(".candidates .chosen td:first-child") == [first]

    page.open("policies")
    page.wait(lambda: len(page.all(".bounds .card")) == 5)


def test_what_if_is_answered_by_a_real_scheduler(scene, scheduler, namespace, visit):
    node = scene.node("2")
    scene.run(pod("low", "2", "low", on=node))
    page = visit(scheduler)
    page.open("what-if")

    page.script(
        "const [area, text] = arguments; area.value = text;"
        "area.dispatchEvent(new Event('input', {bubbles: true}))",
        page.find("#objects"),
        "apiVersion: v1\nkind: Pod\nmetadata: {name: planned}\nspec:\n"
        f"  schedulerName: {scheduler.name}\n  priority: 1000\n  containers:\n"
        "  - {name: c, image: none, resources: {requests: {cpu: 2}}}\n",
    )
    page.click("What would happen?")

    page.sees("default/planned", ".answer")
    page.sees("Preempting", ".answer")
    page.sees(f"{namespace}/low", ".answer")
    assert scene.pod("low") is not None
