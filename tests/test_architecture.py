"""Rules of the structure: which modules import which, and what the core never does.

Each rule is one test, which reports all files that break it.
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

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
#: The only imports of `sys`: how many references an object has is no news from outside.
COUNTING: Final = {"sys", "sys.getrefcount"}
IMPURE_CALLS: Final = {"open", "print", "input", "eval", "exec", "__import__"}
#: The only importers of some libraries: folders or modules under `scheduler`.
RESERVED: Final = {
    "aiohttp": (
        "kube/policies/kopf_watcher.py",
        "kube/policies/status_writer.py",
        "kubectl/api_server.py",
        "kubectl/port_forward.py",
        "observe/server/health_routes.py",
        "observe/server/what_if_route.py",
        "observe/server/responses.py",
        "observe/server/web_app.py",
        "web_console",
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
    f"{owner}.{reading}"
    for owner, readings in {
        "time": (
            "time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns",
        ),
        "datetime": ("now", "utcnow", "today"),
        "date": ("today",),
    }.items()
    for reading in readings
}  # fmt: skip
#: Packages that are used by what they import from their parts.
FACADES: Final = (PACKAGE, PACKAGE / "cel")
#: The most lines of a module or test file.
LONGEST: Final = 500
#: Names that several public classes have, with the reason. The others share none.
HOMONYMS: Final = {
    "NodeAffinity": "kube-scheduler's names of a field of the pod's spec, and of its plugin",
}


@dataclass(frozen=True)
class Source:
    """What the rules need to know of a file; its tree would take too much memory."""

    name: str
    lines: int
    docstring: str
    statements: int
    #: The full names of all imports, wherever they stand.
    imports: frozenset[str]
    #: The public classes that it defines.
    classes: frozenset[str]
    #: The names that are called as they are.
    calls: frozenset[str]
    #: All attributes, those of a name as `name.attribute`.
    attributes: frozenset[str]

    @property
    def libraries(self) -> set[str]:
        return {each.partition(".")[0] for each in self.imports}


@cache
def source(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    module = ast.parse(text, filename=str(path))
    imports, calls, attributes = set[str](), set[str](), set[str]()
    classes = {each.name for each in module.body if isinstance(each, ast.ClassDef)}
    for node in ast.walk(module):
        match node:
            case ast.Import(names):
                imports.update(alias.name for alias in names)
            case ast.ImportFrom(str(origin), names):
                imports.update((origin, *(f"{origin}.{alias.name}" for alias in names)))
            case ast.Call(ast.Name(called)):
                calls.add(called)
            case ast.Attribute(ast.Name(owner), attribute):
                attributes.add(f"{owner}.{attribute}")
            case ast.Attribute(_, attribute):
                attributes.add(attribute)
    return Source(
        str(path.relative_to(ROOT)),
        len(text.splitlines()),
        ast.get_docstring(module) or "",
        len(module.body),
        frozenset(imports),
        frozenset(name for name in classes if not name.startswith("_")),
        frozenset(calls),
        frozenset(attributes),
    )


def broken(paths: Iterable[Path], what: Callable[[Source], object]) -> list[str]:
    """Return the files that break a rule, each with what is wrong."""
    found = ((each.name, what(each)) for each in map(source, paths))
    return [f"{name}: {wrong}" for name, wrong in found if wrong]


def pure() -> list[Path]:
    return [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in PURE]


def test_imports_only_go_down():
    # In a process of its own: it turns the loggers off that other tests listen to.
    program = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stdout


def test_the_packages_that_decide_are_all_there():
    assert {path.relative_to(PACKAGE).parts[0] for path in pure()} == set(PURE)


def test_every_module_says_what_it_is():
    assert broken(MODULES, lambda each: not each.docstring and "no docstring") == []


def test_a_file_is_not_too_long():
    def too_long(file: Source) -> object:
        return file.lines > LONGEST and f"{file.lines} lines"

    assert broken((*MODULES, *TESTS), too_long) == []


def test_a_package_file_holds_no_code():
    packages = [
        path for path in MODULES if path.name == "__init__.py" and path.parent not in FACADES
    ]

    assert broken(packages, lambda each: each.statements != 1 and "it has code") == []


def test_what_decides_does_no_io_and_uses_no_random_numbers():
    def outside(module: Source) -> object:
        random = {each for each in module.attributes if each.rpartition(".")[2] == "random"}
        of_sys = {each for each in module.imports if each.partition(".")[0] == "sys"}
        libraries = module.libraries - ({"sys"} if of_sys == COUNTING else set())
        return (IMPURE & libraries) | (IMPURE_CALLS & module.calls) | random

    assert broken(pure(), outside) == []


def test_only_the_clock_reads_the_time():
    others = [path for path in MODULES if path != CLOCK]

    assert broken(others, lambda each: CLOCKS & (each.attributes | each.imports)) == []


def test_public_classes_share_no_name():
    names = Counter(name for module in map(source, MODULES) for name in module.classes)

    assert {name for name, times in names.items() if times > 1} == HOMONYMS.keys()


def test_libraries_are_imported_where_they_belong():
    def strangers(module: Source) -> object:
        place = module.name.removeprefix("scheduler/")
        return {
            library
            for library, places in RESERVED.items()
            if library in module.libraries and not place.startswith(places or ("nowhere",))
        }

    assert broken(MODULES, strangers) == []


def test_no_test_patches_what_it_tests():
    def mocks(file: Source) -> object:
        return {each for each in file.imports if each.startswith("unittest.mock")}

    assert broken(TESTS, mocks) == []
