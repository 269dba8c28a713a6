"""The release workflow, run here with stand-ins: what it publishes, and what it refuses."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.release_stand_ins import DIGEST, NAMES
from tests.support.workflow_runs import WorkflowRun

ROOT = Path(__file__).parents[3]
STAND_INS = ROOT / "tests" / "support" / "release_stand_ins.py"
WORKFLOW = ROOT / ".github" / "workflows" / "release.yaml"
IMAGE = "registry.example/owner/preemptive-scheduler"
CHARTS = "registry.example/owner/charts"
BASE = f"python:3.13-slim@sha256:{'ab' * 32}"
PASSED = {
    "head_branch": "main", "event": "push", "run_number": 7, "run_attempt": 1,
    "status": "completed", "conclusion": "success", "html_url": "https://git.example/run",
}  # fmt: skip
CLEAN: dict[str, Any] = {"distro": {"name": "debian"}, "matches": []}


def hole() -> dict[str, Any]:
    """Return a report of a scan with one finding."""
    found = {"id": "CVE-1", "severity": "Critical", "fix": {"state": "fixed", "versions": ["2"]}}
    match = {"vulnerability": found, "artifact": {"name": "openssl", "version": "1"}}
    return {**CLEAN, "matches": [match]}


class Project:
    """A repository with the tag v0.1.0 on main, the rest of the world, and runs of the workflow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.origin = folder / "origin"
        self.calls: list[list[str]] = []
        self.inputs = {"tag": "v0.1.0"}
        self.event, self.ref = "workflow_dispatch", "refs/heads/main"
        self.state: dict[str, Any] = {
            "registry": {"python:3.13-slim": f"sha256:{'cd' * 32}"}, "registry_fails": False,
            "version": "0.1.0", "starts": True, "leads": True, "reproducible": True,
            "runs": [PASSED], "releases": [], "scan": CLEAN, "scans": {},
        }  # fmt: skip
        self.origin.mkdir()
        self.git("init", "-q", "-b", "main")
        self.change("Dockerfile", f"ARG PYTHON_IMAGE={BASE}\n")
        self.change("CHANGELOG.md", "# Changelog\n\n## 0.1.0\n\nNew.\n")
        self.git("tag", "v0.1.0")
        (folder / "bin").mkdir()
        for name in NAMES:
            self.program(name, f"{STAND_INS} {name}")
        self.program("python", "")  # without the packages of the tests, which a runner has not

    def program(self, name: str, words: str) -> None:
        program = self.folder / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {words} "$@"\n')
        program.chmod(0o755)

    def git(self, *words: str) -> None:
        names = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
        subprocess.run(["git", *names, *words], cwd=self.origin, check=True)

    def revision(self) -> str:
        """Return the commit of the tag."""
        command = ["git", "rev-parse", "v0.1.0"]
        return subprocess.check_output(command, cwd=self.origin, text=True).strip()

    def change(self, name: str, text: str) -> None:
        (self.origin / name).write_text(text)
        self.git("add", name)
        self.git("commit", "-q", "-m", name)

    def run(self) -> WorkflowRun:
        calls, state = self.folder / "calls", self.folder / "state"
        state.write_text(json.dumps(self.state))
        calls.write_text("")
        done = WorkflowRun(
            WORKFLOW, self.folder / "run", origin=self.origin,
            contexts={
                "github": {"token": "t", "server_url": "https://git.example",
                           "repository": "owner/name", "actor": "somebody"},
                "vars": {"REGISTRY": "registry.example/owner"},
                "inputs": self.inputs,
            },
            environ={
                "PATH": f"{self.folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
                "HOME": str(self.folder),
                "PYTHONPATH": str(ROOT), "CALLS": str(calls), "STATE": str(state),
                "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": self.event, "GITHUB_REF": self.ref,
                "GITHUB_REPOSITORY": "owner/name",
            },
        )  # fmt: skip
        self.calls = [json.loads(line) for line in calls.read_text().splitlines()]
        self.state = json.loads(state.read_text())
        return done

    def said(self, *words: str) -> int:
        """Return the position of the first call with these words; -1 without one."""
        return next((n for n, call in enumerate(self.calls) if set(words) <= set(call)), -1)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_commit_that_ci_has_passed_is_released(project):
    done = project.run()

    assert done.failed == ("", "")
    assert set(done.results.values()) == {"success"}
    by_digest, name = f"{IMAGE}@{DIGEST}", f"{IMAGE}:0.1.0"
    order = [
        project.said("docker", "build", f"PYTHON_IMAGE={BASE}", "VERSION=0.1.0"),
        project.said("docker", "run", by_digest, "version", "--platform=linux/arm64"),
        project.said("docker", "logs"),
        project.said("grype", f"registry:{by_digest}", "linux/arm64"),
        project.said("cosign", "sign", by_digest),
        project.said("actions/attest", "boms/sbom-image-arm64.cdx.json"),
        project.said("docker", "create", "--tag", name),
        project.said("cosign", "sign-blob"),
        project.said("helm", "push", "release/preemptive-scheduler-crds-0.1.0.tgz"),
        project.said("cosign", "sign", f"{CHARTS}/preemptive-scheduler-crds@{DIGEST}"),
        project.said("gh", "release", "create", "v0.1.0"),
    ]
    assert -1 not in order
    assert order == sorted(order)
    assert project.state["registry"][name] == DIGEST

    # The signed checksums are those of every file, the bills of materials of the images as well.
    published = {Path(each).name for each in project.calls[-1] if each.startswith("release/")}
    folder = project.folder / "run" / "publish" / "release"
    lines = (folder / "SHA256SUMS").read_text().splitlines()
    named = {line.partition("  ")[2] for line in lines}
    assert published - named == {"SHA256SUMS", "SHA256SUMS.sigstore.json"}
    assert {"sbom-image-amd64.cdx.json", "sbom-image-arm64.cdx.json", "notes.md"} <= named
    assert (folder / "notes.md").read_text() == "New.\n"


