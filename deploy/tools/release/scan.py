"""`python -m deploy.tools.release.scan IMAGE`: refuse an image with a hole that can be closed.

grype compares the packages in the image, those of Debian and those of Python, with its database. A
finding that is critical or high, and for which a fixed version exists, refuses the image. About
others nothing can be done yet.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.building import BuildError
from deploy.tools.release.commands import ReleaseError, tell

__all__ = ["PLATFORMS", "findings", "fixable", "main"]

#: The platforms of the image.
PLATFORMS: Final = ("linux/amd64", "linux/arm64")
_SEVERE: Final = ("Critical", "High")


def findings(image: str, platform: str) -> list[str]:
    """Return what is severe in an image of a registry and can be fixed, one line each.

    Raises:
        ReleaseError: The scan failed.
    """
    source = f"registry:{image}"
    command: list[str | Path] = [
        binaries.find("grype"),
        source,
        "--platform",
        platform,
        "--output",
        "json",
        "--quiet",
    ]
    return [f"{platform}: {each}" for each in fixable(json.loads(tell(command)))]


def fixable(report: Mapping[str, Any]) -> list[str]:
    """Return the severe findings of a report of grype that have a fix.

    Raises:
        ReleaseError: The scan has not seen what the image is made of.
    """
    if (report.get("distro") or {}).get("name") != "debian":
        raise ReleaseError("the scan has not seen the packages of Debian in the image")
    found = set()
    for match in report["matches"]:
        hole, package = match["vulnerability"], match["artifact"]
        if hole["severity"] in _SEVERE and hole["fix"]["state"] == "fixed":
            fixed = ", ".join(hole["fix"]["versions"])
            name = f"{package['name']} {package['version']}"
            found.add(f"{hole['id']} ({hole['severity']}) in {name}, fixed in {fixed}")
    return sorted(found)


def main(argv: list[str] | None = None) -> int:
    """Scan all platforms of an image; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.tools.release.scan", description=__doc__
    )
    parser.add_argument("image", help="as registry.example/name@sha256:...")
    image = parser.parse_args(argv).image
    try:
        found = [line for platform in PLATFORMS for line in findings(image, platform)]
    except (ReleaseError, BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for line in found:
        print(f"error: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
