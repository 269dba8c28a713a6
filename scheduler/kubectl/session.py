"""What a command works with: its arguments, the scheduler, and where to write."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scheduler.kube.auth.kubeconfig import Selection
from scheduler.kubectl.client import Answer, SchedulerClient
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.output import Output

__all__ = ["Session"]


@dataclass(frozen=True)
class Session:
    """One run of a command."""

    arguments: argparse.Namespace
    client: SchedulerClient
    out: Output
    #: Seconds since the epoch.
    now: Callable[[], float]
    #: Reads the kubeconfig; raises PluginError.
    selection: Callable[[], Selection]

    @property
    def wide(self) -> bool:
        """Whether `-o wide` was asked for."""
        return bool(self.arguments.output == "wide")

    def namespace(self) -> str:
        """Return the namespace of the flag, else of the context, else `default`."""
        chosen = self.arguments.namespace
        if not chosen and not self.arguments.server:
            chosen = self.selection().namespace
        return chosen or "default"

    def printed(self, answer: Answer[Any]) -> bool:
        """Print a document if `-o json` or `-o yaml` was asked for; return whether it was."""
        form = self.arguments.output
        if form not in {"json", "yaml"}:
            return False
        self.out.document(answer.content, form)
        return True


def name_of_pod(given: str) -> str:
    """Return the name in an argument such as `web-0`, `pod/web-0` or `po/web-0`.

    Raises:
        PluginError: It names something else.
    """
    kind, slash, name = given.rpartition("/")
    if slash and kind not in {"pod", "pods", "po"}:
        raise CommandError(
            f"{given}: not a pod",
            "name a pod as POD or pod/POD, and its namespace with -n NAMESPACE",
        )
    if not name:
        raise CommandError("the name of the pod is empty")
    return name
