"""The documentation names everything that there is, and nothing that there is not."""

import argparse
import contextlib
import dataclasses
import io
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from deploy.tools.pages import configuration as configuration_page
from deploy.tools.pages import diagrams, recording, site
from scheduler.cli import main
from scheduler.config.args import TYPES
from scheduler.config.settings import (
    ClientConnection,
    Extender,
    ExtenderTLS,
    LeaderElection,
    Settings,
)
from scheduler.core.eviction import phases as preemption_phases
from scheduler.observe.metrics import catalogue
from scheduler.queue import phases as pod_phases
from tests.support import pages
from tests.support.incident import write_incident

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
COMMANDS = (DOCS / "cli.md").read_text()
ALERTS = yaml.safe_load(
    (ROOT / "charts" / "preemptive-scheduler" / "alerts" / "alerts.yaml").read_text()
)
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "scheduler").rglob("*.md")),
    *sorted(ROOT.glob("charts/*/README.md")),
]


def commands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    (found,) = (
        action.choices
        for action in main.parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return dict(found)


def flags(parser: argparse.ArgumentParser) -> set[str]:
    """Return the flags of a command."""
    actions = parser._actions
    return {flag for action in actions for flag in action.option_strings} - {"-h", "--help"}


def section(command: str, page: str = COMMANDS) -> str:
    """Return what a page says about a command."""
    found = re.search(rf"^## {command}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, f"the page has no section {command}"
    return found[1]


def documented(command: str, page: str = COMMANDS) -> set[str]:
    """Return the flags in the tables of a command's section."""
    rows = re.findall(r"^\| (`-.*?) \|", section(command, page), re.MULTILINE)
    return {flag for row in rows for flag in re.findall(r"`(--?[A-Za-z][a-z-]*)", row)}


def modules_that_differ() -> list[str]:
    """Return the modules that say how they differ from kube-scheduler."""
    scheduler = ROOT / "scheduler"
    return [
        path.relative_to(scheduler).with_suffix("").as_posix()
        for path in sorted(scheduler.rglob("*.py"))
        if "Differs:" in path.read_text()
    ]


@pytest.mark.parametrize("command", commands())
def test_every_flag_is_documented_and_no_other(command: str):
    found = documented(command)
    if command == "plan":  # most are those of the plugin, and described with it
        page = (DOCS / "kubectl-plugin.md").read_text()
        found |= documented(command, page)
    assert found == flags(commands()[command])


def test_every_command_is_documented_and_no_other():
    assert re.findall(r"^## (\S+)$", COMMANDS, re.MULTILINE) == list(commands())


@pytest.mark.parametrize("module", modules_that_differ())
def test_every_difference_is_in_the_list_of_differences(module: str):
    assert f"`{module}`" in (DOCS / "differences.md").read_text()


def test_the_list_of_differences_names_modules_that_exist():
    named = re.findall(r"`([a-z]+(?:/[a-z_]+)+)`", (DOCS / "differences.md").read_text())

    assert named
    assert [each for each in named if not (ROOT / "scheduler" / f"{each}.py").exists()] == []


def test_the_page_about_the_configuration_is_what_the_settings_say():
    want = configuration_page.page()

    assert (DOCS / "configuration.md").read_text() == want, "run: make golden"


def test_every_field_of_the_configuration_is_explained():
    text = configuration_page.page()
    kinds = (Settings, Extender, ExtenderTLS, LeaderElection, ClientConnection, *TYPES.values())

    names = [
        each.metadata["wire"].name
        for kind in kinds
        for each in dataclasses.fields(kind)
        if "wire" in each.metadata
    ]
    told = {name: re.search(rf"^\| `{name}` \| .+ \| (.+) \|$", text, re.M) for name in names}
    assert [name for name, row in told.items() if row is None or len(row[1]) < 10] == []


@pytest.mark.parametrize("name", diagrams.DIAGRAMS)
def test_the_diagrams_are_what_their_source_says(name: str):
    want = diagrams.DIAGRAMS[name].svg()

    assert (DOCS / "img" / name).read_text() == want, "run: make golden"


@pytest.mark.parametrize(
    ("name", "table"),
    [
        pytest.param("pod-phases.svg", pod_phases.TABLE, id="pod"),
        pytest.param("preemption-phases.svg", preemption_phases.TABLE, id="preemption"),
    ],
)
def test_a_diagram_of_phases_has_the_words_of_the_table(name: str, table: Mapping[Any, Any]):
    """Every phase is a box, every move a label, and there is no other label."""
    words: dict[str, set[str]] = {"name": set(), "label": set()}
    for element in ElementTree.fromstring((DOCS / "img" / name).read_text()).iter():
        kind = (element.get("class") or "").split(" ")[0]
        if kind in words and element.text:
            words[kind].update(element.text.removesuffix(",").split(", "))

    phases = {str(phase) for phase, _ in table} | {str(phase) for phase in table.values()}
    assert words["name"] - {"in the queue"} == phases
    assert words["label"] == {str(move) for _, move in table}


@pytest.mark.parametrize(
    ("name", "table"),
    [
        pytest.param("pod-phases.svg", pod_phases.TABLE, id="pod"),
        pytest.param("preemption-phases.svg", preemption_phases.TABLE, id="preemption"),
    ],
)
def test_a_diagram_of_phases_shows_every_move_of_the_table(name: str, table: Mapping[Any, Any]):
    shown = diagrams.shown(diagrams.DIAGRAMS[name].arrows, table)

    assert shown == diagrams.moves(table)


def test_the_recording_of_the_demonstration_shows_each_screen_once():
    screens = ["\x1b[31mred\x1b[0m <b>\nsame", "green\nsame"]

    text = recording.picture([recording.Frame(screen, 2.0) for screen in screens])

    root = ElementTree.fromstring(text)
    drawn = [each.text for each in root.iter() if each.tag.endswith("text")]
    assert drawn == ["red", "<b>", "same", "green"]
    assert text.count("4.0s step-end") == len(screens)


def test_the_recording_of_the_demonstration_is_small_and_complete():
    text = (DOCS / "img" / "demo.svg").read_text()

    words = "".join(ElementTree.fromstring(text).itertext())
    assert len(text) < 300_000
    assert all(word in words for word in ("terminating", "bound", recording.SETTLED))
    assert not re.search(r"<script|https?://(?!www\.w3\.org|127\.)", text)


def test_the_runbook_quotes_the_summary_of_every_alert():
    text = (DOCS / "operations.md").read_text()

    sections = re.findall(r"^### (\w+)\n\n> (.+)$", text, re.MULTILINE)
    assert sections == [(rule["alert"], rule["annotations"]["summary"]) for rule in ALERTS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_alerts_that_pages_name_exist(page: Path):
    named = set(re.findall(r"\bPreemptiveScheduler[A-Z]\w+", page.read_text()))

    assert named - {rule["alert"] for rule in ALERTS} == set()


def test_every_metric_is_documented():
    text = (DOCS / "metrics.md").read_text()

    assert [each.name for each in catalogue.CATALOGUE if f"`{each.name}`" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_lists_every_page():
    text = (ROOT / "README.md").read_text()
    pages = [path.name for path in DOCS.glob("*.md")]

    assert [page for page in pages if f"(docs/{page})" not in text] == []


def test_the_site_lists_every_page():
    text = (ROOT / "mkdocs.yml").read_text()

    named = re.findall(r"^ +- (?:[^:]+: )?(\S+\.md)$", text, re.MULTILINE)
    assert sorted(named) == sorted(str(page) for page in site.pages(ROOT))


def test_the_site_has_the_files_that_pages_link_to(tmp_path: Path):
    (tmp_path / "repository" / "docs").mkdir(parents=True)
    (tmp_path / "repository" / "README.md").write_text("[all](docs/page.md) [example](a.yaml#top)")
    (tmp_path / "repository" / "a.yaml").write_text("{}")
    (tmp_path / "repository" / "b.yaml").write_text("{}")
    (tmp_path / "repository" / "docs" / "page.md").write_text("[up](../README.md)")

    site.gather(tmp_path / "repository", tmp_path / "site")

    found = [path for path in (tmp_path / "site").rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(tmp_path / "site")) for path in found) == [
        "README.md",
        "a.yaml",
        "docs/page.md",
    ]


def test_the_readme_names_targets_that_exist():
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"[`$] ?make ([a-z0-9-]+)", (ROOT / "README.md").read_text())

    assert set(named) <= set(targets)
    assert {"run", "test"} <= set(named)


def test_the_quick_start_ends_with_a_preemption(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A node with the seats that README.md gives it, after the first step of the example."""
    (patch,) = re.findall(r"-p '(\{.*\})'", (ROOT / "README.md").read_text())
    shipped = [*yaml.safe_load_all((DOCS / "examples" / "quickstart.yaml").read_text())]
    priorities = {one["metadata"]["name"]: one["value"] for one in shipped if "value" in one}
    (batch,) = (one for one in shipped if one["kind"] == "Deployment")
    (urgent,) = (one for one in shipped if one["kind"] == "Pod")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, **json.loads(patch)}
    for kind in ("capacity", "allocatable"):
        node["status"][kind] |= {"cpu": "2", "memory": "2Gi", "pods": "110"}
    pods = [
        {**urgent, "metadata": {"name": f"batch-{number}", "namespace": "quickstart"},
         "spec": {**batch["spec"]["template"]["spec"], "nodeName": "n1"}}
        for number in range(batch["spec"]["replicas"])
    ]  # fmt: skip
    for pod in (*pods, urgent):
        (container,) = pod["spec"]["containers"]
        container["resources"]["requests"] = container["resources"]["limits"]
        pod["spec"]["priority"] = priorities[pod["spec"]["priorityClassName"]]
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([node, *pods, urgent]))

    code = main.main(["plan", "-f", str(tmp_path / "objects.yaml"), "-o", "json"])

    (decision,) = json.loads(capsys.readouterr().out)["items"]
    assert code == 3
    assert (decision["decision"], len(decision["victims"])) == ("Preempting", 2)


@pytest.mark.parametrize(
    ("labels", "want"), [({}, "Unschedulable"), ({"preemption": "shared"}, "Preempting")]
)
def test_the_policies_of_the_page_are_accepted_and_keep_preemption_within_a_namespace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], labels: dict[str, str], want: str
):
    text = (DOCS / "preemption-policy.md").read_text()
    documents = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    policies = [each for each in documents if each["kind"] == "PreemptionPolicy"]
    metadata = {"name": "theirs", "labels": labels}
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
    status = {"allocatable": {"cpu": "1", "pods": "9"}}
    objects = [
        {"kind": "Namespace", "metadata": metadata},
        {"kind": "Node", "metadata": {"name": "n"}, "status": status},
        {"kind": "Pod", "metadata": {"name": "low", "namespace": "theirs"},
         "spec": {**spec, "nodeName": "n"}},
        {"kind": "Pod", "metadata": {"name": "high", "namespace": "ours"},
         "spec": {**spec, "priority": 9, "schedulerName": "preemptive-scheduler"}},
    ]  # fmt: skip
    path = tmp_path / "objects.yaml"
    path.write_text(
        yaml.safe_dump_all([*policies, *({"apiVersion": "v1", **each} for each in objects)])
    )

    main.main(["plan", "-f", str(path), "-o", "json"])

    printed = capsys.readouterr()
    (decision,) = json.loads(printed.out)["items"]
    assert (len(policies), decision["decision"], "warning" in printed.err) == (2, want, False)
    assert ("victims are in other namespaces" in json.dumps(decision)) is not bool(labels)


def test_the_page_about_recordings_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    text = (DOCS / "recording.md").read_text()
    write_incident(tmp_path / "incident.rec")
    (policy,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "careful.yaml").write_text(policy)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")  # as in a terminal

    shown = [each for each in pages.commands(DOCS / "recording.md") if each.output]

    assert len(shown) == 3
    for command in shown:
        main.main(command.text.split()[1:])
        printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        assert "\n".join(printed).strip("\n") == command.output.strip("\n")


def threats() -> list[tuple[str, list[str]]]:
    """Return the threats of the security page, with the tests that each row names."""
    text = (DOCS / "security.md").read_text()
    (table,) = re.findall(r"^## Threats\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)
    rows = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    assert rows[0][-1].strip() == "test"
    return [(row[0].strip(), re.findall(r"`([^`]+)`", row[-1])) for row in rows[1:]]


@pytest.mark.parametrize(
    ("threat", "tests"), threats(), ids=[threat[:60] for threat, _ in threats()]
)
def test_what_holds_against_a_threat_is_proved_by_tests_that_exist(threat: str, tests: list[str]):
    """A test is named by its file, or by `file::function`."""
    assert tests, f"nothing proves what is said about: {threat}"
    for test in tests:
        path, _, function = test.partition("::")
        assert path.startswith("tests/")
        assert (ROOT / path).is_file(), test
        text = (ROOT / path).read_text()
        name = f"{function}\\b" if function else "test_"
        assert re.search(rf"^(async )?def {name}", text, re.MULTILINE), test


def test_tests_in_parentheses_of_the_security_page_exist():
    named = re.findall(r"`(tests/[\w/]+\.py)", (DOCS / "security.md").read_text())

    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_of_a_page_can_be_pasted(page: Path):
    """They have no prompt, no output, and no comment at the end, which zsh does not know."""
    assert not re.findall(r"^ *```(?:console|bash|shell)$", page.read_text(), re.MULTILINE)
    for language, line, lines in pages.shell_blocks(page):
        if language == "sh":
            text = "\n".join(lines)
            read = subprocess.run(
                ["bash", "-n"], check=False, input=text, capture_output=True, text=True
            )
            assert not read.stderr, f"line {line}: {read.stderr}"
            assert not re.search(r"^ *[$#] |\s# ", text, re.MULTILINE), f"line {line}"


def test_the_changelog_begins_with_what_is_not_released():
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert headings[0] == "Unreleased"


def test_the_worked_example_prints_what_its_page_shows():
    blocks = re.findall(
        r"^```(.*?)\n(.*?)^```$",
        (ROOT / "scheduler" / "EXAMPLE.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    (program,) = (text for language, text in blocks if language == "python")
    printed = io.StringIO()

    with contextlib.redirect_stdout(printed):
        exec(program, {})

    assert printed.getvalue() == "".join(text for language, text in blocks if not language)
