"""What is said about the tests is true: how many there are, and which of them a run left out."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SUITE = """
import pytest

@pytest.mark.parametrize("number", range(3))
@pytest.mark.browser
def test_of_a_browser(number): pass

@pytest.mark.cluster
@pytest.mark.chart
def test_of_an_installation(): pass

@pytest.mark.seeded
def test_of_seeds(): pass

@pytest.mark.parametrize("number", ["by_name", *range(8)])
def test_alone(number): pass
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2", "--dist", "loadgroup"]], ids=["one", "two"])
def test_a_run_ends_with_what_it_left_out(tmp_path: Path, workers: list[str]):
    (tmp_path / "test_some.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.left_out", *workers]
    chosen = ["-p", "no:cacheprovider", "-m", "not browser and not chart", "-k", "not by_name"]

    answer = subprocess.run(
        [*command, *chosen, f"--config-file={ROOT / 'pyproject.toml'}", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "ALL_SEEDS": "0"}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    lines = [line for line in answer.stdout.splitlines() if line]
    head, expression, browser, chart, other, seeds, last = lines[-7:]
    assert " left out " in head
    assert expression == "with -m 'not browser and not chart':"
    assert browser == "     3 browser: make browser, after make browser-packages as root"
    assert chart == "     1 chart: make chart"
    assert other == "     1 other"
    assert seeds == "two thirds of the seeds of 1 tests: make deep"
    assert " 9 passed" in last


GROUP = """
import os
import pytest

@pytest.mark.xdist_group("installation")
@pytest.mark.parametrize("number", range(20))
def test_one_of_a_group(number):
    with open(FILE, "a") as file:
        print(os.environ["PYTEST_XDIST_WORKER"], number, file=file)
"""


def test_tests_of_a_group_run_on_one_worker_in_order(tmp_path: Path):
    said = tmp_path / "said"
    (tmp_path / "test_some.py").write_text(f"FILE = {str(said)!r}\n{GROUP}")
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup"]

    subprocess.run([*command, "-p", "no:cacheprovider", str(tmp_path)], cwd=tmp_path, check=True)

    workers, numbers = zip(*(line.split() for line in said.read_text().splitlines()), strict=True)
    assert len({*workers}) == 1
    assert [int(each) for each in numbers] == list(range(20))


def test_the_readme_says_how_many_tests_there_are_at_least():
    """Functions are counted: one with a table of cases is one test. A tenth more is no news."""
    count = sum(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
    )

    (told,) = re.findall(r"more than ([\d,]+) test functions", (ROOT / "README.md").read_text())
    assert 0.9 * count < int(told.replace(",", "")) < count
