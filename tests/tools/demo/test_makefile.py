"""What `make` would do."""

import os
import re
import shutil
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


@pytest.mark.parametrize("environment", [{}, {"KUBECONFIG": "/somebody/elses"}])
def test_run_with_a_kubeconfig_on_the_command_line_runs_the_scheduler_alone(
    environment: dict[str, str],
):
    commands = make("run", "KUBECONFIG=/my own/config", environment=environment)

    assert f"{SCHEDULER} --kubeconfig '/my own/config'" in commands
    assert DEMO not in commands
    assert "/somebody/elses" not in commands


def test_a_kubeconfig_in_the_home_folder_is_found():
    commands = make("run", "KUBECONFIG=~/.kube/config", environment={"HOME": "/home/me"})

    assert "--kubeconfig '/home/me/.kube/config'" in commands


@pytest.mark.parametrize(("once", "want"), [("1", True), ("0", False), ("", False)])
def test_once_ends_by_itself(once: str, want: bool):
    assert ("deploy.tools.demo --once" in make("run", f"ONCE={once}")) == want


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ([], "-m tests.oracle --seeds 0:2000\n"),
        (["SEEDS=7:9"], "-m tests.oracle --seeds 7:9\n"),
        (["FAMILIES=odd,ties"], "-m tests.oracle --seeds 0:2000 --families odd,ties\n"),
        (["REFERENCE=v1.37"], "-m tests.oracle --seeds 0:2000 --reference v1.37\n"),
    ],
    ids=["nothing", "seeds", "families", "reference"],
)
def test_fidelity_compares_what_is_asked_for(arguments: list[str], want: str):
    assert want in make("fidelity", *arguments)


def test_what_tests_need_is_built_before_them_and_nothing_else():
    built, tests = make("test").split("-m pytest")

    assert "build kube-scheduler " in built
    assert "build --every-version scheduler-oracle cel-oracle " in built
    assert not any(name in built for name in ("helm", "kubectl", "promtool", "chromedriver"))
    assert left_out(tests) == {"browser", "chart", "deep", "e2e"}


@pytest.mark.parametrize(
    ("target", "needed"),
    [("chart", {"helm"}), ("browser", {"chromedriver"}), ("verify", {"helm", "chromedriver"})],
)
def test_tools_of_other_tests_are_there_before_these_begin(target: str, needed: set[str]):
    before, *_ = make(target).split("-m pytest")

    assert all(name in before for name in needed)


def test_all_checks_together_leave_out_the_end_to_end_tests_alone():
    first, last = make("verify").splitlines()[-2:]

    assert "PYTHONHASHSEED=1 ALL_SEEDS=1" in first
    assert left_out(first) == {"browser", "chart", "cluster", "e2e"}
    assert "PYTHONHASHSEED=2 ALL_SEEDS=1" in last
    assert left_out(last) == {"e2e"}


@pytest.mark.parametrize("target", ["browser", "verify"])
def test_a_missing_browser_is_an_error(tmp_path: Path, target: str):
    answer = subprocess.run(
        [shutil.which("make"), target],
        cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert answer.returncode == 2
    assert "make browser-packages" in answer.stderr
    assert answer.stdout == ""


def left_out(command: str) -> set[str]:
    """Return the markers of the tests that a command leaves out."""
    return set(re.findall(r"not (\w+)", command))


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
