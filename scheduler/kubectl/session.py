"""What a command works with: its arguments, the scheduler, and where to write."""

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from scheduler.kube.auth.kubeconfig import Selection
from scheduler.kubectl.client import Answer, SchedulerClient
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.output import Output

__all__ = ["PodArgument", "Session", "pod_argument"]


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


class PodArgument(NamedTuple):
    """Which pods a command is about: one by name, one by uid, those of an owner, or by labels."""

    name: str = ""
    namespace: str = ""
    #: The kind of the owner whose name it is; empty if it is that of a pod.
    kind: str = ""
    uid: str = ""
    labels: str = ""


_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_POD: Final = ("pod", "pods", "po")
_OWNERS: Final = (
    "deployment", "deployments", "deploy", "replicaset", "replicasets", "rs", "statefulset",
    "statefulsets", "sts", "daemonset", "daemonsets", "ds", "job", "jobs",
    "replicationcontroller", "replicationcontrollers", "rc",
)  # fmt: skip
_FORMS: Final = "name it as POD, NAMESPACE/POD, KIND/NAME (deploy/web, job/x), UID or -l SELECTOR"


def pod_argument(given: str, labels: str) -> PodArgument:
    """Return which pods an argument names: `web-0`, `prod/web-0`, `deploy/web`, a uid, or labels.

    Raises:
        CommandError: It names nothing, or too much.
    """
    if bool(given) == bool(labels):
        raise CommandError("name one pod, or the labels of some", _FORMS)
    if labels:
        return PodArgument(labels=labels)
    if _UID.fullmatch(given):
        return PodArgument(uid=given)
    first, slash, name = given.partition("/")
    if not slash:
        return PodArgument(name=given)
    if not name or "/" in name:
        raise CommandError(f"{given}: not a pod", _FORMS)
    kind = first.lower()
    if kind in _POD:
        return PodArgument(name=name)
    # A namespace may be called like a kind: a name with a kind is what kubectl prints.
    return (
        PodArgument(name=name, kind=kind)
        if kind in _OWNERS
        else PodArgument(name=name, namespace=first)
    )
