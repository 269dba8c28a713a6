"""Each view of the console shows what the API says, in a real browser."""

import json
import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace
from selenium.webdriver import ActionChains

from scheduler.model import times
from scheduler.model.rest.preemptions import DeviceView, PreemptionDevices, UndeallocatedClaim
from tests.support.api_stand_in import RECORDING
from tests.support.console_in_browser import Page
from tests.support.stand_in_documents import NOW

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

CANVAS = ".bars canvas"


def bars(page: Page) -> int:
    """Return how many nodes are drawn."""
    return int(page.find(CANVAS).get_attribute("data-nodes") or 0)


def test_every_node_is_a_bar_in_a_group_of_its_zone(page):
    page.open("cluster")

    page.wait(lambda: bars(page) == 12)
    assert page.find("#group-by").get_property("value") == "topology.kubernetes.io/zone"
    assert page.text("#totals").startswith("12 nodes, ")
    assert page.script("return document.querySelectorAll('.legend button').length") == 5


def test_the_filter_keeps_only_matching_nodes(page):
    page.open("cluster")
    page.wait(lambda: bars(page) == 12)

    page.press("/")
    page.press("node-0001")

    page.wait(lambda: bars(page) == 1)
    assert page.text("#totals").startswith("1 node, ")


def test_a_change_of_a_node_is_drawn_without_a_reload(page):
    page.open("cluster")
    page.wait(lambda: bars(page) == 12)

    revision = page.console.tick()

    page.wait(lambda: page.find(CANVAS).get_attribute("data-revision") == str(revision))


def test_a_node_that_is_removed_disappears(page):
    page.open("cluster")
    page.wait(lambda: bars(page) == 12)

    def remove() -> None:
        page.console.stand_in.world.remove_node("node-0004")
        page.console.stand_in.wake()

    page.console.call(remove)

    page.wait(lambda: bars(page) == 11)


def test_waiting_pods_are_in_groups_by_owner_with_phase_age_and_reason(page):
    page.open("waiting")

    page.sees("batch/Deployment/worker")
    row = next(each.text for each in page.all("tr[data-row]") if "worker-5" in each.text)
    assert "preempting" in row
    assert "3m 40s" in row or "3m 4" in row
    assert "waits for victims on node-0003" in row
    assert page.texts(".side h2") == ["Phase", "Reason"]


def test_the_page_of_a_pod_says_why_it_waits_and_what_would_help(page):
    page.open("waiting/prod/api-0")

    page.sees("Node node-0000 lacks only 50m cpu, the least of 4 nodes.", ".suggestions")
    page.sees("Evicting 2 pods on node-0001 would make space.")
    assert page.texts(".verdicts .state") == ["yes", "yes", "no"]
    assert page.texts(".candidates .chosen td:first-child") == ["node-0001"]
    assert "protect-databases" in page.text("main")
    assert page.all(".history li")


def answered(page: Page, path: str) -> dict[str, Any]:
    """Return what the API answers."""
    ask = "const [path, done] = arguments; fetch(path).then((it) => it.json()).then(done)"
    document: dict[str, Any] = page.driver.execute_async_script(ask, f"/api/v1/{path}")
    return document


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("waiting/prod/api-0", "pods/prod/api-0"),
        ("waiting/batch/worker-1", "pods/batch/worker-1"),
        ("waiting/batch/train-4-0", "pods/batch/train-4-0"),
        ("preemptions/preemption-00004", "preemptions"),
        ("preemptions/preemption-00005", "preemptions"),
    ],
)
def test_the_answer_comes_first_in_one_sentence(page, address, path):
    page.open(address)

    found = answered(page, path)
    if path == "preemptions":
        (found,) = [each for each in found["items"] if address.endswith(each["id"])]
    impact = found.get("impact", "none")
    verdict = re.sub(r"\d{4}-\d\d-\d\dT([\d:]+)Z", r"\1", found["verdict"])
    page.sees(verdict, f".verdict.impact-{impact}")
    size = "return parseFloat(getComputedStyle(document.querySelector('.verdict')).fontSize)"
    assert page.script(size) >= 18