def tag_elsewhere(project: Project) -> None:
    project.git("checkout", "-q", "-b", "other")
    project.change("a", "a")
    project.git("tag", "--force", "v0.1.0")
    project.git("checkout", "-q", "main")


def tag_another_commit_of_main(project: Project) -> None:
    project.change("a", "a")
    project.git("tag", "--force", "v0.1.0")


def only_unreleased(project: Project) -> None:
    project.change("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\nNew.\n")
    project.git("tag", "--force", "v0.1.0")


def has(name: str, value: Any) -> Callable[[Project], None]:
    return lambda project: project.state.update({name: value})


def exists(name: str) -> Callable[[Project], None]:
    return lambda project: project.state["registry"].update({name: DIGEST})


REFUSED: list[tuple[str, Callable[[Project], None], str, str]] = [
    ("not on main", tag_elsewhere, "Check the commit", "is not on the main branch"),
    ("no tag", lambda p: p.inputs.update(tag="v9.9.9"), "Check the commit", "no tag v9.9.9"),
    ("a branch", lambda p: p.inputs.update(tag="main"), "Check the commit", "main is no tag"),
    ("workflow of a branch", lambda p: setattr(p, "ref", "refs/heads/x"), "Check the commit",
     "this is that of refs/heads/x"),
    ("no CI", has("runs", []), "Check the commit", "CI has not run"),
    ("CI failed", has("runs", [{**PASSED, "conclusion": "failure"}]), "Check the commit",
     "CI ended with failure"),
    ("released", has("releases", ["v0.1.0"]), "Check the commit", "v0.1.0 is published already"),
    ("only unreleased changes", only_unreleased, "Build", "no section on 0.1.0"),
    ("another second build", has("reproducible", value=False), "Compare with a second build",
     "preemptive-scheduler-0.1.0.tgz"),
    ("image exists", exists(f"{IMAGE}:0.1.0"), "Refuse what is published",
     "is never overwritten"),
    ("chart exists", exists(f"{CHARTS}/preemptive-scheduler-crds:0.1.0"),
     "Refuse what is published",
     "is never overwritten"),
    ("registry says nothing", has("registry_fails", value=True), "Refuse what is published",
     "it is not known whether"),
    ("does not start", has("starts", value=False), "Start it", "no such file"),
    ("does not lead", has("leads", value=False), "Start it", "no_api_server"),
    ("hole with a fix", has("scan", hole()), "Scan it", "CVE-1 (Critical) in openssl 1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("break_it", "step", "message"), [each[1:] for each in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_nothing_is_signed_or_named_if(project, break_it, step, message):
    break_it(project)

    done = project.run()

    assert done.failed[0] == step, done.failed
    assert message in done.failed[1]
    assert done.results["publish"] == "skipped"
    for words in (("cosign",), ("docker", "--tag"), ("helm",), ("gh", "release")):
        assert project.said(*words) == -1


@pytest.fixture
def weekly(project: Project) -> Project:
    """A project with a release whose image has a hole by now."""
    project.event, project.inputs = "schedule", {}
    project.state["releases"] = ["v0.0.9", "v0.1.0"]
    project.state["registry"][f"{IMAGE}:0.1.0"] = DIGEST
    project.state["revision"] = project.revision()
    project.state["scans"][f"{IMAGE}:0.1.0"] = hole()
    return project


def test_an_image_with_a_hole_is_built_again_on_the_newest_base(weekly):
    done = weekly.run()

    assert done.failed == ("", "")
    want = {"plan": "success", "build": "skipped", "image": "success", "publish": "skipped"}
    assert done.results == want
    newest = f"PYTHON_IMAGE=python:3.13-slim@sha256:{'cd' * 32}"
    assert weekly.said("docker", "build", newest, "VERSION=0.1.0-1") > 0
    assert weekly.state["registry"][f"{IMAGE}:0.1.0-1"] == DIGEST
    assert weekly.said("cosign", "sign") > weekly.said("grype", f"registry:{IMAGE}@{DIGEST}") > 0


@pytest.mark.parametrize(
    "change",
    [has("releases", []), has("scans", {}), exists(f"{IMAGE}:0.1.0-1")],
    ids=["nothing published", "no hole", "rebuilt already"],
)
def test_there_is_no_rebuild_without_need(weekly, change):
    change(weekly)

    done = weekly.run()

    want = {"plan": "success", "build": "skipped", "image": "skipped", "publish": "skipped"}
    assert done.results == want


@pytest.mark.parametrize(
    "change",
    [has("runs", []), tag_elsewhere, tag_another_commit_of_main],
    ids=["no CI", "moved tag", "tag moved on main"],
)
def test_a_rebuild_passes_the_same_gate(weekly, change):
    change(weekly)

    done = weekly.run()

    assert done.failed[0] == "Check the commit", done.failed
    assert weekly.said("cosign") == -1
    assert f"{IMAGE}:0.1.0-1" not in weekly.state["registry"]
