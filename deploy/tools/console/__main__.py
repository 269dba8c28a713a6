"""`python -m deploy.tools.console`: copy the libraries of the console's page from npm packages.

npm installs exactly what `package-lock.json` pins and compares each package with its hash; scripts
of packages are not run. Of each package only the files of `LIBRARIES` and its licence are copied
to `scheduler/web_console/static/vendor`, with a manifest that names package, version, hash and
licence. `check` does the same in another folder and compares.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = [
    "LIBRARIES",
    "LOCK",
    "MANIFEST",
    "VENDOR",
    "Library",
    "differences",
    "install",
    "main",
    "vendor",
]

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[2]
LOCK: Final = HERE / "package-lock.json"
VENDOR: Final = ROOT / "scheduler" / "web_console" / "static" / "vendor"
MANIFEST: Final = "manifest.json"
#: Licences that may be copied.
LICENCES: Final = frozenset({"MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0"})


@dataclass(frozen=True)
class Library:
    """A package, and the files of it that the page loads: path in the package to name."""

    package: str
    files: dict[str, str]
    #: Module specifiers that a browser cannot resolve without an import map, and what they
    #: become. The content security policy forbids import maps, because they are inline scripts.
    specifiers: tuple[tuple[str, str], ...] = ()


LIBRARIES: Final = (
    Library(
        "preact",
        {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "preact-hooks.js"},
        specifiers=(('from"preact"', 'from"./preact.js"'),),
    ),
    Library("htm", {"dist/htm.mjs": "htm.js"}),
    Library("uplot", {"dist/uPlot.esm.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"}),
    Library("js-yaml", {"dist/js-yaml.mjs": "js-yaml.js"}),
)


def install(folder: Path, *options: str) -> None:
    """Install the packages of the lock file in a folder.

    Raises:
        subprocess.CalledProcessError: npm failed, or a package is not what the lock file says.
    """
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy(HERE / name, folder)
    subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--omit=peer", "--loglevel=error", *options],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def vendor(target: Path) -> None:
    """Copy the files of all libraries into a folder, which is emptied first.

    Raises:
        ValueError: The licence of a package is not one that may be copied.
        subprocess.CalledProcessError: npm failed, or a package is not what the lock file says.
    """
    locked = json.loads(LOCK.read_text())["packages"]
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    manifest = []
    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder), "--omit=dev")
        for library in LIBRARIES:
            pinned = locked[f"node_modules/{library.package}"]
            if pinned["license"] not in LICENCES:
                raise ValueError(f"{library.package}: the licence is {pinned['license']}")
            files = _copy(Path(folder) / "node_modules" / library.package, library, target)
            manifest.append(
                {
                    "package": library.package,
                    "version": pinned["version"],
                    "license": pinned["license"],
                    "integrity": pinned["integrity"],
                    "sha256": files,
                }
            )
    (target / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")


def _copy(source: Path, library: Library, target: Path) -> dict[str, str]:
    """Copy the files and the licence of a package; return their hashes by name."""
    licence = f"{library.package}.LICENSE"
    hashes = {}
    for path, name in {**library.files, "LICENSE": licence}.items():
        text = (source / path).read_text(encoding="utf-8")
        for old, new in library.specifiers:
            text = text.replace(old, new)
        # The source map is not copied, so the comment that names it would lead nowhere.
        lines = [line for line in text.split("\n") if not line.startswith("//# sourceMappingURL=")]
        text = "\n".join(lines).rstrip("\n") + "\n"
        (target / name).write_text(text, encoding="utf-8")
        hashes[name] = hashlib.sha256(text.encode()).hexdigest()
    return hashes


def differences(one: Path, other: Path) -> list[str]:
    """Return the names of files that two folders do not have in common, or not equal."""
    names = {path.name for folder in (one, other) for path in folder.iterdir()}
    return sorted(
        name
        for name in names
        if not (one / name).is_file()
        or not (other / name).is_file()
        or (one / name).read_bytes() != (other / name).read_bytes()
    )


def main() -> int:
    """Copy the libraries, or check that the copies are what the lock file says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("copy", "check"), nargs="?", default="copy")
    if parser.parse_args().command == "copy":
        vendor(VENDOR)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        vendor(Path(folder) / "vendor")
        found = differences(VENDOR, Path(folder) / "vendor")
    if found:
        print(f"not what the lock file says: {', '.join(found)}; run: make console")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
