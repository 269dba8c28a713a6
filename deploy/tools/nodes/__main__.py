"""`python -m deploy.tools.nodes`: install packages, build images, or run a cluster."""

import argparse
import signal
import sys
import time

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.building import BuildError
from deploy.tools.nodes import images, leftovers, machine
from deploy.tools.nodes.cluster import ClusterError, NodeCluster
from deploy.tools.release.image_base import ImageError

#: The programs that build the image without Docker, and Debian's packages with them.
BUILDERS = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.tools.nodes", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    for name, command, explanation in (
        ("packages", _packages, "install what nodes and their tests need with apt, as root"),
        ("check", _check, "report what is missing on this machine"),
        ("build", _build, "get the binaries and build the images"),
        ("up", _up, "run a cluster until Ctrl-C"),
        ("clean", _clean, "remove what killed runs have left"),
    ):
        commands.add_parser(name, help=explanation).set_defaults(command=command)
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return int(options.command())
    except (BuildError, ClusterError, ImageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _packages() -> int:
    machine.install(BUILDERS)
    return 0


def _check() -> int:
    if lacking := machine.problems():
        raise ClusterError("\n".join(["this machine cannot run the end-to-end tests:", *lacking]))
    return 0


def _build() -> int:
    for name in (*binaries.CONTROL_PLANE, "kube-scheduler", *binaries.NODE):
        print(binaries.find(name))
    print(images.workload_archive())
    print(images.scheduler_archive())
    return 0


def _up() -> int:
    archives = [images.workload_archive(), images.scheduler_archive()]
    began = time.monotonic()
    with NodeCluster(archives) as cluster:
        elapsed = time.monotonic() - began
        print(f"ready in {elapsed:.1f} s: {', '.join(cluster.nodes)}")
        print(f"export KUBECONFIG={cluster.kubeconfig}", flush=True)
        signal.pause()
    return 0


def _clean() -> int:
    for run in leftovers.dead_runs():
        leftovers.remove(run)
        print(f"removed what {run} left")
    return 0


if __name__ == "__main__":
    sys.exit(main())
