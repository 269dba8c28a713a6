"""`python -m deploy.tools.demo`: see the scheduler preempt, on a real control plane of its own."""

import argparse
import contextlib
import http.client
import signal
import sys
from dataclasses import replace
from pathlib import Path

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.api import ApiError
from deploy.tools.controlplane.building import BuildError
from deploy.tools.controlplane.cluster import ControlPlane, ControlPlaneError
from deploy.tools.controlplane.nodes import NodeShape
from deploy.tools.controlplane.processes import ProcessError
from deploy.tools.demo import example, screens
from deploy.tools.demo.performance import DemoError, Pace, Performance
from scheduler.console import view

NODES = 4
SHAPE = NodeShape(cpu="4", memory="16Gi", zones=("a", "b"))

DESCRIPTION = """\
Start etcd, kube-apiserver, kube-controller-manager and KWOK with four nodes on this machine, run
the scheduler against them with the rights that it is shipped with, and apply
deploy/manifests/examples/preemption.yaml. Nothing outside of this machine is touched, and nothing
is left behind. No kubeconfig is read.
"""


def main(argv: list[str] | None = None) -> int:
    """Play the example; return the exit code."""
    options = _parser().parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        return _play(options)
    except (BuildError, ControlPlaneError, ProcessError, DemoError, ApiError) as error:
        print(f"error: {error}", file=sys.stderr)
    except (TimeoutError, OSError, http.client.HTTPException) as error:
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
        help="end when the example has settled: 0 if all pods of high priority run, else 1",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="with --once: how long each step may take (default: 120)",
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
    with ControlPlane() as cluster:
        cluster.create_nodes(NODES, SHAPE)
        with screens.screen(console) as screen:
            performance = Performance(cluster, story, pace, screen)
            ended = performance.play()
            if not options.once:
                with contextlib.suppress(KeyboardInterrupt):  # that is how it ends
                    performance.linger()
    console.print(view.summary(replace(ended, title=str(options.file.name))))
    for name, count in story.steps[-1].pods.items():
        console.print(f"All {count} pods of priority class {name} run.", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
