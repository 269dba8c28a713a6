"""The archive of the kubectl plugin for krew, and the manifest that points to it.

krew unpacks an archive, compares its checksum with that of the manifest, and links to one file in
it. It knows neither Python nor wheels, so that file is a script, which installs the wheel next to
it, and the packages of `requirements/client.txt`.
"""

import hashlib
import io
import re
import tarfile
from pathlib import Path
from typing import Final

from deploy.tools.release.archives import normalize_tar_gz

__all__ = ["LOCK", "MANIFEST", "archive", "manifest"]

MANIFEST: Final = "preemptive.yaml"
#: What the script installs, by hash.
LOCK: Final = "client.txt"
_SCRIPT: Final = "kubectl-preemptive"
_FOLDER: Final = Path("deploy") / "manifests" / "krew"


def archive(folder: Path, wheel: Path, version: str, epoch: int) -> Path:
    """Write the archive next to the wheel; return its path.

    Args:
        folder: The tracked files.
        wheel: The wheel of the release.
        version: As `0.1.0`.
        epoch: The time of all entries, in seconds since 1970.
    """
    path = wheel.with_name(f"{_SCRIPT}-{version}.tar.gz")
    with tarfile.open(path, "w:gz") as target:
        _add(target, _SCRIPT, folder / _FOLDER / _SCRIPT, 0o755)
        _add(target, wheel.name, wheel, 0o644)
        _add(target, LOCK, folder / "requirements" / LOCK, 0o644)
        _add(target, "LICENSE", folder / "LICENSE", 0o644)
    normalize_tar_gz(path, epoch)
    return path


def manifest(folder: Path, packed: Path, wheel: Path, version: str, repository: str) -> str:
    """Return the manifest.

    Args:
        folder: The tracked files.
        packed: The archive.
        wheel: The wheel in it.
        version: As `0.1.0`.
        repository: The address of the repository, which has the files of a release below
            `releases/download/TAG`.
    """
    values = {
        "TagName": f"v{version}",
        "Homepage": repository,
        "URI": f"{repository}/releases/download/v{version}/{packed.name}",
        "Sha256": hashlib.sha256(packed.read_bytes()).hexdigest(),
        "Wheel": wheel.name,
    }
    text = (folder / _FOLDER / MANIFEST).read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"\{\{ \.(\w+) \}\}", lambda found: values[found[1]], text)


def _add(target: tarfile.TarFile, name: str, source: Path, mode: int) -> None:
    content = source.read_bytes()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    target.addfile(entry, io.BytesIO(content))
