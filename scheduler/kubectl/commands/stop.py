"""`stop`: no pod is evicted any more, until `resume`.

It writes a PreemptionPolicy, so that every later leader obeys it, and waits until the status of the
policy says that nothing is evicted any more. Only the API server is asked, so it works also where
the scheduler cannot be reached.
"""

import asyncio
from typing import Any, Final

from scheduler.config.policies import stop_reason
from scheduler.kube.errors import ApiError, Forbidden
from scheduler.kube.policies.registry import GROUP, PATH, RESOURCE, STOPPED, VERSION
from scheduler.kubectl import text
from scheduler.kubectl.api_server import ApiServer
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.session import Session

__all__ = ["NAME", "QUERY", "api_server", "is_stop", "rule", "run"]

#: The policy that is written.
NAME: Final = "emergency-stop"
QUERY: Final = "?fieldManager=kubectl-preemptive"
#: Between two looks at its status.
LOOK_SECONDS: Final = 0.25


async def run(session: Session) -> int:
    """Stop all preemption, and wait until that is in force; return the exit code."""
    arguments, out = session.arguments, session.out
    api = api_server(session)
    try:
        written = await _write(api, arguments.reason)
        try:
            async with asyncio.timeout(arguments.timeout):
                stopped = await _confirmed(api, written)
        except TimeoutError:
            problem, advice = _unconfirmed(arguments.timeout, arguments.scheduler_namespace)
            raise CommandError(problem, advice) from None
    finally:
        await api.close()
    out.line(f"All preemption is stopped since {text.clean(str(stopped))}.", "green")
    out.line(f"  policy     {NAME}")
    if reason := str(written["spec"].get("stopReason") or ""):
        out.line(f"  reason     {text.clean(reason)}")
    out.line("Pods are scheduled where they fit. Victims that were evicted before terminate.")
    out.line("To end it: kubectl preemptive resume")
    return 0


def api_server(session: Session) -> ApiServer:
    """Return the API server of the kubeconfig.

    Raises:
        PluginError: There is none, or the user has given the address of a scheduler.
    """
    if session.arguments.server:
        raise CommandError(
            f"{session.arguments.command} asks the API server of the kubeconfig",
            "leave out --server and PREEMPTIVE_SCHEDULER_SERVER",
        )
    return ApiServer(session.selection())


def is_stop(policy: dict[str, Any]) -> bool:
    """Return whether a policy stops all preemption."""
    return (policy.get("spec") or {}).get("stop") is True


def rule(*verbs: str) -> str:
    """Return the rule that a ClusterRole needs; the chart has one with all of them."""
    return (
        f"  - apiGroups: [{GROUP}]\n    resources: [{RESOURCE}]\n    verbs: [{', '.join(verbs)}]\n"
        "the ClusterRole preemptive-scheduler-policies-edit has it; bind it by a ClusterRoleBinding"
    )


async def _write(api: ApiServer, reason: str) -> Any:
    """Write the policy, beside the rules of one that exists; return it."""
    why = stop_reason(stop=True, reason=reason)
    spec: dict[str, Any] = {"stop": True, **({"stopReason": why} if why else {})}
    made = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "PreemptionPolicy",
            "metadata": {"name": NAME}, "spec": spec}  # fmt: skip
    what, rules = f'{RESOURCE} "{NAME}"', rule("get", "create", "patch")
    patch = ("patch", f"{PATH}/{NAME}{QUERY}", {"spec": spec}, what, rules)
    try:
        return await api.write(*patch)
    except ApiError as error:
        if error.status != 404:
            raise CommandError(str(error), "try again") from error
    try:
        return await api.write("create", f"{PATH}{QUERY}", made, what, rules)
    except ApiError as error:
        if error.status == 404:
            raise CommandError(*_NO_DEFINITION) from error
    try:
        return await api.write(*patch)  # another client has created it meanwhile
    except ApiError as error:
        raise CommandError(str(error), "try again") from error


async def _confirmed(api: ApiServer, written: Any) -> object:
    """Return since when nothing is evicted, as soon as the scheduler says so."""
    generation = written["metadata"]["generation"]
    while True:
        try:
            found = await api.get(f"{PATH}/{NAME}", f'{RESOURCE} "{NAME}"', rule("get"))
        except ApiError as error:
            raise CommandError(
                "preemption is not stopped: the policy was deleted meanwhile", "run it again"
            ) from error
        except CommandError as error:
            if isinstance(error.__cause__, Forbidden):
                raise
            found = {}  # the API server does not answer now
        for said in (found.get("status") or {}).get("conditions") or ():
            known = said.get("observedGeneration") or 0
            if (said.get("type"), said.get("status")) == (STOPPED, "True") and known >= generation:
                return said.get("lastTransitionTime")
        await asyncio.sleep(LOOK_SECONDS)


def _unconfirmed(seconds: float, namespace: str) -> tuple[str, str]:
    """Return problem and advice where no scheduler has confirmed the stop in time."""
    where = f"-n {namespace or 'preemptive-scheduler'}"
    return (
        f"no scheduler has confirmed within {seconds:g} s that preemption is stopped",
        f"PreemptionPolicy {NAME} is written, and each leader obeys it before it evicts a pod."
        " Check that one leads,\nand what it says:\n"
        f"  kubectl get lease,pods {where}\n"
        f"  kubectl get preemptionpolicy {NAME} -o yaml\n"
        "a scheduler in shadow mode confirms nothing, as it evicts no pod\n"
        "to be certain now, end the scheduler; then no pod is scheduled by it either:\n"
        f"  kubectl scale deployment preemptive-scheduler --replicas 0 {where}",
    )


_NO_DEFINITION: Final = (
    "preemption is not stopped: the cluster does not know PreemptionPolicies",
    "install their definition, and run it again:\n"
    "  kubectl apply --server-side -f charts/preemptive-scheduler/crds/preemption-policies.yaml",
)
