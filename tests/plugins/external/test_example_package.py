"""The example of docs/plugins.md, installed as a user would and used by the program."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "headroom"
CLUSTER = """\
apiVersion: v1
kind: List
items:
- {kind: Node, metadata: {name: free}, status: {allocatable: {cpu: "4", pods: "9"}}}
- {kind: Node, metadata: {name: full}, status: {allocatable: {cpu: "4", pods: "9"}}}
- kind: Node
  metadata: {name: repaired, labels: {example.com/maintenance: running}}
  status: {allocatable: {cpu: "64", pods: "9"}}
- kind: Pod
  metadata: {name: there}
  spec: {nodeName: full, containers: [{resources: {requests: {cpu: "2500m"}}}]}
- kind: Pod
  metadata: {name: new}
  spec: {containers: [{resources: {requests: {cpu: "1"}}}]}
"""

# One worker installs the package once.
pytestmark = pytest.mark.xdist_group("example package")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Install the package into a folder of its own; return what runs Python with it on the path."""
    folder = tmp_path_factory.mktemp("example")
    # Building leaves things beside the sources.
    source = shutil.copytree(EXAMPLE, folder / "source")
    paths = [str(folder / "site"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            env=environment, cwd=source, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    installed = run(
        "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
        "--disable-pip-version-check", "--target", paths[0], str(source),
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr
    return run


def test_its_own_tests_pass(run: Run):
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_its_plugins_are_found_by_their_entry_points(run: Run):
    code = """
from scheduler.plugins.external import entry_points
for plugin in entry_points.discover().values():
    print(plugin.name, *sorted(plugin.points))
"""

    done = run("-c", code)

    assert done.stderr == ""
    assert done.stdout == "Headroom filter score\nMaintenance filter score\n"


def test_its_configuration_is_good(run: Run):
    done = run("-m", "scheduler.cli.main", "check-config", "config.yaml")

    assert (done.returncode, done.stderr) == (0, "")
    assert "  plugin Headroom: package headroom 0.1.0\n" in done.stdout
    assert "  plugin Maintenance: package headroom 0.1.0\n" in done.stdout


def test_its_plugins_decide(run: Run, tmp_path: Path):
    objects = tmp_path / "cluster.yaml"
    objects.write_text(CLUSTER)

    done = run(
        "-m", "scheduler.cli.main", "plan", "-f", str(objects), "--config", "config.yaml",
        "--explain", "-o", "json",
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    (result,) = json.loads(done.stdout)["results"]
    assert (result["decision"], result["node"]) == ("Scheduled", "free")
    assert {each["name"]: each["filter"] for each in result["nodes"]} == {
        "free": None,
        "full": "Headroom: node(s) would keep less than 25% of cpu free",
        "repaired": "Maintenance: node(s) were in maintenance",
    }


def test_settings_that_it_refuses_are_told_in_one_line(run: Run, tmp_path: Path):
    config = tmp_path / "config.yaml"
    config.write_text((EXAMPLE / "config.yaml").read_text().replace("25", "250"))

    done = run("-m", "scheduler.cli.main", "check-config", str(config))

    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    assert line.startswith(
        "package headroom 0.1.0: plugin Headroom: profile preemptive-scheduler: ValueError: "
        "percent is 250, not an integer from 0 to 99 (headroom.py:"
    )