def test_devices_are_named_with_their_claims_and_those_that_keep_them(page):
    page.open("waiting/batch/worker-5")
    page.sees("2 claims of evicted pods have not been deallocated for")
    page.sees("batch/train-5-0-gpu", ".tag")
    page.sees("2 more devices not shown.")
    rows = page.texts(".devices tbody tr")
    assert (
        rows[1] == "gpu-1 node-0003 gpu.example.com batch/train-5-1-gpu batch/train-5-1 and 2 more"
    )

    hostile = "<img src=x onerror=fail()>"
    found = page.console.stand_in.world.preemptions
    found[0] = replace(
        found[0],
        phase="deallocating",
        devices=PreemptionDevices((DeviceView(hostile, hostile, hostile, "batch", "c", "p"),), 0,
                                  times.stamp(NOW), (UndeallocatedClaim("batch", hostile),)),
    )  # fmt: skip
    page.open(f"preemptions/{found[0].id}")

    page.sees(f"batch/{hostile}", ".tag")
    assert page.texts(".devices tbody td")[:3] == [hostile] * 3
    assert "The victims are gone" in str(page.find(".facts .state").get_attribute("title"))


def test_the_message_of_kube_scheduler_is_there_once_and_below(page):
    page.open("waiting/batch/worker-1")
    page.sees("Attempts")

    text = page.text("main")
    assert text.count("2 Insufficient memory, 4 Insufficient cpu") == 1
    assert text.index("Node results") < text.index("nodes are available")


def test_the_page_of_a_victim_says_who_evicted_it_and_leads_to_the_preemptor(page):
    page.open("preemptions/preemption-00003")
    page.click("batch/train-3-0", "main a.pod")

    page.sees("prod/api-3", ".section .facts")
    facts = page.text(".section .facts")
    assert "preemption-00003" in facts
    assert "batch/train-3-again on node-0001" in facts
    assert "uid=" in page.driver.current_url
    page.click("prod/api-3", ".section a.pod")
    page.sees("api-3", "h1")


def test_the_page_of_a_pod_leads_to_the_evicted_one_that_it_replaces(page):
    page.open("waiting/batch/worker-13")

    page.sees("it replaces train-10-0, which was evicted for prod/api-10", ".verdict")
    page.click("batch/train-10-0", ".facts a.pod")
    page.sees("batch/train-10-0 was evicted from node-0010", ".verdict")


def test_the_page_of_a_pod_lists_each_node_on_demand(page):
    page.open("waiting/prod/api-0")
    page.sees("Node results")

    page.click("Each node")

    page.sees("12 of 12 nodes")
    page.find("#filter").send_keys("insufficient memory")
    page.misses("12 of 12 nodes")


def test_preemptions_are_listed_with_wasted_victims_marked(page):
    page.open("preemptions")

    page.wait(lambda: len(page.all("tr[data-row]")) == 11)
    assert page.all(".time-line canvas")
    page.sees("11 preemptions, 22 victims, 7 wasted")
    page.click("Wasted", ".choice button")
    page.wait(lambda: len(page.all("tr[data-row]")) < 11)
    assert all("wasted" in text for text in page.texts("tr[data-row]"))


def test_what_was_lost_in_the_chosen_time_is_summed_up(page):
    page.open("preemptions")
    line = page.find(".time-line .u-over")

    ActionChains(page.driver).drag_and_drop_by_offset(
        line, 8 - line.size["width"] // 2, 0
    ).perform()

    page.wait(lambda: "during=" in page.driver.current_url)
    page.sees("0 preemptions, 0 victims, 0 core-h lost", ".totals")
    page.open(f"preemptions?during={NOW - 420:.0f}-{NOW - 200:.0f}")
    page.sees("3 preemptions, 6 victims, 3 wasted, 0.64 core-h lost", ".totals")
    title = page.find(".totals .term").get_attribute("title")
    assert title.startswith("0.64 core-h, 1.29 GiB-h, 1.29 pod-h. ")


