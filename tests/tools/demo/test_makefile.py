"""What `make` would do."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "Makefile").read_text()
DEMO = "-m deploy.tools.demo"
SCHEDULER = "preemptive-scheduler run"


def make(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Return what make would run."""
    ours = {key: value for key, value in os.environ.items() if "MAKE" not in key}
    ours.pop("KUBECONFIG", None)
    answer = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", *arguments],
        cwd=ROOT,
        env={**ours, **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    return answer.stdout


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        ([], {}),
        ([], {"KUBECONFIG": "/somebody/elses"}),
        (["-e"], {"KUBECONFIG": "/somebody/elses"}),
        (["ONCE=1"], {"KUBECONFIG": "/somebody/elses"}),
    ],
    ids=["nothing", "in the environment", "environment first", "in the environment, once"],
)
def test_run_plays_the_demonstration(arguments: list[str], environment: dict[str, str]):
    commands = make("run", *arguments, environment=environment)

    assert DEMO in commands
    assert SCHEDULER not in commands
    assert "/somebody/elses" not in commands


def test_a_story_is_passed_on_as_one_word():
    commands = make("run", "ONCE=1", "STORY=drain && x")

    assert f"{DEMO} --once --story 'drain && x'" in " ".join(commands.replace("\\", "").split())


@pytest.mark.parametrize("environment", [{}, {"KUBECONFIG": "/somebody/elses"}])
def test_run_with_a_kubeconfig_on_the_command_line_runs_the_scheduler_alone(
    environment: dict[str, str],
):
    commands = make("run", "KUBECONFIG=/my own/config", environment=environment)

    assert f"{SCHEDULER} --kubeconfig '/my own/config'" in commands
    assert DEMO not in commands
    assert "/somebody/elses" not in commands


def ci(folder: Path, **environment: str) -> tuple[int, list[str]]:
    """Run what CI runs with a make that only writes down its targets; FAILS names a bad one."""
    fake = folder / "make"
    fake.write_text('#!/bin/sh\necho "$*"\n[ "$*" != "$FAILS" ]\n')
    fake.chmod(0o755)
    environ = {"PATH": f"{folder}:{os.environ['PATH']}", "FAILS": "", **environment}
    answer = subprocess.run(
        [ROOT / ".ci" / "run"], env=environ, capture_output=True, text=True, check=False
    )
    return answer.returncode, answer.stdout.splitlines()


def test_ci_runs_everything_and_ends_with_the_words_of_pytest(tmp_path: Path):
    code, targets = ci(tmp_path)

    assert code == 0
    assert targets == [
        "setup",
        "lint type imports",
        "browser-packages",
        "console-check",
        "e2e-packages",
        "e2e",
        "verify",
    ]
    assert "-m pytest" in make("verify").splitlines()[-1]


def test_ci_leaves_the_end_to_end_tests_out_when_it_is_told_to_and_says_so(tmp_path: Path):
    code, targets = ci(tmp_path, E2E="off")

    assert code == 0
    assert "e2e-packages" not in targets
    assert "E2E=off" in make("e2e", environment={"E2E": "off"})
    assert "pytest" not in make("e2e", environment={"E2E": "off"})


@pytest.mark.parametrize("target", ["browser-packages", "e2e-packages", "e2e", "verify"])
def test_ci_fails_with_whatever_fails(tmp_path: Path, target: str):
    code, targets = ci(tmp_path, FAILS=target)

    assert code != 0
    assert targets[-1] == target


def test_every_target_is_explained_by_help():
    targets = re.findall(r"^\.PHONY: (\S+)$", TEXT, re.MULTILINE)
    explained = re.findall(r"^([a-z0-9-]+):.*## \S", TEXT, re.MULTILINE)

    assert targets == explained


def test_dependencies_are_installed_by_hash():
    installs = re.findall(r"pip install.* -r .*", TEXT)

    assert len(installs) == 3
    assert all("--require-hashes" in install for install in installs)


@pytest.mark.parametrize("name", ["runtime.txt", "dev.txt", "build.txt", "docs.txt"])
def test_lock_files_name_versions_and_hashes_and_no_index(name: str):
    text = (ROOT / "requirements" / name).read_text()
    pins = re.findall(r"^([a-z0-9._-]+(?:\[[a-z,]+\])?)==\S+ .*\\$", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]

    assert len(pins) == len(lines)
    assert text.count("--hash=sha256:") >= len(pins)
    assert "://" not in text


def test_both_lock_files_agree():
    runtime, dev = (
        set(re.findall(r"^\S+==\S+", (ROOT / "requirements" / name).read_text(), re.MULTILINE))
        for name in ("runtime.txt", "dev.txt")
    )

    assert runtime < dev
