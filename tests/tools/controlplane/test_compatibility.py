"""Which tests older API servers cannot pass: said where they stand, and in the documentation."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.tools.controlplane import binaries
from tests.support import control_plane

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
MARKER = "needs_server"

#: One test that some pinned versions cannot pass, and one that all can.
MARKED = """
import pytest

@pytest.mark.needs_server("1.35", "it cannot do this yet")
def test_newer():
    pass

def test_any():
    pass
"""


def declared() -> Iterator[tuple[str, str, str]]:
    """Yield each test that needs a newer server: its name, that version, the reason."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith(f".{MARKER}"):
                    oldest, reason = (ast.literal_eval(each) for each in mark.args)
                    yield node.name, oldest, reason


@pytest.mark.parametrize(
    ("version", "want"), [("v1.34.4", "1 passed, 1 skipped"), ("v1.35.4", "2 passed")]
)
def test_a_test_is_skipped_on_older_servers_only_and_the_summary_says_why(
    tmp_path: Path, version: str, want: str
):
    (tmp_path / "test_marked.py").write_text(MARKED)

    answer = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "tests.support.control_plane", "-q",
            f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={tmp_path}", tmp_path,
        ],
        cwd=ROOT,
        env={**os.environ, "KUBERNETES": version},
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert answer.returncode == 0, answer.stdout
    assert f"\n{want}" in answer.stdout
    told = "test_newer needs 1.35, this is v1.34.4: it cannot do this yet" in answer.stdout
    assert told == (version == "v1.34.4")


def test_the_page_lists_every_test_that_older_servers_cannot_pass():
    listed = set(re.findall(r"`(test_\w+)`", PAGE))

    assert listed == {name for name, _, _ in declared()}


def test_every_needed_version_is_one_that_others_lack():
    minors = {control_plane.minor(each) for each in binaries.kubernetes_versions()}

    for name, oldest, reason in declared():
        needed = control_plane.minor(oldest)
        assert min(minors) < needed <= max(minors), name
        assert reason, name


def test_the_page_tells_of_every_pinned_version():
    for version in binaries.kubernetes_versions():
        assert f"| {version} |" in PAGE
