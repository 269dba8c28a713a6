"""The example of docs/plugins.md, installed as a user would and used by the program."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "headroom"
PAGE = (ROOT / "docs" / "plugins.md").read_text()


def blocks(language: str) -> list[str]:
    """Return the code blocks of the page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def commands() -> dict[str, str]:
    """Return the commands of the page, each with the output that the page shows."""
    found = {}
    for lines, output in zip(blocks("sh"), blocks("text"), strict=True):
        *others, last = lines.splitlines()
        found |= {**dict.fromkeys(others, ""), last: output}
    return found


COMMANDS = commands()
#: What the fixture does: it copies the package to another folder, and installs it elsewhere.
COPY, ENTER, INSTALL = list(COMMANDS)[:3]
PROGRAMS = {
    "python": (),
    "pip": ("-m", "pip"),
    "preemptive-scheduler": ("-m", "scheduler.cli.main"),
}

# One worker installs the package once.
pytestmark = pytest.mark.xdist_group("example package")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Install the package as the page says; return a function that runs commands of the page.

    Differs: the package goes into a folder of its own, and not into the environment of the tests.
    """
    folder = tmp_path_factory.mktemp("example")
    # Building creates files next to the sources.
    source = shutil.copytree(EXAMPLE, folder / "source")
    paths = [str(folder / "site"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "COLUMNS": "100",
    }

    def run(command: str, *more: str) -> subprocess.CompletedProcess[str]:
        program, *arguments = shlex.split(command)
        return subprocess.run(
            [sys.executable, *PROGRAMS[program], *arguments, *more],
            env=environment, cwd=source, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    installed = run(
        INSTALL, "--quiet", "--no-index", "--disable-pip-version-check", "--target", paths[0]
    )
    assert installed.returncode == 0, installed.stderr
    return run


def test_the_page_copies_the_package_and_enters_it():
    assert COPY == "cp -r docs/examples/headroom /tmp/headroom"
    assert ENTER == "cd /tmp/headroom"


@pytest.mark.parametrize("command", list(COMMANDS)[3:])
def test_the_commands_of_the_page_print_what_it_says(run: Run, command: str):
    done = run(command)

    assert done.returncode == 0, done.stdout + done.stderr
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    shown = re.escape(COMMANDS[command].strip("\n")).replace(r"\.\.\.", ".*")
    assert re.fullmatch(shown or ".*", printed.strip("\n"), re.DOTALL), printed


@pytest.mark.parametrize(
    ("language", "file"),
    [("python", "headroom.py"), ("toml", "pyproject.toml"), ("yaml", "config.yaml")],
)
def test_the_page_shows_the_code_of_the_package(language: str, file: str):
    shown, source = blocks(language), (EXAMPLE / file).read_text()

    assert shown
    assert [block for block in shown if block not in source] == []


def test_its_plugins_are_found_by_their_entry_points(run: Run):
    code = """
from scheduler.plugins.external import entry_points
for plugin in entry_points.discover().values():
    print(plugin.name, *sorted(plugin.points))
"""

    done = run("python", "-c", code)

    assert done.stderr == ""
    assert done.stdout == "Headroom filter score\nMaintenance filter score\n"


def test_its_plugins_decide(run: Run):
    done = run(
        "preemptive-scheduler plan -f cluster.yaml --config config.yaml --explain", "-o", "json"
    )

    assert done.returncode == 0
    (result,) = json.loads(done.stdout)["items"]
    assert (result["decision"], result["node"]) == ("Scheduled", "free")
    assert {node["name"]: node.get("rejection") for node in result["nodes"]} == {
        "free": None,
        "full": "Headroom: node(s) would keep less than 25% of cpu free",
        "broken": "Maintenance: node(s) were in maintenance",
    }


def test_invalid_settings_are_reported_in_one_line(run: Run, tmp_path: Path):
    config = tmp_path / "config.yaml"
    config.write_text((EXAMPLE / "config.yaml").read_text().replace("25", "250"))

    done = run("preemptive-scheduler check-config", str(config))

    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    assert line.startswith(
        "package headroom 0.1.0: plugin Headroom: profile preemptive-scheduler: ValueError: "
        "percent is 250, not an integer from 0 to 99 (headroom.py:"
    )
