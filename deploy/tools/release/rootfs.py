"""`python rootfs.py TARGET APPLICATION`: the root of an image with Python and little of Debian.

It copies the interpreter, its modules, the shared libraries that these and the application load,
certificates of authorities, and what the C library reads (users, name service, cache of libraries).
There is no shell, no apt and no pip among them. `/var/lib/dpkg/status` lists the packages that the
copied files are from, so that scanners and the bill of materials see what is there, and only that.

The build of the image runs this file alone, on the base image and as root.
"""

import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["UNUSED", "Root", "RootError", "main", "modules", "needed", "status_of"]

#: Of Python's modules: what only developers run, and what would bring the libraries of terminals
#: and databases along.
UNUSED: Final = (
    "_curses", "_curses_panel", "_dbm", "_gdbm", "_sqlite3", "_tkinter", "ensurepip", "idlelib",
    "lib2to3", "readline", "test", "tests", "tkinter", "turtledemo",
)  # fmt: skip
#: And of their folder: other packages, bytecode, what is needed to compile extensions.
LEFT_OUT: Final = (
    *UNUSED, *(f"{each}.cpython-*" for each in UNUSED),
    "__pycache__", "config-*", "dist-packages", "site-packages",
)  # fmt: skip
#: Files of the system beside libraries; those that a base lacks are left out.
SYSTEM: Final = (
    "/etc/ld.so.conf",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/openssl.cnf",
    "/usr/lib/ssl/certs",
    "/usr/lib/ssl/openssl.cnf",
)
#: Made when it is installed, so no list of files names it.
GENERATED: Final = {"/etc/ssl/certs/ca-certificates.crt": "ca-certificates"}
USERS: Final = "root:x:0:0:root:/:/nonexistent\nnonroot:x:65532:65532:nonroot:/:/nonexistent\n"
GROUPS: Final = "root:x:0:\nnonroot:x:65532:\n"
_DPKG: Final = Path("/var/lib/dpkg")
_DOCS: Final = Path("/usr/share/doc")
_ELF: Final = b"\x7fELF"


class RootError(RuntimeError):
    """The root cannot be made; the message is for the user."""


class Root:
    """A folder that becomes the root of an image."""

    def __init__(self, target: Path) -> None:
        self.target = target
        #: The copied files, as they are called on this machine.
        self.taken: set[Path] = set()

    def take(self, path: Path) -> Path:
        """Copy a file, and every link on the way to it as a link; return the file without links."""
        here, ahead = Path("/"), list(path.parts[1:])
        while ahead:
            here /= ahead.pop(0)
            if here.is_symlink():
                self._add(here)
                aim = Path(os.path.normpath(here.parent / here.readlink()))
                here, ahead = Path("/"), [*aim.parts[1:], *ahead]
        if here.is_file():
            self._add(here)
        return here

    def write(self, name: str, text: str) -> None:
        """Write a file, whose name is relative to the root."""
        (self.target / name).parent.mkdir(parents=True, exist_ok=True)
        (self.target / name).write_text(text)

    def _add(self, path: Path) -> None:
        copy = self.target / path.relative_to("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.is_symlink() and not copy.exists():
            shutil.copy2(path, copy, follow_symlinks=False)
            self.taken.add(path)


def modules(folder: Path) -> Iterator[Path]:
    """Return the files of Python's modules, without what an image does not need."""
    for place, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not _left_out(each)]
        yield from (Path(place, each) for each in names if not _left_out(each))


def needed(listing: str, file: Path) -> list[Path]:
    """Return the shared libraries in the output of `ldd`.

    Raises:
        RootError: One is not there.
    """
    missing = re.findall(r"^\s*(\S+) => not found", listing, re.MULTILINE)
    if missing:
        raise RootError(f"{file} needs {', '.join(missing)}")
    return [Path(each) for each in re.findall(r"(?:=>|^)\s*(/\S+) \(0x", listing, re.MULTILINE)]


def status_of(status: str, packages: set[str]) -> str:
    """Return the paragraphs of dpkg's status file that are about these packages."""
    paragraphs = [each.strip("\n") for each in status.split("\n\n") if each.strip()]
    kept = (
        each for each in paragraphs if re.findall(r"^Package: (\S+)$", each, re.M)[0] in packages
    )
    return "".join(f"{each}\n\n" for each in kept)


def main(argv: list[str] | None = None) -> int:
    """Make the root of an image; return the exit code."""
    parser = argparse.ArgumentParser(prog="rootfs.py", description=__doc__)
    parser.add_argument("target", type=Path, help="the folder to make")
    parser.add_argument("application", type=Path, help="an environment, whose libraries are needed")
    options = parser.parse_args(argv)
    root = Root(options.target)
    try:
        _take_python(root, options.application)
        for name in SYSTEM:
            if os.path.lexists(name):
                root.take(Path(name))
        for path in sorted(Path("/etc/ld.so.conf.d").glob("*.conf")):
            root.take(path)
        root.write("etc/passwd", USERS)
        root.write("etc/group", GROUPS)
        (root.target / "tmp").mkdir()
        (root.target / "tmp").chmod(0o1777)
        _cache_libraries(root.target)
        _tell_packages(root)
    except RootError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _take_python(root: Root, application: Path) -> None:
    """Copy the interpreter behind the application's, the modules, and the libraries of all."""
    interpreter = application / "bin" / "python"
    first = Path(os.path.normpath(interpreter.parent / interpreter.readlink()))
    programs = [root.take(first)]
    programs += [root.take(each) for each in modules(Path(sysconfig.get_path("stdlib")))]
    programs += application.rglob("*.so*")
    for program in filter(_is_elf, programs):
        answer = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
        for library in needed(answer.stdout, program):
            if not library.is_relative_to(application):
                root.take(library)


def _cache_libraries(target: Path) -> None:
    """Write the cache in which the loader looks for libraries outside of its own folders."""
    answer = subprocess.run(["ldconfig", "-r", target], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise RootError(f"ldconfig failed: {answer.stderr.strip()}")
    # It has the times of the libraries, which differ from build to build.
    shutil.rmtree(target / "var" / "cache", ignore_errors=True)


def _tell_packages(root: Root) -> None:
    """Write dpkg's status for the packages that files were taken from, and copy their licences."""
    packages = _packages(root.taken)
    root.write("var/lib/dpkg/status", status_of((_DPKG / "status").read_text(), packages))
    for package in sorted(packages):
        if (_DOCS / package / "copyright").exists():
            root.take(_DOCS / package / "copyright")


def _packages(files: Iterable[Path]) -> set[str]:
    """Return the packages of dpkg that files are from; Python itself may be from none."""
    names = {str(each) for each in files}
    # The lists may have the names from before /lib became a link to /usr/lib.
    names |= {each.removeprefix("/usr") for each in names}
    found = {GENERATED[each] for each in names & GENERATED.keys()}
    for listing in (_DPKG / "info").glob("*.list"):
        if not names.isdisjoint(listing.read_text().splitlines()):
            found.add(listing.stem.partition(":")[0])
    return found


def _left_out(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, each) for each in LEFT_OUT)


def _is_elf(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == _ELF


if __name__ == "__main__":
    sys.exit(main())
