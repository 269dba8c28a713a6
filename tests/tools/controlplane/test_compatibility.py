"""Which tests older API servers cannot pass: said where they stand, and in the documentation."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from deploy.tools.controlplane import binaries
from tests.support import control_plane

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
MARKER = "needs_server"


def declared() -> Iterator[tuple[str, str, str]]:
    """Yield each test that needs a newer server: its name, that version, the reason."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith(f".{MARKER}"):
                    oldest, reason = (ast.literal_eval(each) for each in mark.args)
                    yield node.name, oldest, reason


def test_the_page_lists_every_test_that_older_servers_cannot_pass():
    listed = set(re.findall(r"`(test_\w+)`", PAGE))

    assert listed == {name for name, _, _ in declared()}


def test_every_needed_version_is_one_that_others_lack():
    minors = {control_plane.minor(each) for each in binaries.kubernetes_versions()}

    for name, oldest, reason in declared():
        needed = control_plane.minor(oldest)
        assert min(minors) < needed <= max(minors), name
        assert reason, name
