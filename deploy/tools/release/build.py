"""`python -m deploy.tools.release.build`: build the parts of a release that need no registry.

These are wheel, sdist, the archive of the kubectl plugin, packaged charts, bill of materials,
release notes and checksums. The same commit gives the same bytes in any folder, for any user and
at any time: archives are built from a copy of the tracked files, and rewritten by `archives` with
the time of the commit. The bill of materials describes the environment that it runs in, so it also
needs the same Python.

With `--sums FOLDER` it only writes the checksums of that folder anew, for files that were added;
those of before must be as they were built. The image needs a container engine;
`.github/workflows/release.yaml` builds it.
"""

import argparse
import hashlib
import os
import re
import shutil
import sys
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.building import BuildError
from deploy.tools.release import krew
from deploy.tools.release.archives import normalize_tar_gz, normalize_wheel
from deploy.tools.release.commands import ReleaseError, tell

__all__ = ["Sources", "build", "check_version", "checksums", "main", "notes"]

ROOT: Final = Path(__file__).parents[3]
CHECKSUMS: Final = "SHA256SUMS"
SBOM: Final = "sbom.cdx.json"
NOTES: Final = "notes.md"
_IMAGE: Final = "preemptive-scheduler"
#: A sentence of the chart that is removed when the image is published.
_UNPUBLISHED: Final = " There is no published image yet: `make image` builds one."


@dataclass(frozen=True)
class Sources:
    """A copy of the tracked files, and the time of the commit in seconds since 1970."""

    folder: Path
    epoch: int

    @property
    def version(self) -> str:
        """Version of the package."""
        project = tomllib.loads((self.folder / "pyproject.toml").read_text())["project"]
        return str(project["version"])

    @property
    def charts(self) -> list[Path]:
        """Folders of the charts."""
        return sorted(path.parent for path in self.folder.glob("charts/*/Chart.yaml"))


def build(
    sources: Sources,
    target: Path,
    registry: str = "",
    repository: str = "",
    *,
    tagged: bool = False,
) -> list[Path]:
    """Build everything into an empty folder, and return the files, the checksums last.

    Args:
        sources: The tracked files.
        target: The folder.
        registry: Where images are published, as `registry.example/owner`: the charts then pull
            from there by default. Empty: the charts stay as they are.
        repository: The address of the repository, as `https://git.example/owner/name`, whose
            releases have the files. Empty: there is no manifest for krew, which needs an address.
        tagged: Whether this is to be published, so that unreleased changes are no notes.
    """
    target.mkdir(parents=True, exist_ok=True)
    _python_packages(sources, target)
    _plugin(sources, target, repository)
    for chart in sources.charts:
        if registry:
            _publish_to(chart, registry)
        _package(chart, target, sources.epoch)
    _bill_of_materials(sources, target)
    changelog = (sources.folder / "CHANGELOG.md").read_text()
    (target / NOTES).write_text(notes(changelog, sources.version, tagged=tagged))
    return checksums(target)


def check_version(sources: Sources, tag: str) -> None:
    """Check that package, module and charts have the version of a tag, such as `v0.1.0`.

    Raises:
        ReleaseError: One has another version; the message names it.
    """
    module = (sources.folder / "scheduler" / "__init__.py").read_text()
    versions = {
        "pyproject.toml": sources.version,
        "scheduler/__init__.py": _match(r'^__version__ = "(.+)"$', module),
    }
    for chart in sources.charts:
        text = (chart / "Chart.yaml").read_text()
        versions[f"{chart.name}: version"] = _match(r"^version: (\S+)$", text)
        versions[f"{chart.name}: appVersion"] = _match(r"^appVersion: (\S+)$", text)
    wrong = [f"{name} {version}" for name, version in versions.items() if f"v{version}" != tag]
    if wrong:
        raise ReleaseError(f"the tag {tag} is not the version of {', '.join(wrong)}")


def checksums(folder: Path) -> list[Path]:
    """Write the checksums of all files in a folder, and return the files, the checksums last.

    Raises:
        ReleaseError: A file is not what earlier checksums of the folder say.
    """
    file = folder / CHECKSUMS
    earlier = file.read_text().splitlines() if file.exists() else []
    paths = sorted(path for path in folder.iterdir() if path != file)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in paths]
    changed = [line.partition("  ")[2] for line in earlier if line not in lines]
    if changed:
        raise ReleaseError(f"not as they were built: {', '.join(changed)}")
    file.write_text("".join(f"{line}\n" for line in lines))
    return [*paths, file]


def notes(changelog: str, version: str, *, tagged: bool) -> str:
    """Return the section of the changelog for a version.

    Args:
        changelog: The text of the changelog.
        version: As `0.1.0`.
        tagged: Whether it is released. If not, the section on unreleased changes will do.

    Raises:
        ReleaseError: There is no such section, or nothing in it.
    """
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for wanted in (version,) if tagged else (version, "Unreleased"):
        for section in sections:
            heading, _, text = section.partition("\n")
            if re.split(r"[\s\]]", heading.lstrip("["))[0] == wanted and text.strip():
                return text.strip() + "\n"
    raise ReleaseError(f"CHANGELOG.md has no section on {version}")


