"""Everyday questions to the console: in how many steps each is answered, on two sizes of screen."""

import pytest

from tests.support.console_in_browser import Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: prod}
spec: {replicas: 2, template: {spec: {priority: 1000}}}
"""


def pasted(page: Page, text: str) -> None:
    area = page.find("#objects")
    page.script("arguments[0].focus(); document.execCommand('insertText', false, arguments[1])",
                area, text)  # fmt: skip


def chosen(page: Page, view: str) -> None:
    page.find(f"nav a[href^='#/{view}']").click()


def typed(page: Page, selector: str, text: str) -> None:
    page.find(selector).send_keys(text)


#: What the user does from the page that opens first, and what answers: where, and the words.
STORIES = {
    "my pod is pending, why": (
        [(chosen, "waiting"), (Page.click, "prod/api-0")],
        ".verdict.impact-evictions", "prod/api-0 has waited 15s for 250m cpu",
    ),
    "who evicted my pod": (
        [(Page.open, "waiting/batch/train-3-0")],
        ".verdict.impact-evictions", "was evicted from node-0003",
    ),
    "who evicted my pod, of which I know only the name": (
        [(chosen, "waiting"), (typed, "#filter", "batch/train-3-0"),
         (Page.click, "Where is batch/train-3-0?")],
        ".verdict.impact-evictions", "was evicted from node-0003",
    ),
    "what if I apply this": (
        [(chosen, "what-if"), (pasted, DEPLOYMENT), (Page.click, "What would happen?")],
        ".verdict.impact-evictions", "Applying this would evict 2 pods",
    ),
    "drain this node": (
        [(chosen, "what-if"), (typed, "#drain", "node-0001"),
         (Page.click, "What would happen?")],
        ".verdict", "the drain of node-0001 stops at prod/",
    ),
    "undo a bad policy": (
        [(chosen, "policies")],
        ".change pre", "kubectl preemptive policies undo protect-databases | kubectl replace -f -",
    ),
    "shadow mode before enabling": (
        [(chosen, "shadow")],
        ".verdict", "Of 1,204 pods of default-scheduler, 1,180 (98.0 %) were placed on the same",
    ),
    "what a team may evict": (
        [(chosen, "policies")],
        ".gauge", "18 of 20 in 1h",
    ),
    "the cost of last night": (
        [(chosen, "preemptions"), (Page.click, "24 hours")],
        ".totals", " core-h lost",
    ),
}  # fmt: skip


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("story", STORIES)
def test_a_question_is_answered_in_few_steps_on_the_first_screen(page, story, width):
    steps, place, words = STORIES[story]
    page.console.stand_in.switches.shadow = story.startswith("shadow mode")
    page.size(width, 844)
    page.open("cluster")

    for act, *arguments in steps:
        act(page, *arguments)

    page.sees(words, place)
    top, wide = page.script(
        "const [place, root] = [document.querySelector(arguments[0]), document.documentElement];"
        "return [place.getBoundingClientRect().bottom, root.scrollWidth]",
        place,
    )
    assert (0 < top <= 844, wide) == (True, width)