def test_a_preemption_shows_candidates_and_the_criterion_that_decided(page):
    page.open("preemptions/preemption-00004")

    page.sees("Candidates that were compared")
    chosen, *losers = page.texts(".candidates tbody tr")
    assert chosen.endswith("chosen")
    assert [text.rpartition("lost by ")[2] for text in losers] == [
        "sum of priorities", "highest priority", "PDB violations",
    ]  # fmt: skip
    assert page.texts(".candidates .decided") == ["0 in 3 pods", "1,000", "1"]
    title = page.find(".candidates .decided .term").get_attribute("title")
    assert title.startswith("0 + 3 \u00d7 2\u00b3\u00b9: lowest sum of priorities")
    page.sees("2 evictions did not help", ".verdict")
    page.sees("batch/train-4-again waits")
    page.sees("Policies in mode Audit that would have refused it")
    assert "audit-batch" in page.text("main")
    assert "Rules out" not in page.text("main")


@pytest.mark.parametrize(
    ("amounts", "want"),
    [
        ({"pods": 9, "cpu": 8_770, "memory": 18_790_481_920},
         ["0.0024 core-h", "0.0049 GiB-h", "0.0025 pod-h"]),
        ({"cpu": 7_200_000_000}, ["2,000 core-h"]),
        ({"cpu": 0}, ["0 core-h"]),
        ({}, []),
    ],
)  # fmt: skip
def test_lost_work_has_one_unit_for_each_resource(page, amounts, want):
    page.open("policies")

    assert page.module("format", f"m.cost({json.dumps(amounts)})") == want


def test_few_nodes_fill_the_page_and_have_bars_for_cpu_and_memory(page):
    page.open("cluster?by=none")
    page.wait(lambda: bars(page) == 12)

    layout = "m.layout([{name: 'all nodes', nodes: Array(%s).fill({name: 'a'})}], 1264, 600)"
    sizes = f"{layout}.bars.map(({{width, height}}) => [width, height])"
    assert page.module("cluster_layout", sizes % 4) == [[1264, 64]] * 4
    assert page.module("cluster_layout", sizes % 12) == [[1264, 46]] * 12
    assert page.module("cluster_layout", sizes % 40)[0] == [618, 28]


@pytest.mark.parametrize(
    ("priorities", "decided", "on"),
    [
        ([0, 1, 2, 3, 2_000_000_000], None, True),
        ([0, 1, 2, 3, 4], None, False),
        ([0, 1, 2, 3, 4], "1", True),
        ([0], "0", False),
    ],
    ids=["few levels", "many levels", "many, switched on", "few, switched off"],
)
def test_few_levels_have_patterns_until_the_user_decides(page, priorities, decided, on):
    page.open("policies")

    levels = f"m.makeScale({json.dumps(priorities)})"
    assert page.module("palette", f"m.patterned({levels}, {json.dumps(decided)})") is on


def test_what_is_not_known_is_not_zero(page):
    page.console.stand_in.switches.failures["/api/v1/summary"] = 403
    page.open("waiting")

    page.wait(lambda: set(page.texts(".side .number")) == {"\u2013"})
    assert set(page.texts(".figures dd")) == {"\u2013"}


def test_words_of_ours_say_what_they_mean(page):
    page.open("preemptions")
    page.find("tr[data-row]")

    for words, meaning in {
        ".tone-warn": "placed on another node", ".tag-bad": "did not use the space",
        ".figures div:last-child dd": "since this replica started",
    }.items():  # fmt: skip
        assert meaning in page.find(words).get_attribute("title")


def test_the_list_of_preemptions_is_kept_up_to_date(page):
    page.open("preemptions/preemption-00000")
    page.sees("nominating", ".facts")

    def end() -> None:
        world = page.console.stand_in.world
        world.revision += 1
        world.preemptions[0] = world._preemption(0, active=False)
        page.console.stand_in.wake()

    page.console.call(end)

    page.sees("bound", ".facts")


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/St_Johns"])
def test_all_times_of_a_page_are_in_the_time_zone_of_its_reader(page, zone):
    page.zone(zone)
    page.open("waiting/batch/train-5-0")
    moment = datetime.fromtimestamp(NOW - 505, ZoneInfo(zone)).strftime("%H:%M:%S")

    page.sees(f"was evicted from node-0005 at {moment} for prod/api-5", ".verdict")
    page.sees(f"{moment}, 8m 25s ago", ".section .facts")

    page.open("waiting/batch/worker-1")
    until = datetime.fromtimestamp(NOW + 120, ZoneInfo(zone)).strftime("%H:%M:%S")
    page.sees(f"(until {until})", "main")


