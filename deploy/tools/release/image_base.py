"""`python -m deploy.tools.release.image_base`: a Python image from Debian's packages.

It is for machines that reach a mirror of Debian but no image registry. It has the layout of the
slim image of Python, so that the Dockerfile builds on it:

    make image ENGINE=buildah BASE=localhost/python:3.13-slim

It requires root, Debian, mmdebstrap and buildah.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["ImageError", "bootstrap", "main", "sources"]

SUITE: Final = "trixie"
PYTHON: Final = "python3.13"
TAG: Final = "localhost/python:3.13-slim"
SOURCES: Final = Path("/etc/apt/sources.list.d/debian.sources")

_PACKAGES: Final = ("ca-certificates", "netbase", "tzdata", PYTHON, f"{PYTHON}-venv")
_LEFT_OUT: Final = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*")
_ENVIRONMENT: Final = (
    "PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
)
#: Shell commands for the finished tree, whose root is "$1".
_HOOKS: Final = (
    # An environment in /usr/local: pip can install there, and `python` has its usual path.
    f'chroot "$1" /usr/bin/{PYTHON} -m venv /usr/local',
    'ln -sf python3 "$1"/usr/local/bin/python',
    'rm -f "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/* "$1"/etc/resolv.conf'
    ' "$1"/etc/hostname',
    'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/* "$1"/var/log/*',
    'find "$1"/usr -name __pycache__ -type d -prune -exec rm -rf {} +',
)


class ImageError(RuntimeError):
    """The image cannot be built; the message is for the user."""


def sources(text: str, codename: str) -> str:
    """Return the package sources of SUITE, derived from those of this machine."""
    return re.sub(rf"\b{re.escape(codename)}\b", SUITE, text)


def bootstrap(target: Path) -> list[str]:
    """Return the command that builds the archive; it reads the sources from standard input."""
    return [
        "mmdebstrap",
        "--variant=minbase",
        "--format=tar",
        f"--include={','.join(_PACKAGES)}",
        *(f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        *(f"--customize-hook={hook}" for hook in _HOOKS),
        SUITE,
        str(target),
        "-",
    ]


def main(argv: list[str] | None = None) -> int:
    """Build the image; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.tools.release.image_base", description=__doc__
    )
    parser.add_argument("--tag", default=TAG, help=f"default: {TAG}")
    parser.add_argument("--flags", default="", help="more flags for `buildah commit`, in one word")
    options = parser.parse_args(argv)
    try:
        _check()
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "base.tar"
            _run(bootstrap(archive), sources(SOURCES.read_text(), _codename()))
            _commit(archive, options.tag, options.flags.split())
    except ImageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(options.tag)
    return 0


def _check() -> None:
    missing = [name for name in ("mmdebstrap", "buildah") if shutil.which(name) is None]
    if missing:
        raise ImageError(f"not on PATH: {', '.join(missing)}")
    if os.geteuid() != 0:
        raise ImageError("only root can install packages into a folder")
    if not SOURCES.exists():
        raise ImageError(f"there is no {SOURCES}: this is not Debian 12 or newer")


def _codename() -> str:
    return platform.freedesktop_os_release()["VERSION_CODENAME"]


def _commit(archive: Path, tag: str, flags: list[str]) -> None:
    container = _run(["buildah", "from", "scratch"]).strip()
    try:
        _run(["buildah", "add", "--quiet", container, str(archive), "/"])
        environment = [f"--env={variable}" for variable in _ENVIRONMENT]
        _run(["buildah", "config", *environment, "--cmd=python3", container])
        _run(["buildah", "commit", "--quiet", *flags, container, tag])
    finally:
        _run(["buildah", "rm", container])


def _run(command: list[str], given: str = "") -> str:
    answer = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=False)
    if answer.returncode != 0:
        raise ImageError(f"{command[0]} failed with exit code {answer.returncode}")
    return answer.stdout


if __name__ == "__main__":
    sys.exit(main())
