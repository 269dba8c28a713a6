"""`python -m deploy.tools.release.sbom`: the CycloneDX bill of materials of the image.

It lists the installed packages of the lock file with their dependencies, Python, and Debian's
packages if there are any. It has the minimum elements of NTIA (supplier, name, version, identifier
and dependencies of each component, author and time), and licences and hashes.

Each image contains its own, /opt/app/sbom.cdx.json. The build runs this file alone, so it needs
nothing but Python. With SOURCE_DATE_EPOCH the same packages give the same bytes.

    python -m deploy.tools.release.sbom --lock requirements/runtime.txt > build/sbom.cdx.json
"""

import argparse
import hashlib
import json
import os
import platform
import re
import sys
import time
import uuid
from collections.abc import Iterable, Mapping
from email.utils import parseaddr
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

__all__ = ["Pin", "SbomError", "bill", "debian", "main", "pins", "python_packages"]

OURS: Final = "preemptive-scheduler"
SPEC: Final = "1.6"
#: The namespace of the serial numbers; any fixed UUID.
_SERIAL: Final = uuid.UUID("0f3dbe4c-6a3b-4d64-9c5c-0a5be1c8fb17")
#: Supplier of the image, and author of this bill of materials.
AUTHORS: Final = "The preemptive-scheduler authors"
#: Other spellings of SPDX identifiers, in the field License and in classifiers.
_SPDX: Final[Mapping[str, str]] = {
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD License": "BSD-3-Clause",  # google-re2, which leaves the clauses out
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_IDENTIFIER: Final = re.compile(r"(0BSD|ISC|MIT(-0)?|(Apache|BSD|MPL|PSF|Python)-[0-9][\w.-]*)")
#: Files that differ between installations of the same wheel.
_LOCAL: Final = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json")


class SbomError(RuntimeError):
    """The installed packages are not those of the lock file."""


class Pin(NamedTuple):
    """A line of the lock file."""

    version: str
    #: Whether it applies to some platforms only.
    conditional: bool


def pins(lock: str) -> dict[str, Pin]:
    """Return the pins of a lock file by normalised name."""
    found = re.finditer(r"^([A-Za-z0-9._-]+)==([^\s;]+)( *;)?", lock, re.MULTILINE)
    return {_normal(each[1]): Pin(each[2], each[3] is not None) for each in found}


def python_packages(
    wanted: Mapping[str, Pin], installed: Iterable[metadata.Distribution]
) -> list[metadata.Distribution]:
    """Return the distributions of the lock file and ours, by name.

    Raises:
        SbomError: One is missing, or has another version than the lock file says.
    """
    found: dict[str, metadata.Distribution] = {}
    for package in installed:
        # The first one on the path is imported.
        found.setdefault(_normal(package.name), package)
    missing = [name for name, pin in wanted.items() if name not in found and not pin.conditional]
    wrong = [
        f"{name} {found[name].version}"
        for name, pin in wanted.items()
        if name in found and found[name].version != pin.version
    ]
    if OURS not in found:
        missing.append(OURS)
    if missing or wrong:
        problems = {"not installed": missing, "not as locked": wrong}
        raise SbomError("; ".join(f"{k}: {', '.join(sorted(v))}" for k, v in problems.items() if v))
    return [found[name] for name in sorted({*wanted, OURS} & found.keys())]


def debian(status: str, docs: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the components of dpkg's status file, and their dependencies.

    Args:
        status: The text of the file.
        docs: The folder with a copyright file for each package, /usr/share/doc.
    """
    components, needs = {}, {}
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(\S+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={fields['Architecture']}"
            supplier = parseaddr(fields.get("Maintainer", ""))[0] or "Debian"
            made = _component("library", name, version, purl, supplier)
            licences = _debian_licences(docs / name / "copyright")
            if licences:
                made["licenses"] = [{"license": {"name": each}} for each in licences]
            components[name] = made
            needs[name] = re.findall(r"(?:^|[,|]) *([a-z0-9.+-]+)", fields.get("Depends", ""))
    refs = {name: made["bom-ref"] for name, made in components.items()}
    links = [
        {
            "ref": refs[name],
            "dependsOn": sorted({refs[each] for each in needs[name] if each in refs}),
        }
        for name in sorted(refs)
    ]
    return [components[name] for name in sorted(components)], links


def bill(
    packages: list[metadata.Distribution],
    system: list[dict[str, Any]],
    links: Iterable[dict[str, Any]] = (),
    at: float = 0.0,
) -> dict[str, Any]:
    """Return the bill of materials for these Python packages, ours among them.

    Args:
        packages: What is installed for Python.
        system: Further components.
        links: The dependencies of those components.
        at: The time of the bill, in seconds since the epoch.
    """
    refs = {_normal(each.name): _purl(each) for each in packages}
    components = {
        ref: {
            **_component("library", name, each.version, ref, _supplier(each)),
            "licenses": _licences(each),
            "hashes": [{"alg": "SHA-256", "content": _content(each)}],
        }
        for (name, ref), each in zip(refs.items(), packages, strict=True)
    }
    ours = {**components.pop(refs[OURS]), "type": "application"}
    content: dict[str, Any] = {
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "tools": {"components": [{"type": "application", "name": "deploy.tools.release.sbom"}]},
            "authors": [{"name": AUTHORS}],
            "supplier": {"name": AUTHORS},
            "component": ours,
        },
        "components": [*components.values(), *system],
        "dependencies": [
            *(
                {"ref": _purl(each), "dependsOn": sorted(_required(each, refs))}
                for each in packages
            ),
            *links,
        ],
    }
    serial = uuid.uuid5(_SERIAL, json.dumps(content, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": SPEC, "serialNumber": serial.urn, "version": 1}
    # Not part of the serial number: the same content has the same number at any time.
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
    return {**head, **content, "metadata": {"timestamp": stamp, **content["metadata"]}}


def main(argv: list[str] | None = None) -> int:
    """Print the bill of materials of this environment; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.tools.release.sbom", description=__doc__
    )
    parser.add_argument("--lock", type=Path, required=True, help="the lock file")
    parser.add_argument("--dpkg-status", type=Path, help="add the packages of this Debian")
    parser.add_argument("--dpkg-docs", type=Path, default=Path("/usr/share/doc"))
    options = parser.parse_args(argv)
    try:
        packages = python_packages(pins(options.lock.read_text()), metadata.distributions())
    except SbomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    status = options.dpkg_status
    system: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    if status is not None and status.exists():
        system, links = debian(status.read_text(), options.dpkg_docs)
    at = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    print(json.dumps(bill(packages, [_python(), *system], links, at), indent=1))
    return 0


def _component(kind: str, name: str, version: str, purl: str, supplier: str) -> dict[str, Any]:
    return {
        "type": kind,
        "bom-ref": purl,
        "supplier": {"name": supplier},
        "name": name,
        "version": version,
        "purl": purl,
    }


def _python() -> dict[str, Any]:
    version = platform.python_version()
    purl = f"pkg:generic/python@{version}"
    made = _component("platform", "python", version, purl, "Python Software Foundation")
    return {**made, "licenses": [{"license": {"id": "PSF-2.0"}}]}


def _supplier(package: metadata.Distribution) -> str:
    """Return the supplier of a package from its metadata; without one, the name of the package."""
    if _normal(package.name) == OURS:
        return AUTHORS
    for key in ("Author", "Maintainer"):
        found = _field(package, key)
        if found:
            return found
    for key in ("Author-email", "Maintainer-email"):
        name, address = parseaddr(_field(package, key).split(",")[0])
        if name or address:
            return name or address
    return str(package.name)


def _field(package: metadata.Distribution, key: str) -> str:
    """Return a field of a package's metadata, empty where it has none."""
    return str((package.metadata.get_all(key) or [""])[0] or "").strip()


def _licences(package: metadata.Distribution) -> list[dict[str, Any]]:
    """Return the licences of a package in the form of CycloneDX; empty if its metadata has none."""
    expression = _field(package, "License-Expression")
    if expression:
        return [{"expression": expression}]
    classified = [
        each.rpartition(" :: ")[2]
        for each in package.metadata.get_all("Classifier") or ()
        if each.startswith("License :: OSI Approved :: ")
    ]
    lines = _field(package, "License").splitlines()
    named = lines if len(lines) == 1 else classified
    names = [_SPDX.get(name, name) for name in named]
    return [{"license": {"id" if _IDENTIFIER.fullmatch(name) else "name": name}} for name in names]


def _content(package: metadata.Distribution) -> str:
    """Return the SHA-256 over the hashes of all installed files, which RECORD has, by name.

    The hash of the wheel is not known: the lock file accepts wheels of several platforms.
    """
    lines = sorted(
        f"{each} {each.hash.value}"
        for each in package.files or ()
        if each.hash is not None and each.name not in _LOCAL and ".." not in each.parts
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _debian_licences(file: Path) -> list[str]:
    """Return the names of licences in a copyright file, where a machine can read it."""
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return []
    if not text.startswith("Format:"):
        return []
    return sorted(set(re.findall(r"^License: *(\S.*)$", text, re.MULTILINE)))


def _purl(package: metadata.Distribution) -> str:
    return f"pkg:pypi/{_normal(package.name)}@{quote(package.version)}"


def _required(package: metadata.Distribution, refs: Mapping[str, str]) -> set[str]:
    """Return the components that a package requires, without optional extras."""
    lines = [line for line in package.requires or () if "extra ==" not in line]
    names = {_normal(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in lines}
    return {refs[name] for name in names if name in refs}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
