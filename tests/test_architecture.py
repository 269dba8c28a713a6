"""Rules of the structure: which modules import which, and what the core never does."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = ROOT / "scheduler"
MODULES: Final = sorted(PACKAGE.rglob("*.py"))
TESTS: Final = sorted((ROOT / "tests").rglob("*.py"))
CLOCK: Final = PACKAGE / "service" / "clock.py"

#: Packages that decide: no I/O, no clock, no threads, no chance.
PURE: Final = ("model", "cel", "state", "queue", "framework", "plugins", "core")
IMPURE: Final = {
    "aiohttp", "asyncio", "http", "kopf", "kubernetes", "logging", "multiprocessing", "os",
    "pathlib", "random", "requests", "secrets", "select", "socket", "ssl", "structlog",
    "subprocess", "sys", "tempfile", "threading", "time", "uuid", "uvloop",
}  # fmt: skip
#: The only importers of some libraries: folders or modules under `scheduler`.
RESERVED: Final = {
    "aiohttp": (
        "kube/policies/kopf_watcher.py",
        "kube/policies/status_writer.py",
        "kubectl/api_server.py",
        "kubectl/port_forward.py",
        "observe/server/health_routes.py",
        "observe/server/plan_route.py",
        "observe/server/responses.py",
        "observe/server/web_app.py",
        "web_console/server.py",
    ),
    "OpenSSL": ("observe/server/client_certificates.py",),
    "httptools": ("kube",),
    "kopf": ("kube/policies/kopf_watcher.py",),
    "kubernetes": ("kube",),
    "prometheus_client": ("observe", "service/composition.py"),
    "rich": ("cli", "terminal", "kubectl/commands/top.py"),
    "random": (),
}
CLOCKS: Final = {
    "time": {"time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}
#: Packages that are used by what they import from their parts.
FACADES: Final = (PACKAGE, PACKAGE / "cel")
#: Lines of a module or test file; with more than the first number, its docstring says why.
LONG, LONGEST = 400, 500


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(module: ast.Module) -> Iterator[str]:
    """Yield the full name of every module that is imported, wherever the import stands."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def roots(path: Path) -> set[str]:
    """Return the first part of the name of every module that is imported."""
    return {each.partition(".")[0] for each in imported(tree(path))}


def pure() -> list[Path]:
    return [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in PURE]


each_module = pytest.mark.parametrize("path", MODULES, ids=name)
each_pure_module = pytest.mark.parametrize("path", pure(), ids=name)


def test_imports_only_go_down():
    # In a process of its own: it turns the loggers off that other tests listen to.
    program = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stdout


def test_the_packages_that_decide_are_all_there():
    assert {path.relative_to(PACKAGE).parts[0] for path in pure()} == set(PURE)


@each_module
def test_a_module_says_what_it_is_and_stays_short(path: Path):
    docstring, lines = ast.get_docstring(tree(path)), path.read_text(encoding="utf-8").splitlines()
    assert docstring, "no docstring"
    assert len(lines) <= LONG or "longer than others because" in docstring
    assert len(lines) <= LONGEST


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_a_test_file_is_short_or_says_why_not(path: Path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONG or "longer than others because" in (ast.get_docstring(tree(path)) or "")
    assert lines <= LONGEST


@each_module
def test_a_package_file_holds_no_code(path: Path):
    if path.name == "__init__.py" and path.parent not in FACADES:
        assert len(tree(path).body) == 1


@each_pure_module
def test_what_decides_does_no_io(path: Path):
    assert not IMPURE & roots(path)
    called = {
        node.func.id
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & {"open", "print", "input", "eval", "exec", "__import__"}


@each_pure_module
def test_what_decides_rolls_no_dice(path: Path):
    attributes = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)}

    assert "random" not in attributes


@each_module
def test_only_the_clock_reads_the_time(path: Path):
    if path == CLOCK:
        return
    module = tree(path)
    read = [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in CLOCKS.get(node.value.id, ())
    ]
    read += [
        each
        for each in imported(module)
        if each in {f"time.{reading}" for reading in CLOCKS["time"]}
    ]

    assert read == []


@each_module
def test_libraries_are_imported_where_they_belong(path: Path):
    place = path.relative_to(PACKAGE).as_posix()
    used = roots(path)
    for library, places in RESERVED.items():
        assert library not in used or place.startswith(places or "nowhere"), library


@each_module
def test_core_and_plugins_do_not_know_each_other(path: Path):
    package = path.relative_to(PACKAGE).parts[0]
    other = {"core": "scheduler.plugins", "plugins": "scheduler.core"}.get(package)

    assert other is None or not any(each.startswith(other) for each in imported(tree(path)))


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_no_test_patches_what_it_tests(path: Path):
    assert not {each for each in imported(tree(path)) if each.startswith("unittest.mock")}