def copy_tracked(root: Path, folder: Path) -> Sources:
    """Copy the files that git tracks, as they are in the working tree."""
    names = _git(root, "ls-files", "-z").split("\0")
    for name in filter(None, names):
        if (root / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, folder / name)
    return Sources(folder, int(_git(root, "log", "-1", "--format=%ct")))


def main(argv: list[str] | None = None) -> int:
    """Build a release; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.tools.release.build", description=__doc__
    )
    parser.add_argument("--target", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--tag", default="", help="fail unless everything has this version")
    parser.add_argument("--registry", default="", help="where the charts pull from by default")
    parser.add_argument("--repository", default="", help="whose releases have the files, for krew")
    parser.add_argument("--sums", type=Path, help="only write the checksums of this folder")
    options = parser.parse_args(argv)
    try:
        if options.sums is not None:
            checksums(options.sums)
            return 0
        with tempfile.TemporaryDirectory() as folder:
            sources = copy_tracked(ROOT, Path(folder))
            if options.tag:
                check_version(sources, options.tag)
            shutil.rmtree(options.target, ignore_errors=True)
            addresses = options.registry.rstrip("/"), options.repository.rstrip("/")
            build(sources, options.target, *addresses, tagged=bool(options.tag))
    except (ReleaseError, BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print((options.target / CHECKSUMS).read_text(), end="")
    if _git(ROOT, "status", "--porcelain"):
        print("warning: the working tree has changes that are not committed", file=sys.stderr)
    return 0


def _python_packages(sources: Sources, target: Path) -> None:
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(sources.epoch)}
    for kind in ("sdist", "wheel"):
        # In a separate copy: a build leaves files that the next one would include.
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            shutil.copytree(sources.folder, tree)
            call = f"from setuptools import build_meta; build_meta.build_{kind}({str(target)!r})"
            tell([sys.executable, "-c", call], cwd=tree, env=environ)
    for path in target.glob("*.tar.gz"):
        normalize_tar_gz(path, sources.epoch)
    for path in target.glob("*.whl"):
        normalize_wheel(path, sources.epoch)


def _plugin(sources: Sources, target: Path, repository: str) -> None:
    """Write the archive of the kubectl plugin, and the manifest for krew."""
    (wheel,) = target.glob("*.whl")
    packed = krew.archive(sources.folder, wheel, sources.version, sources.epoch)
    if repository:
        text = krew.manifest(sources.folder, packed, wheel, sources.version, repository)
        (target / krew.MANIFEST).write_text(text)


def _package(chart: Path, target: Path, epoch: int) -> None:
    helm = binaries.find("helm")
    output = tell([helm, "package", chart, "--destination", target], cwd=chart)
    normalize_tar_gz(Path(output.rpartition(": ")[2].strip()), epoch)


def _publish_to(chart: Path, registry: str) -> None:
    """Set the registry in the values of a chart, and name the image for Artifact Hub."""
    values, description = chart / "values.yaml", chart / "Chart.yaml"
    host, _, path = registry.partition("/")
    text = values.read_text()
    if f"\n  repository: {_IMAGE}\n" not in text:
        return  # a chart without an image
    text = text.replace('\n  registry: ""\n', f"\n  registry: {host}\n", 1)
    repository = f"{path}/{_IMAGE}" if path else _IMAGE
    text = text.replace(f"\n  repository: {_IMAGE}\n", f"\n  repository: {repository}\n", 1)
    values.write_text(text.replace(_UNPUBLISHED, ""))
    pages = ["--sort-values-order=file", "--log-level=warning"]
    tell([binaries.find("helm-docs"), *pages], cwd=chart)
    version = _match(r"^appVersion: (\S+)$", description.read_text())
    image = f"{host}/{repository}:{version}"
    entry = (
        "annotations:\n"
        "  artifacthub.io/images: |\n"
        f"    - name: {_IMAGE}\n"
        f"      image: {image}\n"
        "      platforms: [linux/amd64, linux/arm64]\n"
    )
    description.write_text(description.read_text().replace("annotations:\n", entry, 1))


def _bill_of_materials(sources: Sources, target: Path) -> None:
    """Write the bill of materials of the installed packages and our wheel."""
    (wheel,) = target.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as content:
            content.extractall(folder)
        # The wheel precedes the editable installation, whose metadata names a folder.
        environ = {
            **os.environ,
            "SOURCE_DATE_EPOCH": str(sources.epoch),
            "PYTHONPATH": folder,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        program = sources.folder / "deploy" / "tools" / "release" / "sbom.py"
        lock = sources.folder / "requirements" / "runtime.txt"
        command: list[str | Path] = [sys.executable, program, "--lock", lock]
        (target / SBOM).write_text(tell(command, cwd=sources.folder, env=environ))


def _match(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        raise ReleaseError(f"nothing matches {pattern}")
    return found[1]


def _git(root: Path, *arguments: str) -> str:
    return tell(["git", *arguments], cwd=root)


if __name__ == "__main__":
    sys.exit(main())
