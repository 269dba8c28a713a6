"""Each view fits the window, in both themes; `make browser SCREENSHOTS=1` keeps the pictures."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from scheduler.web_console.target import Target
from tests.support.console_in_browser import Console, LoopThread, Page
from tests.support.stand_in_documents import Shape

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

IMAGES = Path(__file__).parents[3] / "docs" / "img"
#: A cluster of which pictures are legible.
SHAPE = Shape(nodes=420, pods=9_000, pending=60, active=3, past=90)
VIEWS = {
    "cluster": ("cluster", ".bars canvas[data-nodes]"),
    "node": ("cluster?by=none&node=node-0003", ".panel td"),
    "waiting": ("waiting", "tr[data-row]"),
    "pod": ("waiting/prod/api-0", ".candidates"),
    "preemptions": ("preemptions?span=6h", ".time-line canvas"),
    "preemption": ("preemptions/preemption-00008", ".candidates"),
    "policies": ("policies", ".gauge"),
    "what-if": ("what-if", "#objects"),
    "shadow": ("shadow", "tr[data-row]"),
    "victim": ("waiting/batch/train-5-0", ".verdict"),
    "nodes of a pod": ("waiting/prod/api-0", ".verdict"),
}
#: The pictures of the documentation, with their theme.
PICTURES = {
    "cluster": "dark",
    "node": "light",
    "waiting": "dark",
    "pod": "light",
    "preemptions": "dark",
    "preemption": "light",
    "policies": "dark",
    "what-if": "light",
    "shadow": "dark",
}
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: prod
spec:
  replicas: 4
  template:
    spec:
      schedulerName: preemptive-scheduler
      priority: 100000
      containers:
        - name: web
          resources:
            requests: {cpu: "2", memory: 4Gi}
"""


@pytest.fixture
def console(thread: LoopThread, browser: webdriver.Chrome) -> Iterator[Console]:
    """A larger cluster than that of other tests."""
    made = Console(thread, SHAPE)
    made.target = Target("prod-eu", "eu-west", "jane")
    with made as console:
        yield console
        browser.get("about:blank")


def show(page: Page, name: str) -> None:
    address, shown = VIEWS[name]
    page.console.stand_in.switches.shadow = name == "shadow"
    page.open(address)
    page.find(shown)
    if name == "nodes of a pod":
        page.click("Each node")
        page.find(".matrix")
    if name == "what-if":
        page.script(
            "const [area, text] = arguments; area.value = text;"
            "area.dispatchEvent(new Event('input', {bubbles: true}))",
            page.find("#objects"),
            DEPLOYMENT,
        )
        page.click("What would happen?")
        page.find(".candidates")


@pytest.mark.parametrize("width", [390, 1280])
def test_no_view_scrolls_sideways(page, width):
    page.size(width, 844)
    wide = {}
    for name in VIEWS:
        show(page, name)
        shown = "return [document.documentElement, document.querySelector('main')]"
        sizes = page.script(f"{shown}.map((each) => each.scrollWidth)")
        if max(sizes) > page.script("return innerWidth"):
            wide[name] = sizes

    assert wide == {}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_each_view(page, name, tmp_path):
    page.size(1280, 800)
    page.prefer(PICTURES[name])
    show(page, name)
    folder = IMAGES if os.environ.get("SCREENSHOTS") == "1" else tmp_path
    file = folder / f"console-{name}.png"

    assert page.driver.save_screenshot(str(file))

    assert 20_000 < file.stat().st_size < 400_000
