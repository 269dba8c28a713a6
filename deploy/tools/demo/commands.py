"""Carries out the commands of stories: those of the plugin, and a few of kubectl.

kubectl may be missing on a new machine, so its commands are sent to the API server from here.
"""

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from deploy.tools.controlplane.api import ApiClient, ApiError
from deploy.tools.controlplane.manifests import documents
from deploy.tools.demo import example

__all__ = ["CommandFailed", "Commands", "shown"]

Json: TypeAlias = dict[str, Any]
ROOT: Final = Path(__file__).parents[3]
#: The plugin, as `make setup` installs it.
_INSTALLED: Final = ".venv/bin/kubectl-preemptive"
#: How a user calls it.
PLUGIN: Final = (
    "kubectl preemptive"
    if shutil.which("kubectl") and shutil.which("kubectl-preemptive")
    else _INSTALLED
)
#: Whether a user can paste the other commands.
HAS_KUBECTL: Final = shutil.which("kubectl") is not None
_POLICIES: Final = "/apis/preemptive-scheduler.io/v1alpha1/preemptionpolicies"
_PAUSE_SECONDS: Final = 0.5


def shown(command: str) -> str:
    """Return a command of a story as a user can paste it."""
    return re.sub(r"^preemptive\b", PLUGIN, command)


class CommandFailed(Exception):
    """A command has failed; the message says why."""


class Commands:
    """Carries commands out in a namespace of a cluster.

    Args:
        api: All permissions.
        environment: That of the plugin; it names the kubeconfig.
        namespace: Of its context.
        ending_seconds: How long created pods take to terminate.
        say: Prints a line of output.
    """

    def __init__(
        self, api: ApiClient, environment: Mapping[str, str], namespace: str, ending_seconds: float,
        say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._api = api
        self._environment = environment
        self._namespace = namespace
        self._ending_seconds = ending_seconds
        self._say = say
        self._verbs: dict[str, Callable[[argparse.Namespace], None]] = {
            "apply": self._apply,
            "cordon": self._cordon,
            "delete": self._delete,
            "drain": self._drain,
            "patch": self._patch,
        }

    def run(self, command: str) -> None:
        """Carry a command out, and print what it prints.

        Raises:
            CommandFailed: It failed.
        """
        program, *words = shlex.split(command)
        if program == "preemptive":
            self._plugin(words)
            return
        given = _KUBECTL.parse_args(words)
        try:
            self._verbs[given.verb](given)
        except ApiError as error:
            raise CommandFailed(str(error)) from error

    def _plugin(self, words: Sequence[str]) -> None:
        # It writes to our own output, so that it fits a terminal and has its colours.
        sys.stdout.flush()
        ended = subprocess.run(
            [sys.executable, "-m", "scheduler.kubectl.main", *words],
            env=self._environment, cwd=ROOT, check=False,
        )  # fmt: skip
        if ended.returncode in {1, 2}:  # others tell what a plan has found
            raise CommandFailed(f"{PLUGIN} {shlex.join(words)} ended with {ended.returncode}")

    def _apply(self, given: argparse.Namespace) -> None:
        name, _, value = given.selector.partition("=")
        for document in documents(ROOT / given.name):
            if given.selector and document["metadata"].get("labels", {}).get(name) != value:
                continue
            (applied,) = self._api.apply(example.ending(document, self._ending_seconds))
            if applied["kind"] == "PreemptionPolicy":  # else the next command may not see it
                self._api.wait_for(f"{_POLICIES}/{applied['metadata']['name']}", _observed)
            self._say(f"{applied['kind'].lower()}/{applied['metadata']['name']} applied")

    def _cordon(self, given: argparse.Namespace) -> None:
        self._api.patch(f"/api/v1/nodes/{given.name}", {"spec": {"unschedulable": True}})
        self._say(f"node/{given.name} cordoned")

    def _delete(self, given: argparse.Namespace) -> None:
        self._api.delete(f"{_POLICIES}/{given.object}")
        self._say(f'preemptionpolicy "{given.object}" deleted')

    def _patch(self, given: argparse.Namespace) -> None:
        budgets = f"/apis/policy/v1/namespaces/{self._namespace}/poddisruptionbudgets"
        self._api.patch(f"{budgets}/{given.object}", json.loads(given.patch))
        self._say(f"poddisruptionbudget/{given.object} patched")

    def _drain(self, given: argparse.Namespace) -> None:
        """Evict the pods of a node, until none is left or a budget has refused for long enough."""
        deadline = time.monotonic() + float(given.timeout.removesuffix("s"))
        evicted: set[str] = set()
        while pods := self._pods_of(given.name):
            refused: dict[str, str] = {}
            for key in pods:
                if key not in evicted:
                    reason = self._evict(key)
                    if reason:
                        refused[key] = reason
                    else:
                        evicted.add(key)
                        self._say(f"evicting pod {key}")
            if time.monotonic() > deadline:
                for key, reason in refused.items():
                    self._say(f"error: pod {key}: {reason}")
                return
            time.sleep(_PAUSE_SECONDS)
        self._say(f"node/{given.name} drained")

    def _pods_of(self, node: str) -> list[str]:
        pods = self._api.items("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")
        return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in pods]

    def _evict(self, key: str) -> str:
        """Return why a pod is not evicted; empty if it is."""
        namespace, _, name = key.partition("/")
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        metadata = {"namespace": namespace, "name": name}
        try:
            self._api.post(
                path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
            )
        except ApiError as error:
            if error.status != 429:
                raise
            return "a disruption budget forbids its eviction"
        return ""


def _observed(policy: Json | None) -> bool:
    if policy is None:
        return False
    seen = policy.get("status", {}).get("observedGeneration")
    return bool(seen == policy["metadata"]["generation"])


def _kubectl() -> argparse.ArgumentParser:
    """Return the parser of the commands of kubectl that stories have."""
    parser = argparse.ArgumentParser(prog="kubectl")
    verbs = parser.add_subparsers(dest="verb", required=True)
    apply = verbs.add_parser("apply")
    apply.add_argument("-f", dest="name", required=True)
    apply.add_argument("-l", dest="selector", default="")
    verbs.add_parser("cordon").add_argument("name")
    drain = verbs.add_parser("drain")
    drain.add_argument("name")
    drain.add_argument("--timeout", required=True)
    delete = verbs.add_parser("delete")
    delete.add_argument("kind", choices=("preemptionpolicy",))
    delete.add_argument("object")
    patch = verbs.add_parser("patch")
    patch.add_argument("kind", choices=("pdb",))
    patch.add_argument("object")
    patch.add_argument("--type", choices=("merge",), required=True)
    patch.add_argument("-p", dest="patch", required=True)
    return parser


_KUBECTL: Final = _kubectl()
