"""`python -m deploy.tools.release.image`: build the container image with an installed engine.

An engine is used if it responds; a docker client without its daemon does not. Other inputs of a
build (a certificate bundle, a pip.conf) are passed as secrets, which leave nothing in the image.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ENGINES", "ImageError", "Request", "command", "find_engine", "main"]

ROOT: Final = Path(__file__).parents[3]

#: By name, in the order in which they are tried: the arguments that check whether it works.
ENGINES: Final[Mapping[str, tuple[str, ...]]] = {
    "docker": ("info", "--format", "{{.ServerVersion}}"),
    "podman": ("info", "--format", "{{.Version.Version}}"),
    "buildah": ("images", "--quiet"),
}

#: The files that the image is built from.
CONTENT: Final = (
    "Dockerfile",
    "deploy/tools/release/sbom.py",
    "pyproject.toml",
    "requirements",
    "scheduler",
)

#: How long an engine may take to respond.
ANSWER_SECONDS: Final = 20.0


class ImageError(RuntimeError):
    """The image cannot be built; the message is for the user."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """An image to build."""

    tag: str
    version: str
    revision: str
    #: The base image. If empty, the one in the Dockerfile.
    base: str = ""
    #: Certificates for pip, behind a proxy that intercepts TLS. If empty, none.
    ca_bundle: str = ""
    #: Configuration for pip. If empty, none.
    pip_conf: str = ""
    #: When the content was last changed, in seconds since the epoch. If empty, unknown.
    epoch: str = ""
    #: Additional flags for the engine.
    flags: tuple[str, ...] = ()


def find_engine(wanted: str, environ: Mapping[str, str]) -> str:
    """Return the name of an engine that works; *wanted* may name one, or be empty.

    Raises:
        ImageError: There is none.
    """
    names = (wanted,) if wanted else tuple(ENGINES)
    problems = []
    for name in names:
        if name not in ENGINES:
            raise ImageError(f"ENGINE={name} is not known (known: {', '.join(ENGINES)})")
        problem = _problem(name, environ)
        if problem is None:
            return name
        problems.append(f"  {name}: {problem}")
    raise ImageError("\n".join(["no container engine works here", *problems]))


def command(engine: str, request: Request) -> list[str]:
    """Return the command that builds the image, to be run in the root of the repository."""
    head = ["buildah", "bud", "--layers"] if engine == "buildah" else [engine, "build"]
    arguments = {"VERSION": request.version, "REVISION": request.revision}
    if request.base:
        arguments["PYTHON_IMAGE"] = request.base
    if request.epoch:
        arguments["SOURCE_DATE_EPOCH"] = request.epoch
    secrets = {"cabundle": request.ca_bundle, "pipconf": request.pip_conf}
    return [
        *head,
        "--file=Dockerfile",
        f"--tag={request.tag}",
        *(f"--build-arg={name}={value}" for name, value in arguments.items()),
        *(f"--secret=id={name},src={path}" for name, path in secrets.items() if path),
        *request.flags,
        ".",
    ]


def main(argv: list[str] | None = None) -> int:
    """Build the image; return the exit code."""
    options = _parser().parse_args(argv)
    version = _version()
    try:
        engine = find_engine(options.engine, os.environ)
    except ImageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    request = Request(
        tag=options.tag or f"preemptive-scheduler:{version}",
        version=version,
        revision=_revision(),
        epoch=_epoch(),
        base=options.base,
        ca_bundle=options.ca_bundle,
        pip_conf=options.pip_conf,
        flags=tuple(options.flags.split()),
    )
    environ = {**os.environ, "DOCKER_BUILDKIT": "1"}
    return subprocess.run(command(engine, request), cwd=ROOT, env=environ, check=False).returncode


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.tools.release.image", description=__doc__
    )
    parser.add_argument("--engine", default="", help=", ".join(ENGINES))
    parser.add_argument("--tag", default="", help="default: preemptive-scheduler:<version>")
    parser.add_argument("--base", default="", help="the image with Python to build on")
    parser.add_argument("--ca-bundle", default="", help="certificates for pip")
    parser.add_argument("--pip-conf", default="", help="configuration for pip")
    parser.add_argument("--flags", default="", help="more flags for the engine, in one word")
    return parser


def _problem(name: str, environ: Mapping[str, str]) -> str | None:
    """Return why an engine does not work, `None` if it does."""
    path = shutil.which(name, path=environ.get("PATH", ""))
    if path is None:
        return "is not on PATH"
    try:
        answer = subprocess.run(
            [path, *ENGINES[name]],
            env=dict(environ),
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if answer.returncode == 0:
        return None
    lines = answer.stderr.strip().splitlines() or ["it fails without output"]
    return lines[-1]


def _version() -> str:
    text = (ROOT / "scheduler" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return found[1] if found else "0.0.0"


def _revision() -> str:
    """Return the commit, marked where the tree differs from it; `unknown` without git."""
    return _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or "unknown"


def _epoch() -> str:
    """Return the time of the last commit that changed what goes into the image."""
    return _git("log", "-1", "--format=%ct", "--", *CONTENT)


def _git(*arguments: str) -> str:
    """Return what git prints; empty without git."""
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
