"""`resume`: ends the stop that `stop` has begun."""

from typing import Any, Final

from scheduler.config import policies
from scheduler.config.policies import PolicyError
from scheduler.kube.errors import ApiError
from scheduler.kube.policies.registry import PATH, RESOURCE
from scheduler.kubectl import text
from scheduler.kubectl.api_server import ApiServer
from scheduler.kubectl.commands.stop import NAME, QUERY, api_server, is_stop, rule
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.session import Session
from scheduler.model.policies import PreemptionPolicy

__all__ = ["run"]

#: How often a policy is read again that others, such as the scheduler, change meanwhile.
ATTEMPTS: Final = 10
#: The fields of a spec that are about the stop.
_STOP: Final = ("stop", "stopReason")
_RULE: Final = rule("list", "patch", "delete")


async def run(session: Session) -> int:
    """End the stop; return the exit code. That nothing is stopped is no error."""
    api = api_server(session)
    try:
        done, others = await _end(api)
    finally:
        await api.close()
    if others:
        raise CommandError(
            f"preemption is still stopped, by PreemptionPolicy {text.clean(', '.join(others))}",
            "resume ends only what `kubectl preemptive stop` has begun; set spec.stop to false"
            " there, or delete it",
        )
    session.out.line(done or "Preemption is not stopped.")
    if done:
        session.out.line("Pods that it held are tried again within seconds.")
    return 0


async def _end(api: ApiServer) -> tuple[str, list[str]]:
    """End our stop; return what was done, and the names of policies that still stop preemption."""
    done = ""
    for _ in range(ATTEMPTS):
        try:
            found = (await api.get(PATH, RESOURCE, _RULE))["items"]
        except ApiError:
            return done, []  # the cluster does not know PreemptionPolicies
        stops = {each["metadata"]["name"]: each for each in found if is_stop(each)}
        if NAME not in stops:
            return done, sorted(stops)
        try:
            done = await _remove(api, stops[NAME])
        except ApiError:
            continue  # it has changed, or is gone
    raise CommandError(f"preemption is stopped: PreemptionPolicy {NAME} changes again and again",
                      "find out who writes it: kubectl get preemptionpolicy emergency-stop -o yaml"
                      " --show-managed-fields")  # fmt: skip


async def _remove(api: ApiServer, policy: dict[str, Any]) -> str:
    """Delete the policy, or only its stop where it has rules; return what was done."""
    metadata, what = policy["metadata"], f'{RESOURCE} "{NAME}"'
    version = metadata["resourceVersion"]
    if _has_rules(policy) or metadata.get("finalizers"):
        change = {
            "metadata": {"resourceVersion": version},
            "spec": dict.fromkeys(_STOP),
        }
        await api.write("patch", f"{PATH}/{NAME}{QUERY}", change, what, _RULE)
        return f"Preemption is resumed: PreemptionPolicy {NAME} stops it no longer."
    exactly = {"preconditions": {"uid": metadata["uid"], "resourceVersion": version}}
    await api.write("delete", f"{PATH}/{NAME}", exactly, what, _RULE)
    return f"Preemption is resumed: PreemptionPolicy {NAME} is deleted."


def _has_rules(policy: dict[str, Any]) -> bool:
    """Return whether a policy says more than that preemption is stopped."""
    spec = {key: value for key, value in policy["spec"].items() if key not in _STOP}
    try:
        return policies.read({"metadata": {}, "spec": spec}) != PreemptionPolicy("")
    except PolicyError:
        return True
