"""`python -m deploy.sbom`: what the image is made of, as a CycloneDX bill of materials.

The packages of the lock file as they are installed, with what each one requires, Python itself, and
Debian's packages where there are any. The image is built with one inside, /opt/app/sbom.cdx.json;
this file is run there by itself, so it needs nothing but Python. The same packages give the same
bytes.

    python -m deploy.sbom --lock requirements/runtime.txt > build/sbom.cdx.json
"""

import argparse
import json
import platform
import re
import sys
import uuid
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

__all__ = ["Pin", "SbomError", "bill", "debian", "main", "pins", "python_packages"]

OURS: Final = "preemptive-scheduler"
SPEC: Final = "1.6"
#: The namespace of our serial numbers: any fixed one.
_SERIAL: Final = uuid.UUID("0f3dbe4c-6a3b-4d64-9c5c-0a5be1c8fb17")


class SbomError(RuntimeError):
    """What is installed is not what is locked."""


class Pin(NamedTuple):
    """A line of the lock file."""

    version: str
    #: Whether it goes for some platforms only.
    conditional: bool


def pins(lock: str) -> dict[str, Pin]:
    """Return what a lock file pins, by normalised name."""
    found = re.finditer(r"^([A-Za-z0-9._-]+)==([^\s;]+)( *;)?", lock, re.MULTILINE)
    return {_normal(each[1]): Pin(each[2], each[3] is not None) for each in found}


def python_packages(
    wanted: Mapping[str, Pin], installed: Iterable[metadata.Distribution]
) -> list[metadata.Distribution]:
    """Return the distributions of the lock file and ours, by name.

    Raises:
        SbomError: One is missing, or has another version than the lock file says.
    """
    there = {_normal(each.name): each for each in installed}
    missing = [name for name, pin in wanted.items() if name not in there and not pin.conditional]
    wrong = [
        f"{name} {there[name].version}"
        for name, pin in wanted.items()
        if name in there and there[name].version != pin.version
    ]
    if OURS not in there:
        missing.append(OURS)
    if missing or wrong:
        said = {"not installed": missing, "not as locked": wrong}
        raise SbomError("; ".join(f"{k}: {', '.join(sorted(v))}" for k, v in said.items() if v))
    return [there[name] for name in sorted({*wanted, OURS} & there.keys())]


def debian(status: str) -> list[dict[str, Any]]:
    """Return the components for dpkg's status file."""
    components = []
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(\S+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={fields['Architecture']}"
            components.append(_component("library", name, version, purl))
    return sorted(components, key=lambda component: str(component["name"]))


def bill(packages: list[metadata.Distribution], system: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the bill of materials for these Python packages, ours among them."""
    refs = {_normal(each.name): _purl(each) for each in packages}
    components = {
        ref: _component("library", name, each.version, ref)
        for (name, ref), each in zip(refs.items(), packages, strict=True)
    }
    for each in packages:
        licences = each.metadata.get_all("License-Expression")
        if licences:
            components[_purl(each)]["licenses"] = [{"expression": licences[0]}]
    ours = {**components.pop(refs[OURS]), "type": "application"}
    content: dict[str, Any] = {
        "metadata": {"component": ours},
        "components": [*components.values(), *system],
        "dependencies": [
            {"ref": _purl(each), "dependsOn": sorted(_required(each, refs))} for each in packages
        ],
    }
    serial = uuid.uuid5(_SERIAL, json.dumps(content, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": SPEC, "serialNumber": serial.urn, "version": 1}
    return {**head, **content}


def main(argv: list[str] | None = None) -> int:
    """Print the bill of materials of this environment; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.sbom", description=__doc__)
    parser.add_argument("--lock", type=Path, required=True, help="the lock file")
    parser.add_argument("--dpkg-status", type=Path, help="add the packages of this Debian")
    options = parser.parse_args(argv)
    try:
        packages = python_packages(pins(options.lock.read_text()), metadata.distributions())
    except SbomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    status = options.dpkg_status
    system = debian(status.read_text()) if status is not None and status.exists() else []
    print(json.dumps(bill(packages, [_python(), *system]), indent=1))
    return 0


def _component(kind: str, name: str, version: str, purl: str) -> dict[str, Any]:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _python() -> dict[str, Any]:
    version = platform.python_version()
    return _component("platform", "python", version, f"pkg:generic/python@{version}")


def _purl(package: metadata.Distribution) -> str:
    return f"pkg:pypi/{_normal(package.name)}@{quote(package.version)}"


def _required(package: metadata.Distribution, refs: Mapping[str, str]) -> set[str]:
    """Return what it requires of what is there; extras that nobody asked for are not."""
    lines = [line for line in package.requires or () if "extra ==" not in line]
    names = {_normal(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in lines}
    return {refs[name] for name in names if name in refs}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
