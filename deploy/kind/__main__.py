"""`python -m deploy.kind`: see whether there can be a cluster of kind, and build what it gets."""

import sys

from deploy.image import ImageError
from deploy.kind.cluster import problems
from deploy.local import binaries
from deploy.local.building import BuildError
from deploy.nodes import images

#: What the tests run on this machine.
TOOLS = ("kwok", "helm", "kubectl")


def main() -> int:
    """Return the exit code."""
    found = problems()
    if found:
        print("\n".join(["error: there can be no cluster of kind here:", *found]), file=sys.stderr)
        return 1
    try:
        for name in TOOLS:
            print(binaries.find(name))
        print(images.workload_archive())
        print(images.scheduler_archive())
    except (BuildError, ImageError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
