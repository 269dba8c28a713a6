"""What the structure of the code promises, checked by reading it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "scheduler").rglob("*.py"))

#: Packages that decide: no I/O, no clock, no chance.
PURE = ("model", "state", "framework", "plugins", "core")
IMPURE_MODULES = {
    "aiohttp", "asyncio", "http", "kopf", "kubernetes", "logging", "multiprocessing", "os",
    "random", "requests", "secrets", "socket", "ssl", "structlog", "subprocess", "threading",
    "time", "uuid", "uvloop",
}  # fmt: skip
CLOCKS = {"time", "monotonic", "perf_counter", "now", "utcnow", "today"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_says_what_it_is_and_stays_short(path: Path):
    text = path.read_text(encoding="utf-8")

    assert ast.get_docstring(ast.parse(text)), "no docstring"
    assert len(text.splitlines()) <= 400


@pytest.mark.parametrize(
    "path", [each for each in MODULES if each.parts[-2] in PURE or "preemption" in each.parts],
    ids=name,
)  # fmt: skip
def test_what_decides_does_no_io(path: Path):
    tree = ast.parse(path.read_text(encoding="utf-8"))

    assert not IMPURE_MODULES & {*imported(tree)}
    opened = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
    ]
    assert not opened


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_only_the_clock_reads_the_time(path: Path):
    if path == ROOT / "scheduler/service/clock.py":
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    readings = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in CLOCKS
        and isinstance(node.value, ast.Name)
        and node.value.id in ("time", "datetime")
    ]

    assert not readings


def test_core_and_plugins_do_not_know_each_other():
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        if "core" in path.parts:
            assert "scheduler.plugins" not in text, name(path)
        if "plugins" in path.parts:
            assert "from scheduler.core" not in text, name(path)


def test_no_test_patches_what_it_tests():
    for path in (ROOT / "tests").rglob("*.py"):
        if path != Path(__file__):
            assert "unittest.mock" not in path.read_text(encoding="utf-8"), name(path)