def test_the_page_of_a_pod_that_preempted_leads_to_its_preemption(page):
    page.open("waiting/prod/api-5")

    page.click("preemption-00005", ".facts a")

    page.sees("Candidates that were compared")


def test_a_policy_tells_its_last_change_and_how_to_undo_it(page):
    page.open("policies")
    undo = "kubectl preemptive policies undo"

    page.sees("Last change, 2h ago", ".change")
    page.sees("victimMinRuntime: 1h \u2192 10m", ".change")
    assert page.texts(".change pre") == [
        f"{undo} protect-databases | kubectl replace -f -",
        f"{undo} team-b | kubectl replace -f -",
    ]
    assert page.module("commands", "m.undoCommand('p', 'a context')") == (
        f"{undo} p --context 'a context' | kubectl replace --context 'a context' -f -"
    )
    granted = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    page.driver.execute_cdp_cmd("Browser.grantPermissions", granted)
    page.click("Copy")
    page.wait(lambda: page.script("return navigator.clipboard.readText()").startswith(undo))


def test_policies_have_gauges_refusals_and_built_in_bounds(page):
    page.open("policies")

    page.sees("18 of 20 in 1h", "main")
    page.sees('unknown field "maxVictimPerPreemption"')
    page.sees("Generation 4 stays in force")
    page.sees("Preemption is stopped for 1 namespace.")
    assert len(page.all(".bounds .card")) == 5


DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 6
  template: {spec: {priority: 1000}}
"""


def fill(page: Page, text: str, drain: str = "") -> None:
    page.script(
        "const [area, text] = arguments; area.value = text;"
        "area.dispatchEvent(new Event('input', {bubbles: true}))",
        page.find("#objects"),
        text,
    )
    page.find("#drain").send_keys(drain)
    page.click("What would happen?")


def test_a_plan_shows_nodes_victims_and_displaced_pods(page):
    page.open("what-if")

    fill(page, DEPLOYMENT, "node-0001")

    page.sees("Applying this and draining node-0001 would evict 4 pods", ".verdict.impact-budgets")
    page.sees("3 need victims", ".counts")
    page.sees("The drain of node-0001 stops at ", ".harm")
    page.sees("Drained pods\n4", ".answer")
    page.sees("Pods evicted for others\n6", ".answer")
    page.sees("batch/train-1-0", ".answer")
    assert "chosen" in page.text(".candidates")
    assert page.console.stand_in.requests[-1] == "POST /api/v1/plan"


def test_a_plan_that_is_refused_says_why(page):
    page.open("what-if")
    page.console.stand_in.switches.failures["/api/v1/plan"] = 429

    fill(page, DEPLOYMENT)

    page.sees("too many plans at once", ".failure")
    page.sees("Try again in 1 s", ".failure")


def test_the_recording_is_downloaded(page, tmp_path):
    page.driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    page.open("cluster")

    page.click("\u2913 Download recording")
    page.click("15 minutes")

    file = tmp_path / "incident-15m.rec"
    page.wait(lambda: file.exists() and file.read_bytes() == RECORDING)
    assert "GET /api/v1/recording?last=15m" in page.console.stand_in.requests


def test_ages_follow_the_clock_of_the_server(page):
    """The stand-in lives at another time than the browser."""
    page.open("waiting")

    page.sees("prod/api-0")
    assert times.stamp(NOW) == "2026-05-04T10:00:00Z"
    row = next(each.text for each in page.all("tr[data-row]") if "prod/api-0" in each.text)
    assert " 1" in row
    assert "d " not in row
