"""The other side: kube-scheduler's own packages, as a program that answers line by line.

Source: deploy/tools/controlplane/go/oracle.
"""

import json
import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from deploy.tools.controlplane import binaries
from scheduler.model import releases as model
from tests.oracle import allocations
from tests.oracle.defects import with_honoured_budgets
from tests.oracle.generate import Cluster
from tests.oracle.generating.dice import Object
from tests.oracle.verdicts import Answer, Attempt, Found

__all__ = ["NAME", "REFERENCES", "Upstream", "program"]

#: What deploy.tools.controlplane calls the program.
NAME = "scheduler-oracle"

#: The releases that there is a program for.
REFERENCES = tuple(model.REFERENCES)


def program(reference: str) -> Path:
    """Return the program of a release, by the name of the setting; build it where it is missing."""
    return binaries.find(NAME, model.REFERENCES[reference].version)


#: The version of kinds that a release has in another one only.
_OLDER_VERSIONS = {("v1.36", "DeviceTaintRule"): "resource.k8s.io/v1beta2"}


class Upstream:
    """A running program of one release; it is built if it is not there yet."""

    def __init__(self, reference: str) -> None:
        #: The name of the release, for the other side.
        self.reference: Final = reference
        self._program = program(reference)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [self._program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._running()
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def decide(self, cluster: Cluster, follow: Answer) -> Answer:
        """Decide a cluster, where several choices are equally good as the other side did."""
        choices: dict[str, list[str]] = {}
        for each in follow.attempts:
            if each.decision != "Gated":
                choices.setdefault(each.pod, []).append(each.node or "")
        request = {
            "id": cluster.name,
            "objects": [self._served(each) for each in with_honoured_budgets(cluster.objects)],
            "config": cluster.config,
            "settle": cluster.settle,
            "follow": choices,
        }
        return _answer(self._ask(request))

    def verdicts(self, objects: list[Object], hypotheses: list[Object]) -> list[Object]:
        """Return whether a pod fits on nodes without some pods, in a cluster with freed claims.

        Args:
            objects: The cluster; its first pending pod is the one that is asked about.
            hypotheses: `node`, pods `without` which it is looked at, and claims that are `freed`.

        Raises:
            RuntimeError: Upstream cannot read the objects.
        """
        served = [self._served(each) for each in objects]
        answer = self._ask({"objects": served, "hypotheses": hypotheses})
        if answer.get("error"):
            raise RuntimeError(answer["error"])
        verdicts: list[Object] = answer["verdicts"]
        return verdicts

    def _served(self, item: Object) -> Object:
        """Return an object in the version that the release knows."""
        version = _OLDER_VERSIONS.get((self.reference, item["kind"]))
        return {**item, "apiVersion": version} if version else item

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._running()
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("no pipes")
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            # A panic beside the attempt, over an object that no API server accepts.
            code = process.wait()
            self.__enter__()
            return {"error": f"{NAME} ended with {code}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("use it in a with statement")
        return self._process


def _answer(told: dict[str, Any]) -> Answer:
    if told.get("error"):
        return Answer((), error=told["error"])
    final = {pod: node or None for pod, node in told.get("final", {}).items()}
    return Answer(tuple(_attempt(each) for each in told["results"]), final)


def _attempt(told: dict[str, Any]) -> Attempt:
    nodes = {}
    for each in told["nodes"] or ():
        reasons = each["reasons"] or []
        text = f"{each['plugin'] or _left_out_by(reasons)}: {', '.join(reasons)}"
        rejection = None if each["code"] == "Success" else text
        nodes[each["name"]] = Found(rejection, each["scores"] or {})
    return Attempt(
        pod=told["pod"],
        decision=told["decision"],
        node=told["node"] or None,
        victims=tuple(told["victims"] or ()),
        violations=told["pdbViolations"],
        message=told["message"],
        rejectors=tuple(told["rejectors"] or ()),
        nodes=nodes,
        best=tuple(told["best"] or ()),
        candidates={
            each["node"]: (tuple(each["victims"]), each["pdbViolations"])
            for each in told["candidates"] or ()
        },
        best_candidates=tuple(told["bestCandidates"] or ()),
        errors=tuple(told.get("errors") or ()),
        claims=allocations.normal(told.get("claims") or {}),
        mappings=tuple(
            (each["containerName"], each["resourceName"], each["requestName"])
            for each in told.get("mappings") or ()
        ),
    )


def _left_out_by(reasons: list[str]) -> str:
    """Return the plugins that left a node out; upstream names them in the reason alone."""
    found = re.fullmatch(r"node\(s\) didn't satisfy plugin\(s\) \[(.*)\]", ", ".join(reasons))
    return "" if found is None else ", ".join(found[1].split())
