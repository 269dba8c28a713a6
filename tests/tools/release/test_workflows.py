"""Workflows and hooks run what `.ci/run` runs, and nothing that can change under them."""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.tools.controlplane import binaries

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
#: Files that name targets of the Makefile as commands.
COMMANDS = [
    *WORKFLOWS,
    ROOT / ".ci" / "run",
    ROOT / ".pre-commit-config.yaml",
    ROOT / ".devcontainer" / "devcontainer.json",
]


def name(path: Path) -> str:
    return path.name


def document(path: Path) -> dict[Any, Any]:
    return dict(yaml.safe_load(path.read_text()))


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in document(path)["jobs"].values() for step in job["steps"]]


@pytest.mark.chart  # built from a Go module, as helm is
@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_actionlint_finds_nothing(path):
    command = [binaries.find("actionlint"), "-shellcheck=", "-pyflakes=", path]

    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_actions_are_pinned_by_commit_and_say_their_version(path):
    used = re.findall(r"^ *-? *uses: (.+)$", path.read_text(), re.MULTILINE)

    assert used
    wanted = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in used if not wanted.fullmatch(line)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_rights_are_given_by_name_and_credentials_are_not_kept(path):
    workflow = document(path)

    assert workflow["permissions"] in ({}, {"contents": "read"})
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_no_expression_is_part_of_a_script(path):
    """A tag or a title that somebody chose must not become a command: scripts read variables."""
    assert [step["run"] for step in steps(path) if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("path", COMMANDS, ids=name)
def test_targets_exist(path):
    commands = re.findall(r"(?<![\w`])make ((?:[a-z0-9-]+ ?)+)", path.read_text())

    named = {target for command in commands for target in command.split()}
    assert named - TARGETS == set()


def test_ci_runs_on_every_python_that_is_supported():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    classified = re.findall(r":: Python :: (3\.\d+)", "\n".join(project["classifiers"]))

    job = document(ROOT / ".github" / "workflows" / "ci.yaml")["jobs"]["verify"]

    tested = job["strategy"]["matrix"]["python"]
    assert tested[0] == oldest
    assert set(classified) <= set(tested)
    assert ".ci/run" in [step.get("run") for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_what_can_write_waits_for_the_protected_environment(path):
    for job in document(path)["jobs"].values():
        if "write" in job.get("permissions", {}).values() or "secrets." in json.dumps(job):
            assert job["environment"] == "release"


def test_what_the_makefile_installs_is_locked():
    text = re.sub(r"\\\n\s*", "", (ROOT / "Makefile").read_text())
    installs = re.findall(r"pip .*install .*", text)

    assert installs
    for each in installs:
        assert "--require-hashes" in each or "--no-deps --no-build-isolation --editable" in each
