"""`python -m deploy.tools.controlplane`: get the binaries, run a control plane by hand."""

import argparse
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.building import BuildError
from deploy.tools.controlplane.cluster import ControlPlane, ControlPlaneError
from deploy.tools.controlplane.components import Settings
from deploy.tools.controlplane.nodes import NodeShape


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return int(options.command(options))
    except (BuildError, ControlPlaneError, FileExistsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.tools.controlplane", description=__doc__
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    build = commands.add_parser("build", help="get binaries, building those that are missing")
    build.add_argument("names", nargs="*", metavar="name", help=", ".join(binaries.BINARIES))
    which = build.add_mutually_exclusive_group()
    which.add_argument("--version", help="Kubernetes version (default: the pinned one)")
    which.add_argument("--every-version", action="store_true", help="all versions that are pinned")
    build.set_defaults(command=_build)

    up = commands.add_parser("up", help="run a control plane until Ctrl-C")
    up.add_argument("--nodes", type=int, default=3, help="how many nodes to create (default: 3)")
    up.add_argument(
        "--zones", type=int, default=0, help="number of zones of the nodes (default: none)"
    )
    up.add_argument(
        "--kubeconfig", type=Path, help="write the kubeconfig of an administrator to this new file"
    )
    up.add_argument("--version", help="Kubernetes version (default: the pinned one)")
    up.add_argument("--no-controllers", action="store_true", help="without controller-manager")
    up.add_argument("--no-kwok", action="store_true", help="without fake kubelets")
    up.set_defaults(command=_up)

    versions = commands.add_parser("versions", help="show pinned versions and where binaries are")
    versions.set_defaults(command=_versions)
    return parser


def _build(options: argparse.Namespace) -> int:
    unknown = [name for name in options.names if name not in binaries.BINARIES]
    if unknown:
        raise BuildError(f"unknown: {', '.join(unknown)} (known: {', '.join(binaries.BINARIES)})")
    for name in options.names or binaries.CONTROL_PLANE:
        several = name.startswith("kube-") or binaries.BINARIES[name].own_code
        version = options.version if several else None
        for each in binaries.pinned_versions(name) if options.every_version else [version]:
            print(binaries.find(name, each))
    return 0


def _up(options: argparse.Namespace) -> int:
    settings = Settings(
        version=options.version,
        controllers=not options.no_controllers,
        kwok=not options.no_kwok,
    )
    began = time.monotonic()
    with ControlPlane(settings) as cluster:
        zones = tuple(f"zone-{i}" for i in range(options.zones))
        cluster.create_nodes(options.nodes, NodeShape(zones=zones))
        elapsed = time.monotonic() - began
        kubeconfig = cluster.admin_kubeconfig
        if options.kubeconfig is not None:
            kubeconfig = _copy(kubeconfig, options.kubeconfig)
        print(f"ready in {elapsed:.1f} s, {options.nodes} nodes; logs in {cluster.folder / 'logs'}")
        print(f"export KUBECONFIG={kubeconfig}", flush=True)
        try:
            signal.pause()
        finally:
            if options.kubeconfig is not None:
                kubeconfig.unlink(missing_ok=True)  # its server is gone
    return 0


def _copy(source: Path, target: Path) -> Path:
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(source.read_bytes())
    return target


def _versions(_: argparse.Namespace) -> int:
    for name in binaries.BINARIES:
        version = binaries.pinned_version(name)
        cached = binaries.cached_path(name, version, os.environ)
        place = cached if cached.exists() else shutil.which(name) or "not built yet"
        print(f"{name:24} {version:10} {place}")
    print(f"Kubernetes versions pinned: {', '.join(binaries.kubernetes_versions())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
