"""`python -m deploy.tools.kind`: check whether kind works here, and build the images for it."""

import sys

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.building import BuildError
from deploy.tools.kind.cluster import problems
from deploy.tools.nodes import images
from deploy.tools.release.image_base import ImageError

#: Programs that the tests run on this machine.
TOOLS = ("kwok", "helm", "kubectl")


def main() -> int:
    """Return the exit code."""
    found = problems()
    if found:
        print("\n".join(["error: kind does not work here:", *found]), file=sys.stderr)
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
