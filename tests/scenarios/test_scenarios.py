"""Small clusters, and what kube-scheduler decides on them.

Each YAML file has scenarios of one topic: the objects of a cluster as an API server returns them
(less what no rule reads), and what has to come out of `plan`. Only what is written is compared,
except that a decision other than `Preempting` has no victims. To add one, append it to a file;
`source` says where the expectation comes from.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.cli.main import main

Json = dict[str, Any]

#: Scenarios of rules that are not there yet. They fail, and a test says so when they no longer do.
AWAITING = frozenset({
    "rwop-01", "rwop-03", "vol-01", "vol-03", "vol-05", "vol-07", "vol-09",
    "vol-11", "vol-13", "vol-15", "vol-17", "vol-19", "vol-21", "vol-23",
    "vol-25", "vol-27", "vol-29", "vol-31", "vol-32", "vol-34",
})  # fmt: skip


def scenarios() -> Iterator[Any]:
    for file in sorted(Path(__file__).parent.glob("*.yaml")):
        for scenario in yaml.safe_load(file.read_text(encoding="utf-8"))["scenarios"]:
            name = scenario["id"]
            marks = [pytest.mark.xfail(strict=True)] if name in AWAITING else []
            yield pytest.param(scenario, id=f"{name}: {scenario['title']}", marks=marks)


@pytest.mark.parametrize("scenario", list(scenarios()))
def test_decides_as_kube_scheduler(
    scenario: Json, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    answer = planned(scenario, tmp_path, capsys)

    assert differences(scenario["expect"], answer) == []


def planned(scenario: Json, folder: Path, capsys: pytest.CaptureFixture[str]) -> Json:
    objects = folder / "objects.yaml"
    objects.write_text(yaml.safe_dump_all(scenario["objects"]), encoding="utf-8")
    arguments = ["plan", "-f", str(objects), "-o", "json", "--explain"]
    if "config" in scenario:
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(scenario["config"]), encoding="utf-8")
        arguments += ["--config", str(config)]
    if scenario.get("settle"):
        arguments.append("--settle")
    assert main(arguments) == 0
    answer: Json = json.loads(capsys.readouterr().out)
    return answer


def differences(expect: Json, answer: Json) -> list[str]:
    first: dict[str, Json] = {}
    for result in answer["results"]:
        first.setdefault(result["pod"], result)
    found = []
    for want in expect.get("results", []):
        got = first.get(want["pod"])
        if got is None:
            found.append(f"{want['pod']} has no result")
        else:
            found += [f"{want['pod']}: {each}" for each in of_result(want, got)]
    order = [each["pod"] for each in expect.get("results", []) if each["decision"] != "Gated"]
    if (happened := [name for name in first if name in order]) != order:
        found.append(f"order {happened}, not {order}")
    for name in expect.get("absent", []):
        if full(name) in first:
            found.append(f"{name} has a result")
    return found + of_the_end(expect, answer)


def of_result(want: Json, got: Json) -> Iterator[str]:
    decision = want.get("decision", got["decision"])
    for field in ("decision", "node", "pdbViolations"):
        if field in want and want[field] != got[field]:
            yield f"{field} is {got[field]}, not {want[field]}"
    if decision in ("Unschedulable", "Gated") and got["node"] is not None:
        yield f"node is {got['node']}, not none"
    if "nodeAnyOf" in want and got["node"] not in want["nodeAnyOf"]:
        yield f"node is {got['node']}, none of {want['nodeAnyOf']}"
    yield from of_victims(want, {*got["victims"]}, decision)
    yield from of_message(want, plain(got["message"]))
    explained = {each["name"]: each for each in got["nodes"]}
    for name, wanted in want.get("nodes", {}).items():
        yield from of_node(name, wanted, explained[name])


def of_victims(want: Json, got: set[str], decision: str) -> Iterator[str]:
    if "victims" in want or decision != "Preempting":
        wanted = fulls(want.get("victims", []))
        if got != wanted:
            yield f"victims are {sorted(got)}, not {sorted(wanted)}"
    choices = [fulls(each) for each in want.get("victimsAnyOf", [])]
    if choices and got not in choices:
        yield f"victims are {sorted(got)}, none of {choices}"
    if want.get("victimCount", len(got)) != len(got):
        yield f"{len(got)} victims, not {want['victimCount']}"
    if "victimsFrom" in want and not got <= fulls(want["victimsFrom"]):
        yield f"victims {sorted(got)} are not among {want['victimsFrom']}"


def of_message(want: Json, got: str) -> Iterator[str]:
    if "message" in want and got != want["message"]:
        yield f"message is {got!r}, not {want['message']!r}"
    if not got.startswith(want.get("messageStarts", "")):
        yield f"message is {got!r}, not {want['messageStarts']!r}…"
    for part in want.get("messageHas", []):
        if part not in got:
            yield f"message {got!r} lacks {part!r}"


def of_node(name: str, want: Json, got: Json) -> Iterator[str]:
    if "filter" in want and got["filter"] != want["filter"]:
        yield f"verdict on {name} is {got['filter']!r}, not {want['filter']!r}"
    for plugin, score in want.get("scores", {}).items():
        if got["scores"].get(plugin, 0) != score:
            yield f"{plugin} gives {name} {got['scores'].get(plugin, 0)}, not {score}"
    if "total" in want and got["total"] != want["total"]:
        yield f"{name} has {got['total']} in all, not {want['total']}"


def of_the_end(expect: Json, answer: Json) -> list[str]:
    found = []
    final = answer.get("final", {})
    for name, node in expect.get("final", {}).items():
        if final.get(full(name), "nowhere") != node:
            found.append(f"{name} ends on {final.get(full(name))}, not {node}")
    if "evicted" in expect:
        evicted = {victim for each in answer["results"] for victim in each["victims"]}
        if evicted != fulls(expect["evicted"]):
            found.append(f"{sorted(evicted)} were evicted, not {expect['evicted']}")
    placed = {
        each["pod"]: each["node"] for each in answer["results"] if each["decision"] == "Scheduled"
    }
    for node, count in expect.get("placedPerNode", {}).items():
        if [*placed.values()].count(node) != count:
            found.append(f"{[*placed.values()].count(node)} pods on {node}, not {count}")
    apart = [placed.get(full(name)) for name in expect.get("differentNodes", [])]
    if None in apart or len({*apart}) < len(apart):
        found.append(f"not on different nodes: {apart}")
    return found


def full(name: str) -> str:
    return name if "/" in name else f"default/{name}"


def fulls(names: list[str]) -> set[str]:
    return {full(name) for name in names}


def plain(message: str) -> str:
    """Drop what DynamicResources adds for a pod that uses no claim: scenarios leave it out."""
    if message.endswith(". not found"):
        message = message.removesuffix(" not found")
    message = message.replace(" no new claims to deallocate,", "")
    return message.removesuffix(" no new claims to deallocate")
