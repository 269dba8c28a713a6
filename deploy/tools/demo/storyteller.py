"""Tells a story: prints each scene with its command, carries it out, and waits for the result."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from deploy.tools.demo import commands
from deploy.tools.demo.commands import Commands
from deploy.tools.demo.player import Player
from deploy.tools.demo.stories import TRY, Story

__all__ = ["advice", "tell"]

Json: TypeAlias = dict[str, Any]

_WIDTH: Final = 78


def tell(
    story: Story, player: Player, carried_out: Commands, say: Callable[[str], None],
    pause: Callable[[], None],
) -> None:  # fmt: skip
    """Tell a story.

    Args:
        story: Its steps of the example are done.
        player: Waits until the cluster has settled.
        carried_out: The commands.
        say: Prints a line.
        pause: Gives the user time to read a command before it is carried out.

    Raises:
        CommandFailed: A command failed.
        DemoError: The cluster does not settle.
    """
    node = _names(player.pods())["node"]
    if not commands.HAS_KUBECTL:
        say("There is no kubectl on PATH; its commands are sent to the API server without it.")
    for number, scene in enumerate(story.scenes, 1):
        names = {**_names(player.pods()), "node": node}
        command = scene.command.format(**names)
        say("")
        title = f"{number} of {len(story.scenes)}  {scene.says.format(**names)}"
        say(textwrap.fill(title, _WIDTH, subsequent_indent=" " * 8))
        say(f"\n  {commands.shown(command)}\n")
        pause()
        carried_out.run(command)
        player.settle(scene.run)
    say(f"\n{textwrap.fill(story.shown, _WIDTH)}\n")


def advice(kubeconfig: Path, pods: list[Json]) -> Iterator[str]:
    """Yield the lines with what a user may try."""
    home, names = Path.home(), _names(pods)
    near = kubeconfig.is_relative_to(home)
    path = f"~/{kubeconfig.relative_to(home)}" if near else str(kubeconfig)
    yield "Try it in another terminal, in this folder:"
    yield f"  export KUBECONFIG={path}"
    for number, scene in enumerate(TRY, 1):
        yield f"{number} {scene.says}"
        yield f"  {commands.shown(scene.command.format(**names))}"


def _names(pods: list[Json]) -> dict[str, str]:
    """Return what stands for the names in commands."""
    pods = sorted(pods, key=lambda pod: -pod["spec"].get("priority", 0))
    waiting = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]
    nodes = [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]
    return {"pod": (waiting or [pods[0]["metadata"]["name"]])[0], "node": nodes[0]}
