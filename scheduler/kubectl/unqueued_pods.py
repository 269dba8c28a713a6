"""Why a pod is not in the queue of the scheduler, as far as the API server tells the user."""

from typing import Any, Final
from urllib.parse import quote

from scheduler.kube.errors import KubeError, NotFound
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.session import Session
from scheduler.model.rest.cluster import ApiIndex

__all__ = ["reason"]

_RULE: Final = '  - apiGroups: [""]\n    resources: ["pods"]\n    verbs: ["get"]'
_DEFAULT: Final = "default-scheduler"


async def reason(session: Session, namespace: str, name: str) -> str:
    """Return the reason, to be put after a colon; empty if it is not known.

    With an address of the scheduler, the kubeconfig may be that of another cluster.

    Raises:
        PluginError: The scheduler does not answer.
    """
    if session.arguments.server:
        return ""
    from scheduler.kubectl.api_server import ApiServer  # its import takes long

    api = ApiServer(session.selection())
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
    try:
        pod = await api.get(path, f'pods "{name}"', _RULE)
    except NotFound:
        return "it does not exist"
    except (CommandError, KubeError):
        return ""
    finally:
        await api.close()
    profiles = (await session.client.get("", ApiIndex)).document.profiles
    return _of(pod if isinstance(pod, dict) else {}, profiles)


def _of(pod: dict[str, Any], profiles: tuple[str, ...]) -> str:
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    phase, scheduler = status.get("phase"), spec.get("schedulerName") or _DEFAULT
    if phase in {"Succeeded", "Failed"}:
        return f"it has ended, as {phase}"
    if spec.get("nodeName"):
        return f"it is on node {spec['nodeName']} already"
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    if scheduler not in profiles:
        return f"it waits for another scheduler, spec.schedulerName is {scheduler}"
    return "it is new, or was placed just now: try again"
