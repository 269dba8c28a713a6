"""`python -m deploy.tools.release.pin IMAGE`: check that an image is named by its digest.

A release must be built on a base that cannot change. Only the registry knows the digest of a tag
(`docker buildx imagetools inspect python:3.13-slim` prints it), so the digest is an input of the
release workflow and not part of the Dockerfile.
"""

import re
import sys
from typing import Final

__all__ = ["main", "problem"]

_PINNED: Final = re.compile(r"[^\s@]+@sha256:([0-9a-f]{64})")


def problem(image: str) -> str | None:
    """Return the problem of the name of a base image, None if there is none."""
    found = _PINNED.fullmatch(image)
    if not image:
        return "no base image is given"
    if found is None:
        return f"{image} is not pinned: a base is named as python:3.13-slim@sha256:<64 hex digits>"
    if len(set(found[1])) == 1:
        return f"{image} has a placeholder for a digest"
    return None


def main(argv: list[str]) -> int:
    """Check the image that is named by the only argument; return the exit code."""
    found = problem(*argv) if len(argv) == 1 else "usage: pin IMAGE"
    if found is not None:
        print(f"error: {found}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
