"""What each command prints, at 80 columns.

`GOLDEN=write pytest tests/kubectl/test_commands.py` writes the files in `golden` again.
"""

import io
import json
import os
import re
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from scheduler.kubectl.commands import candidates, plan_report, why
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.output import Output
from scheduler.model.rest.cluster import PendingPodView
from scheduler.model.rest.common import SHIFTED_SUM, CriterionView, PodView
from scheduler.model.rest.explanations import AttemptView, PodExplanation, PossiblePreemption
from scheduler.model.rest.preemptions import CandidateView, PolicyVeto, PolicyView, Replacement
from scheduler.model.rest.what_if import DisplacedPod, SimulatedPod, WhatIfAnswer
from tests.support.stand_in_documents import REPLACES

GOLDEN = Path(__file__).parent / "golden"
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: prod}
spec: {replicas: 4, template: {spec: {priority: 100000}}}
"""


def check(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    path = tmp_path / "web.yaml"
    path.write_text(DEPLOYMENT)
    return str(path)


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["why", "api-0", "-n", "prod"], id="why"),
        pytest.param(["why", "worker-1", "-n", "batch", "--nodes"], id="why-nodes"),
        pytest.param(["why", "api-4", "-n", "prod"], id="why-gated"),
        pytest.param(["why", "batch/train-5-0"], id="why-evicted"),
        pytest.param(["why", "batch/worker-5"], id="why-devices"),
        pytest.param(["preemptions"], id="preemptions"),
        pytest.param(["preemptions", "--active"], id="preemptions-active"),
        pytest.param(["preemptions", "api-5"], id="preemption"),
        pytest.param(["preemptions", "api-8"], id="preemption-devices"),
        pytest.param(["policies"], id="policies"),
        pytest.param(["top"], id="top"),
        pytest.param(["version"], id="version"),
    ],
)
async def test_a_command_prints_what_its_golden_file_says(run, url, argv, request):

    printed = await run(*argv, "--server", url)

    assert max(map(len, printed.text.splitlines())) <= 80
    check(request.node.callspec.id, printed.text)


async def test_shadow_prints_the_verdict_first(run, url, scheduler):
    scheduler.switches.shadow = True

    printed = await run("shadow", "--server", url)

    assert max(map(len, printed.text.splitlines())) <= 80
    check("shadow", printed.text)
    assert "small-steps" in (await run("shadow", "-o", "wide", "--server", url)).text
    document = json.loads((await run("shadow", "-o", "json", "--server", url)).text)
    assert document["agreeing"] == 1180


async def test_a_scheduler_that_schedules_has_no_comparison(run, url):
    with pytest.raises(CommandError, match="does not run in shadow mode: it schedules"):
        await run("shadow", "--server", url)


async def test_a_plan_that_evicts_ends_with_3(run, url, manifest):
    printed = await run("plan", "-f", manifest, "--server", url)

    assert printed.code == 3
    assert max(map(len, printed.text.splitlines())) <= 80
    check("plan", printed.text)


def test_a_narrow_plan_says_what_becomes_of_each_pod_and_how_to_plan_those_of_others():
    shown = io.StringIO()
    old, new = (PodView("preemption-example", f"batch-5b8b7f945b-{end}") for end in ("gv4wf", "x"))
    answer = WhatIfAnswer(
        at="2026-01-01T00:00:00Z",
        reference="1.37",
        items=(SimulatedPod(PodView("prod", "web"), "NotPlanned"),),
        displaced=tuple(DisplacedPod(old, "node-0", replacement=Replacement(new, node))
                        for node in ("node-1", "")),
    )  # fmt: skip

    plan_report.show(Output(shown, 80, color=False), answer)

    lines = shown.getvalue().splitlines()
    assert [re.split("  +", line)[2][:12] for line in lines[-2:]] == [
        "on node-1, a",
        "pending, as ",
    ]
    assert "--scheduler-name NAME plans them as if they named that scheduler." in lines


@pytest.mark.parametrize("lost_by", ["sum", "budgets"])
def test_how_sums_compare_is_said_where_one_has_decided(lost_by):
    shown = io.StringIO()
    criteria = (CriterionView("sum", "", "t", "s", SHIFTED_SUM), CriterionView("victims", ""))
    nodes = tuple(CandidateView(f"n{i}", {"victims": i}, lost_by if i else "") for i in (0, 1))
    found = PossiblePreemption("n0", criteria=criteria, candidates=nodes, candidates_total=2)

    candidates.compared(Output(shown, 80, color=False), found, wide=False)

    assert ("Of two sums" in shown.getvalue()) is (lost_by == "sum")


async def test_the_difference_of_a_plan_is_printed_by_node(run, url, manifest):
    printed = await run("plan", "-f", manifest, "--diff", "--server", url)

    assert printed.code == 3
    check("plan-diff", printed.text)


async def test_a_plan_that_evicts_nothing_ends_with_0(run, url, tmp_path):
    path = tmp_path / "low.yaml"
    path.write_text(DEPLOYMENT.replace("100000", "0").replace("4", "2"))

    printed = await run("plan", "-f", str(path), "--server", url)

    assert printed.code == 0
    assert printed.text.startswith("Applying this would evict no pod.\n")


async def test_a_plan_reads_standard_input_and_lists(run, url, scheduler, monkeypatch):
    items = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} for name in ("a", "b")]
    given = json.dumps({"kind": "List", "items": items}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))

    printed = await run("plan", "-f", "-", "-n", "team", "--server", url)

    assert re.findall(r"^team/[ab]", printed.text, re.MULTILINE) == ["team/a", "team/b"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param("a: [", r"bad\.yaml:2: did not find expected node", id="not YAML"),
        pytest.param("- 1\n- 2\n", r"bad\.yaml:1: a list is not a Kubernetes", id="a list"),
        pytest.param("metadata: {}\n", r"bad\.yaml:1: not a Kubernetes object", id="no kind"),
        pytest.param("kind: Foo\n", r"bad\.yaml:1: Foo: apiVersion is missing", id="no version"),
        pytest.param("", r"bad\.yaml: nothing to plan, there are no objects", id="nothing"),
    ],
)
async def test_a_bad_file_is_refused_before_anything_is_asked(
    run, url, scheduler, tmp_path, content, problem
):
    path = tmp_path / "bad.yaml"
    path.write_text(content)

    with pytest.raises(CommandError, match=problem):
        await run("plan", "-f", str(path), "--server", url)
    assert scheduler.requests == []


@pytest.mark.parametrize(
    "argv", [["why", "api-0", "-n", "prod"], ["preemptions"], ["policies"], ["version"]]
)
async def test_documents_are_printed_as_json_and_yaml(run, url, argv):
    as_json = await run(*argv, "-o", "json", "--server", url)
    as_yaml = await run(*argv, "-o", "yaml", "--server", url)

    assert json.loads(as_json.text) == yaml.safe_load(as_yaml.text)


async def test_all_pages_are_one_document(run, url, scheduler):
    one = scheduler.world.preemptions[0]
    scheduler.world.preemptions = [one] * 1_200

    printed = await run("preemptions", "-o", "json", "--server", url)

    document = json.loads(printed.text)
    assert len(document["items"]) == 1_200
    assert "continue" not in document


async def test_a_pipe_gets_uncut_tables_without_colours(run, url):
    printed = await run("why", "api-0", "-n", "prod", "--server", url, width=None)

    assert "…" not in printed.text
    assert "\x1b" not in printed.text


async def test_preemptions_of_one_namespace_are_those_that_concern_it(run, url):
    concerned = await run("preemptions", "-n", "batch", "--server", url)
    other = await run("preemptions", "-n", "team-z", "--server", url)
    everything = await run("preemptions", "-n", "team-z", "-A", "--server", url)

    assert len(concerned.text.splitlines()) == 12
    assert other.text == "No preemptions within the last 24 hours in namespace team-z.\n"
    assert everything.text == concerned.text


async def test_a_preemption_without_a_comparison_says_why(run, url, scheduler):
    found = scheduler.world.preemptions
    scheduler.world.preemptions = [
        msgspec.structs.replace(each, candidates=(), candidates_total=0, criterion="")
        for each in found
    ]

    printed = await run("preemptions", "api-5", "--server", url)

    assert "No comparison of candidates was recorded" in printed.text


async def test_a_preemption_says_which_policy_would_have_refused_it(run, url, scheduler):
    veto = PolicyVeto("audit-team-a", "maxVictimsPerPreemption", "at most 0 victims per preemption")
    scheduler.world.preemptions = [
        msgspec.structs.replace(each, would_refuse=(veto,)) for each in scheduler.world.preemptions
    ]

    printed = await run("preemptions", "api-5", "--server", url)

    assert "  audit-team-a would have refused: at most 0 victims per preemption\n" in printed.text


async def test_names_that_the_user_may_not_see_are_counted(run, url, scheduler):
    scheduler.switches.hide_names = True

    printed = await run("preemptions", "--server", url)
    top = await run("top", "--server", url)

    assert printed.text == "and 11 preemptions of pods that you may not see\n"
    assert "api-" not in top.text
    assert "and 11 preemptions of namespaces in which you may not get pods" in top.text


async def test_victims_without_names_are_counted_once(run, url, scheduler, manifest):
    scheduler.switches.hide_names = True

    printed = await run("plan", "-f", manifest, "--server", url)

    assert "would evict 2 pods on node node-0001" in printed.text
    assert "  and 2 pods that you may not see\n" in printed.text
    assert printed.text.startswith("Applying this would evict 3 pods")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("---\n---\n{kind: Foo, apiVersion: v1}\n", "web.yaml:3: Foo: metadata.name is"),
        (
            f"{DEPLOYMENT}---\n"
            "{kind: List, items: [{kind: PodList}, {kind: Bad, apiVersion: v1}]}",
            "web.yaml:6: items[1]: Bad: ",
        ),
    ],
)
async def test_what_the_scheduler_says_of_an_object_names_its_file(
    run, url, scheduler, tmp_path, content, problem
):
    path = tmp_path / "web.yaml"
    path.write_text(content)

    with pytest.raises(CommandError) as error:
        await run("plan", "-f", str(path), "--server", url)

    assert problem in str(error.value)


def test_a_pod_that_has_left_the_queue_shows_for_how_long_it_waited():
    shown = io.StringIO()
    out = Output(shown, 80, color=False)
    found = PodExplanation(
        pending=PendingPodView(
            PodView("prod", "web", priority=7),
            "preemptive-scheduler",
            "left",
            "2026-01-01T00:00:00Z",
            attempts=2,
        ),
        now="2026-01-01T00:10:00Z",
        message="the pod has left the queue",
        state="left",
        left_at="2026-01-01T00:05:00Z",
        history=(AttemptView("2026-01-01T00:00:00Z", "Unschedulable", message="too large"),),
    )

    why.show(out, found, wide=False)

    assert shown.getvalue().splitlines() == [
        "Pod prod/web waits no longer.",
        "  left       5m ago",
        "  waited     5m, 2 attempts",
        "  priority   7",
        "",
        "the pod has left the queue",
        "",
        "AGE   ATTEMPT         NODE   MESSAGE",
        "10m   Unschedulable   -      too large",
    ]


async def test_why_a_pod_waits_comes_before_what_was_evicted_before(run, url):
    text = (await run("why", REPLACES, "--server", url)).text

    assert 0 < text.index("EVICTION HELPS") < text.index("\nEvicted before:\nAGE")


async def test_text_of_the_server_cannot_control_the_terminal(run, url, scheduler):
    pending = scheduler.world.pending["prod/api-0"]
    hostile = "\x1b]0;evil\x07 \u202e\r\nx"
    scheduler.world.pending["prod/api-0"] = msgspec.structs.replace(pending, message=hostile)

    for form in ("wide", "json", "yaml"):
        printed = await run("why", "api-0", "-n", "prod", "-o", form, "--server", url)
        assert not set(printed.text) & set("\x1b\x07\r\u202e"), form


async def test_a_missing_file_is_said(run, url):
    with pytest.raises(CommandError, match=r"none\.yaml: No such file"):
        await run("plan", "-f", "none.yaml", "--server", url)


async def test_wide_tables_have_more_columns_and_are_not_cut(run, url):
    printed = await run("preemptions", "-o", "wide", "--server", url)

    assert "CRITERION" in printed.text.splitlines()[0]
    assert "…" not in printed.text


async def test_a_terminal_gets_colours(run, url, manifest):
    printed = await run("plan", "-f", manifest, "--diff", "--server", url, color=True)

    assert "\x1b[32m+ prod/web-0" in printed.text


async def test_wide_policies_have_numbers_by_rule_and_key(run, url):
    printed = await run("policies", "-o", "wide", "--server", url)

    assert "  refused: victimMinRuntime 12, foreignVictims 3\n" in printed.text
    assert "  would refuse: budgets 4\n" in printed.text
    assert "  most spent by namespace: batch 18, team-a 4\n" in printed.text


async def test_a_stop_is_said_first_and_is_no_harm(run, url, scheduler):
    policies = scheduler.world.policies
    halt = PolicyView("halt", stops=True, stop_reason="an incident")
    scheduler.world.policies = msgspec.structs.replace(policies, items=(halt,))

    printed = await run("policies", "--server", url, color=True)

    stopped = "All preemption is stopped by PreemptionPolicy halt: an incident"
    assert printed.text.startswith(f"\x1b[33m{stopped}\x1b[0m\n")
    assert "\x1b[31m" not in printed.text


async def test_without_policies_the_bounds_are_not_denied(run, url, scheduler):
    scheduler.world.policies = msgspec.structs.replace(scheduler.world.policies, items=())

    printed = await run("policies", "--server", url)

    assert printed.text.startswith("No preemption policies are in force.\n\nLimits on")


async def test_a_recording_names_the_next_command(run, url, tmp_path):
    path = tmp_path / "x.rec"

    printed = await run("record", "--last", "5m", "-o", str(path), "--server", url)

    assert f"kubectl preemptive replay {path}" in printed.text
