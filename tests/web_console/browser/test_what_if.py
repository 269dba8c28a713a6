"""What if: the editor, and what it says before and after the scheduler is asked."""

import json
import subprocess

import pytest

from tests.support.console_in_browser import Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

TWO = """\
apiVersion: v1
kind: Pod
metadata: {name: first}
---
# the second one
kind: Deployment
metadata: {name: web}
"""
FORM = {"text": "", "drain": "", "namespace": "", "settle": True}


def enter(page: Page, text: str) -> None:
    page.script(
        "const [area, text] = arguments; area.value = text;"
        "area.dispatchEvent(new Event('input', {bubbles: true}))",
        page.find("#objects"),
        text,
    )


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        pytest.param("a: 1\nkind: Pod\n  b: 2\n", 3, "bad indentation", id="YAML"),
        pytest.param(f"{TWO}---\n\n- 1\n", 10, "document 3 is not an object", id="a document"),
        pytest.param(TWO, 6, "objects[1]", id="what the scheduler refuses"),
    ],
)
def test_a_problem_is_shown_at_its_line(page, text, line, problem):
    page.open("what-if")
    enter(page, text)

    page.click("What would happen?")

    page.sees(problem, ".line-problem")
    assert page.texts(".gutter .wrong") == [str(line)]
    number, message = page.find(".gutter .wrong").rect, page.find(".line-problem").rect
    assert message["y"] == pytest.approx(number["y"] + number["height"], abs=2)
    enter(page, f"{text}\n")
    page.wait(lambda: not page.all(".line-problem"))


def test_what_was_typed_survives_a_reload(page):
    page.open("what-if")
    page.click("Load the example")
    page.find("#drain").send_keys("node-0001")

    page.driver.refresh()

    page.wait(lambda: "name: web" in page.find("#objects").get_property("value"))
    assert page.find("#drain").get_property("value") == "node-0001"
    assert page.texts(".ask-head button") == []


def test_files_are_dropped_on_the_editor(page):
    page.open("what-if")

    page.script(
        "const data = new DataTransfer();"
        "for (const text of ['kind: A', 'kind: B']) data.items.add(new File([text], 'a.yaml'));"
        "const event = new DragEvent('drop', {dataTransfer: data, bubbles: true});"
        "arguments[0].dispatchEvent(event)",
        page.find("#objects"),
    )

    page.wait(lambda: page.find("#objects").get_property("value") == "kind: A\n---\nkind: B")
    assert page.texts(".gutter span") == ["1", "2", "3"]


def test_nodes_to_drain_are_suggested(page):
    page.open("what-if")

    page.find("#drain").send_keys("node-0001, node-000")

    options = (
        "return [...document.querySelectorAll('#node-names option')].map((each) => each.value)"
    )
    page.wait(lambda: len(page.script(options)) == 9)
    assert page.script(options)[0] == "node-0001, node-0000"


@pytest.mark.parametrize(
    ("form", "cluster", "want"),
    [
        ({"drain": "a, b"}, "", ["plan", "--drain", "a", "--drain", "b"]),
        ({"namespace": "x", "settle": False}, "it's", ["plan", "--context", "it's", "-n", "x",
         "--no-settle"]),
        ({"text": "a: $HOME\nEOF"}, "http://h:1", ["plan", "--server", "http://h:1", "-f", "-",
         "a: $HOME\nEOF\n"]),
    ],
    ids=["nodes", "a context to quote", "objects on standard input"],
)  # fmt: skip
def test_the_same_question_is_a_command_for_a_shell(page, form, cluster, want):
    asked = json.dumps({**FORM, **form})

    command = page.module("commands", f"m.planCommand({asked}, {json.dumps(cluster)})")

    shell = 'kubectl() { shift; printf "%s\\0" "$@"; cat; }\n'
    done = subprocess.run(
        ["bash", "-c", shell + command], input="", capture_output=True, text=True, check=True
    )
    assert [each for each in done.stdout.split("\0") if each] == want


def test_violated_budgets_are_named_in_red(page):
    page.open("what-if")
    enter(page, TWO.replace("kind: Deployment", "apiVersion: apps/v1\nkind: Deployment")
          + "spec: {replicas: 9, template: {spec: {priority: 1000}}}\n")  # fmt: skip

    page.click("What would happen?")

    page.find(".verdict.impact-budgets")
    page.sees("Disruption budget batch/train is violated", ".harm")
