"""`python -m deploy.tools.demo`: show a preemption on a local control plane."""

import argparse
import contextlib
import signal
import sys
import time
from pathlib import Path

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.api import ApiError
from deploy.tools.controlplane.building import BuildError
from deploy.tools.controlplane.cluster import ControlPlane, ControlPlaneError
from deploy.tools.controlplane.nodes import NodeShape
from deploy.tools.controlplane.processes import ProcessError
from deploy.tools.demo import address, example, screens
from deploy.tools.demo.player import DemoError, Pace, Player

NODES = 4
#: That of the example.
NAMESPACE = "preemption-example"
#: The plugin, as `make setup` installs it.
COMMAND = ".venv/bin/kubectl-preemptive"
SHAPE = NodeShape(cpu="4", memory="16Gi", zones=("a", "b"))

DESCRIPTION = """\
Start etcd, kube-apiserver, kube-controller-manager and KWOK with four nodes on this machine, run
the scheduler against them with the permissions of its manifests, and apply
deploy/manifests/examples/preemption.yaml. Everything is on this machine and is removed at the end.
No kubeconfig is read.
"""


def main(argv: list[str] | None = None) -> int:
    """Run the demonstration; return the exit code."""
    options = _parser().parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return _play(options)
    except (BuildError, ControlPlaneError, ProcessError, DemoError, ApiError) as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.tools.demo",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="exit when the example has settled: 0 if all pods of high priority run, else 1",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="with --once: timeout of each step (default: 120)",
    )
    parser.add_argument(
        "--file",
        type=Path,
        default=example.FILE,
        help="objects with a label `step` (default: deploy/manifests/examples/preemption.yaml)",
    )
    return parser


def _play(options: argparse.Namespace) -> int:
    console = screens.console()
    story = example.read(options.file, ending_seconds=1.0 if options.once else 4.0)
    pace = Pace(0.0, options.limit) if options.once else Pace(3.0, None)
    version = binaries.pinned_version("kube-apiserver")
    print(f"starting a control plane, Kubernetes {version}, with {NODES} nodes", flush=True)
    port = address.free_port()
    hint = "" if options.once else f"ask it: {COMMAND} --server {address.url(port)} top"
    if hint:
        print(hint, flush=True)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(ControlPlane())
        if not options.once:
            stack.enter_context(address.announced(port, cluster.admin_kubeconfig, NAMESPACE))
        cluster.create_nodes(NODES, SHAPE)
        began_at = time.time()
        with screens.screen(console, hint, began_at) as screen:
            player = Player(cluster, story, pace, screen, port)
            player.play()
            summary = screens.summary(player.snapshot, player.pods(), time.time() - began_at)
            if not options.once:
                with contextlib.suppress(KeyboardInterrupt):  # the user ends it
                    player.linger()
    console.print(summary)
    for name, count in story.steps[-1].pods.items():
        console.print(f"All {count} pods of priority class {name} run.", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
