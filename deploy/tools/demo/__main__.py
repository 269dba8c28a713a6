"""`python -m deploy.tools.demo`: show a preemption on a local control plane."""

import argparse
import contextlib
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.api import ApiError
from deploy.tools.controlplane.building import BuildError
from deploy.tools.controlplane.cluster import ControlPlane, ControlPlaneError
from deploy.tools.controlplane.nodes import NodeShape
from deploy.tools.controlplane.processes import ProcessError
from deploy.tools.demo import address, example, screens, storyteller
from deploy.tools.demo.commands import CommandFailed, Commands
from deploy.tools.demo.player import DemoError, Pace, Player
from deploy.tools.demo.stories import STORIES, Story

NODES = 4
#: That of the example.
NAMESPACE = "preemption-example"
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
    if options.story and options.story not in STORIES:
        print(f"error: there is no story {options.story!r}; the stories are", file=sys.stderr)
        for name, story in STORIES.items():
            print(f"  {name:<8} {story.about}", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        _play(options)
    except (
        BuildError,
        ControlPlaneError,
        ProcessError,
        DemoError,
        ApiError,
        CommandFailed,
    ) as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    else:
        return 0
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
        "--story",
        default="",
        metavar="NAME",
        help="tell a story: " + ", ".join(STORIES),
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


def _play(options: argparse.Namespace) -> None:
    console = screens.console()
    story = STORIES[options.story] if options.story else None
    ending_seconds = 1.0 if options.once else 4.0
    steps = example.read(options.file, ending_seconds)
    pace = Pace(0.0, options.limit) if options.once else Pace(3.0, None)
    started = f"Kubernetes {binaries.pinned_version('kube-apiserver')}, with {NODES} nodes"
    print(f"starting a control plane, {started}", flush=True)
    port = address.free_port()
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(ControlPlane())
        kubeconfig = cluster.admin_kubeconfig
        if not options.once:
            kubeconfig = stack.enter_context(
                address.announced(port, kubeconfig, NAMESPACE, os.environ)
            )
        cluster.create_nodes(NODES, SHAPE)
        began_at = time.time()
        with screens.screen(console, began_at, story=story is not None) as screen:
            player = Player(cluster, steps, pace, screen, port)
            player.play(story.steps if story else None)
            if story:
                _tell(story, player, cluster, port, ending_seconds, asks=not options.once)
            summary = screens.summary(player.preemptions(), player.pods(), time.time() - began_at)
            if story:
                console.print(summary)
            if not options.once:
                screen.advise([*storyteller.advice(kubeconfig, player.pods())])
                with contextlib.suppress(KeyboardInterrupt):  # the user ends it
                    player.linger()
    if not story:
        console.print(summary)
        for name, count in steps.steps[-1].pods.items():
            console.print(f"All {count} pods of priority class {name} run.", highlight=False)


def _tell(
    story: Story, player: Player, cluster: ControlPlane, port: int, ending_seconds: float, *,
    asks: bool,
) -> None:  # fmt: skip
    """Tell a story; the user presses Enter before each command if it asks."""
    say = partial(screens.console().print, markup=False, highlight=False, soft_wrap=True)
    # Another demonstration may begin meanwhile, so the plugin has files of its own.
    own = {"XDG_CACHE_HOME": str(cluster.folder)}
    with address.announced(port, cluster.admin_kubeconfig, NAMESPACE, own) as kubeconfig:
        environment = {**os.environ, **own, "KUBECONFIG": str(kubeconfig)}
        commands = Commands(cluster.api, environment, NAMESPACE, ending_seconds, say)
        asks = asks and sys.stdin.isatty()
        if asks:
            say("Press Enter to run each command.")
        pause = player.await_enter if asks else player.rest
        storyteller.tell(story, player, commands, say, pause)


if __name__ == "__main__":
    sys.exit(main())
