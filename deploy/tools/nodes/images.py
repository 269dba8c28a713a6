"""Archives of the images that nodes run: the scheduler, and an image for workloads.

The archives have the format of `docker save`, which containerd and kind import. The image for
workloads contains only busybox; it is the pause image as well.
"""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from deploy.tools.nodes import machine
from deploy.tools.nodes.configs import PAUSE_IMAGE as WORKLOAD
from deploy.tools.release import image_base
from deploy.tools.release.image_base import ImageError

__all__ = [
    "FOLDER",
    "SCHEDULER",
    "WORKLOAD",
    "given_or_built",
    "scheduler_archive",
    "workload_archive",
]

#: The name of the scheduler's image; nothing is pulled from `localhost`.
REPOSITORY: Final = "localhost/preemptive-scheduler"
TAG: Final = "e2e"
SCHEDULER: Final = f"{REPOSITORY}:{TAG}"

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = ROOT / "build" / "e2e"

#: Container engines in the order of preference, with a command that succeeds if one works. A docker
#: client without its daemon does not.
_ENGINES: Final[Mapping[str, tuple[str, ...]]] = {
    "docker": ("info",),
    "podman": ("info",),
    "buildah": ("images", "--quiet"),
}

_MAKE: Final = ["make", "--no-print-directory", f"--directory={ROOT}", "image"]

#: Waits for SIGTERM, and reaps the orphans of other containers of its pod.
_PAUSE: Final = [
    "/bin/busybox",
    "sh",
    "-c",
    "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait; done",
]


def workload_archive() -> Path:
    """Write the archive of the image for workloads, and return its path.

    Raises:
        ImageError: there is no busybox.
    """
    busybox = shutil.which("busybox", path=machine.search_path())
    if busybox is None:
        raise ImageError("busybox is not on PATH (Debian: busybox-static)")
    config = {
        "User": "65532:65532",
        "Env": ["PATH=/bin"],
        "Entrypoint": _PAUSE,
    }
    target = FOLDER / "workload.tar"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(_archive(WORKLOAD, config, Path(busybox).read_bytes()))
    return target


def given_or_built(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the archive in E2E_IMAGE, which contains `SCHEDULER`, or build one."""
    given = environ.get("E2E_IMAGE")
    return Path(given) if given else scheduler_archive(environ)


def scheduler_archive(environ: Mapping[str, str] = os.environ) -> Path:
    """Build the scheduler's image from the tree by `make image`; return the path of its archive.

    If only buildah works and there is no image with Python, one is made from Debian's packages.

    Raises:
        ImageError: It cannot be built; the message says why.
    """
    engine = find_engine(environ)
    replaced = _identity(engine)
    _run([*_MAKE, *_variables(engine, environ)])
    if replaced and replaced != _identity(engine):
        # An image without a name would never be removed: 200 MB for each change of the code. One
        # that is in use stays.
        _answers([engine, "rmi", replaced])
    target = FOLDER / "scheduler.tar"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    _run(_save(engine, target))
    return target


def find_engine(environ: Mapping[str, str]) -> str:
    """Return the name of a container engine that works.

    Raises:
        ImageError: There is none.
    """
    for engine, question in _ENGINES.items():
        program = shutil.which(engine, path=environ.get("PATH", ""))
        if program is not None and _answers([program, *question]):
            return engine
    raise ImageError(f"no container engine works here: {', '.join(_ENGINES)}")


def _variables(engine: str, environ: Mapping[str, str]) -> list[str]:
    """Return the variables for `make image`."""
    variables = {"ENGINE": engine, "IMAGE": SCHEDULER}
    if engine == "buildah":
        variables |= {"BASE": _base(), "FLAGS": "--isolation=chroot --quiet"}
    # Certificates that pip needs on this machine are needed in the build as well.
    bundle = environ.get("PIP_CERT") or environ.get("REQUESTS_CA_BUNDLE")
    if bundle:
        variables["CA_BUNDLE"] = bundle
    return [f"{name}={value}" for name, value in variables.items()]


def _base() -> str:
    """Return the name of the base image with Python; build it if it is missing."""
    if _answers(["buildah", "inspect", "--type=image", image_base.TAG]):
        return image_base.TAG
    if image_base.main([]) != 0:
        raise ImageError("the base image cannot be built")
    return image_base.TAG


def _identity(engine: str) -> str:
    """Return the id of the scheduler's image, empty if there is none."""
    asked = [engine, "images", "--quiet", "--no-trunc", SCHEDULER]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _save(engine: str, target: Path) -> list[str]:
    if engine == "buildah":
        return ["buildah", "push", "--quiet", SCHEDULER, f"docker-archive:{target}:{SCHEDULER}"]
    form = ["--format=docker-archive"] if engine == "podman" else []
    return [engine, "save", *form, f"--output={target}", SCHEDULER]


def _answers(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _run(command: list[str]) -> None:
    answer = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if answer.returncode != 0:
        raise ImageError(f"{' '.join(command[:2])} failed with exit code {answer.returncode}")


def _archive(reference: str, config: Mapping[str, Any], busybox: bytes) -> bytes:
    """Return an archive of an image with busybox and links to it."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        _add(tar, "bin/busybox", busybox, 0o755)
        for name in ("sh", "sleep", "cat", "date", "echo"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    content = layer.getvalue()
    described = json.dumps(
        {
            "architecture": _architecture(),
            "os": "linux",
            "config": dict(config),
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"],
            },
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        _add(tar, "layer.tar", content)
        _add(tar, "config.json", described)
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    return whole.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _architecture() -> str:
    machines = {"x86_64": "amd64", "aarch64": "arm64"}
    return machines.get(os.uname().machine, os.uname().machine)
