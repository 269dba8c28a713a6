"""Finds the pod of the scheduler that decides.

Its Lease names it: the identity of the holder begins with the name of the pod. The Lease is read in
one namespace only, which the user chooses. Nothing is searched in other namespaces: the credentials
of the user go to the pod that is found, and any tenant may run a pod with labels like ours.
"""

import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from scheduler.kube.errors import NotFound
from scheduler.kubectl.api_server import ApiServer
from scheduler.kubectl.errors import CommandError

__all__ = ["NAME", "Leader", "Place", "find"]

#: The default of the namespace, of the release and of the Lease.
NAME: Final = "preemptive-scheduler"
#: The same in shadow mode.
SHADOW: Final = f"{NAME}-shadow"
SELECTOR: Final = f"app.kubernetes.io/name={NAME}"
#: Source: apimachinery v0.36.3 util/validation, IsDNS1123Subdomain.
_POD_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_LEASES: Final = (
    '  - apiGroups: ["coordination.k8s.io"]\n    resources: ["leases"]\n    verbs: ["get", "list"]'
)
_PODS: Final = '  - apiGroups: [""]\n    resources: ["pods"]\n    verbs: ["list"]'


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look."""

    namespace: str = NAME
    #: The name of the Lease; empty to find it.
    lease: str = ""
    #: Whether one in shadow mode is looked for first.
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class Leader:
    """The pod that holds the Lease."""

    namespace: str
    pod: str
    #: The name of its release, which is that of the Lease and of the Service.
    release: str


async def find(api: ApiServer, place: Place) -> Leader:
    """Return the leader.

    Raises:
        PluginError: There is none, or it cannot be found.
    """
    lease = await _lease(api, place)
    if lease is None:
        return await _only_pod(api, place)
    name = str(lease["metadata"]["name"])
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    if not holder:
        raise CommandError(
            f"no replica leads: nothing holds Lease {place.namespace}/{name}",
            "if this lasts for more than half a minute, look at the pods:\n"
            f"  kubectl get pods -n {place.namespace} -l {SELECTOR}",
        )
    pod = holder.partition("_")[0]
    if not _POD_NAME.fullmatch(pod):
        raise CommandError(
            f"Lease {place.namespace}/{name} is held by {holder!r}, which is not a pod",
            "if the scheduler runs outside of the cluster, name its address with --server URL",
        )
    return Leader(place.namespace, pod, name)


async def _lease(api: ApiServer, place: Place) -> Any:
    """Return the Lease; `None` if there is none."""
    base = f"/apis/coordination.k8s.io/v1/namespaces/{quote(place.namespace, safe='')}/leases"
    tried = (place.lease,) if place.lease else (*([SHADOW] if place.shadow else ()), NAME)
    for name in tried:
        try:
            return await api.get(f"{base}/{quote(name, safe='')}", f'leases "{name}"', _LEASES)
        except NotFound as error:
            if place.lease:
                raise CommandError(str(error), _where(place)) from error
    items = (await api.get(f"{base}?labelSelector={quote(SELECTOR, safe='')}", "leases", _LEASES))[
        "items"
    ]
    if len(items) > 1:
        names = ", ".join(each["metadata"]["name"] for each in items)
        raise CommandError(
            f"namespace {place.namespace} has several schedulers: {names}",
            "choose one with --scheduler-lease NAME",
        )
    return items[0] if items else None


async def _only_pod(api: ApiServer, place: Place) -> Leader:
    """Return the pod of a release without leader election."""
    namespace, selector = quote(place.namespace, safe=""), quote(SELECTOR, safe="")
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}"
    pods = (await api.get(path, "pods", _PODS))["items"]
    running = [each for each in pods if (each.get("status") or {}).get("phase") == "Running"]
    if len(running) == 1:
        metadata = running[0]["metadata"]
        release = (metadata.get("labels") or {}).get("app.kubernetes.io/instance", NAME)
        return Leader(place.namespace, metadata["name"], release)
    if running:
        raise CommandError(
            f"namespace {place.namespace} has {len(running)} pods of the scheduler and no Lease",
            "choose the Lease with --scheduler-lease NAME",
        )
    raise CommandError(
        f"the scheduler is not installed in namespace {place.namespace}", _where(place)
    )


def _where(place: Place) -> str:
    return (
        "if it is in another namespace, name it with --scheduler-namespace or in the environment\n"
        "variable PREEMPTIVE_SCHEDULER_NAMESPACE; this shows where its pods are:\n"
        f"  kubectl get pods -A -l {SELECTOR}\n"
        "if it runs outside of the cluster, name its address with --server URL\n"
        "to install it:\n"
        f"  helm install {NAME} charts/{NAME} --namespace {place.namespace} --create-namespace"
    )
