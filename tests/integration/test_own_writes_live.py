"""A stolen token of the scheduler: the API server refuses every write that the code does not make.

All requests are sent with the token of our ServiceAccount, and with dryRun. All other tests of this
folder run under the same policy, so it refuses nothing that the scheduler does.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.tools.controlplane.api import ApiClient, ApiError
from deploy.tools.controlplane.cluster import ControlPlane
from scheduler.model.api.devices import DELETE_PROTECTION
from tests.integration.objects import HANGS, Json, own_writes, pod
from tests.integration.scene import Scene
from tests.integration.stolen_token import (
    ATTACKS,
    CONFIG_MAPS,
    CROWD,
    FOREIGN,
    LEASES,
    MAX_CONSUMERS,
    OURS,
    REMAINS,
    SPEC,
    TOO_MANY,
    US,
    Request,
    event,
    reserved,
)

pytestmark = pytest.mark.cluster

POLICY: Final = f"{US}-own-writes"
POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
DENIED: Final = f"ValidatingAdmissionPolicy '{POLICY}' with binding '{POLICY}' denied request: "


@pytest.fixture
def thief(kubeconfig: Path, plane: ControlPlane, scene: Scene) -> Iterator[ApiClient]:
    """A client with our token, once the policy is in force."""
    with ApiClient.from_kubeconfig(kubeconfig) as client:
        scene.create(pod("probe"))
        pause = threading.Event()
        for _ in range(150):
            if said(client, ATTACKS["end a pod"]._replace(path=f"{scene.path('probe')}/status")):
                break
            pause.wait(0.1)
        yield client


@pytest.fixture
def places(scene: Scene) -> Iterator[Mapping[str, str]]:
    """Objects to attack, and their paths."""
    api, namespace = scene.api, scene.namespace
    paths = {
        "namespace": namespace,
        "pods": f"/api/v1/namespaces/{namespace}/pods",
        "claims": f"/api/v1/namespaces/{namespace}/persistentvolumeclaims",
        "events": f"/apis/events.k8s.io/v1/namespaces/{namespace}/events",
        "devices": f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims",
        "volumes": "/api/v1/persistentvolumes",
    }
    node = scene.node()
    mirror = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}
    scene.run(
        pod("runs", "100m", "low", on=node, labels={"app": "web"}, by=FOREIGN),
        pod("ends", "100m", "low", on=node, annotations=HANGS),
        pod("system", "100m", "system-cluster-critical", on=node),
        pod("static", "100m", "low", on=node, annotations=mirror, by=FOREIGN),
    )
    scene.create(pod("waits"), pod("foreign", by=FOREIGN))
    _crowd(scene, paths)
    api.delete(scene.path("ends"))
    own = pod("own", serviceAccountName=US, schedulerName=FOREIGN)
    own["spec"]["containers"][0]["securityContext"] = _RESTRICTED
    api.post(f"/api/v1/namespaces/{US}/pods", own)
    for name, reference in {
        "taken": {"namespace": "tenant", "name": "data", "uid": "uid-data"},
        # Of a claim that does not exist: a controller would bind it.
        "named": {"namespace": namespace, "name": "later"},
        "free": None,
    }.items():
        api.post(paths["volumes"], _volume(f"{namespace}-{name}", reference))
    api.post(paths["claims"], _claim("data"))
    # A controller takes away consumers that do not exist, but not those of a foreign group.
    for name, consumers in {
        "shared": reserved("a", "b", group="x.y"),
        "full": reserved(*map(str, range(MAX_CONSUMERS - 1)), group="x.y"),
    }.items():
        metadata = {"name": name, "finalizers": [DELETE_PROTECTION]}
        api.post(paths["devices"], {"metadata": metadata, "spec": SPEC})
        change = {"status": {"allocation": _ALLOCATION, "reservedFor": consumers}}
        api.patch(f"{paths['devices']}/{name}/status", change)
    theirs = event("theirs", FOREIGN).body
    api.post(paths["events"], _filled(theirs, paths))
    yield paths
    api.delete(f"/api/v1/namespaces/{US}/pods/own", gracePeriodSeconds="0")
    for name in ("taken", "named", "free"):
        with contextlib.suppress(ApiError):
            api.patch(f"{paths['volumes']}/{namespace}-{name}", {"metadata": {"finalizers": None}})
            api.delete(f"{paths['volumes']}/{namespace}-{name}")
    for path in ("devices}/shared", "devices}/full", "devices}/crowded", "pods}/crowded"):
        api.patch(f"{{{path}".format(**paths), {"metadata": {"finalizers": None}})


def _crowd(scene: Scene, paths: Mapping[str, str]) -> None:
    """Create objects whose metadata is as large as a tenant can make it."""
    names = [f"a.b/{i:x}" for i in range(CROWD)]
    crowded = pod("crowded", by=FOREIGN, labels=dict.fromkeys(names, ""))
    crowded["metadata"] |= {"annotations": {name[4:]: "" for name in names}, "finalizers": names}
    scene.create(crowded)
    many = names[:TOO_MANY]
    scene.api.post(paths["claims"], _claim("crowded", dict.fromkeys(many, "")))
    metadata = {"name": "crowded", "finalizers": many}
    scene.api.post(paths["devices"], {"metadata": metadata, "spec": SPEC})


_RESTRICTED: Final = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_ALLOCATION: Final = {
    "devices": {"results": [{"request": "r", "driver": "d.x", "pool": "p", "device": "d"}]}
}


def _volume(name: str, reference: Json | None) -> Json:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "d", "volumeHandle": "h"},
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": f"{name}-none",
    }
    metadata = {"name": name, "finalizers": ["kubernetes.io/pv-protection"]}
    return {"metadata": metadata, "spec": spec | ({"claimRef": reference} if reference else {})}


def _claim(name: str, annotations: Mapping[str, str] | None = None) -> Json:
    storage = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": storage, "storageClassName": "no-such"}
    return {"metadata": {"name": name, "annotations": dict(annotations or {})}, "spec": spec}


def _filled(value: Any, places: Mapping[str, str]) -> Any:
    """Return a text, or a body, with its places filled in."""
    if isinstance(value, str):
        return value.replace("{namespace}", places["namespace"])
    if isinstance(value, Mapping):
        return {key: _filled(each, places) for key, each in value.items()}
    return value


def said(client: ApiClient, request: Request) -> str:
    """Return why a request is refused; empty if it is not. It changes nothing."""
    body = dict(request.body)
    try:
        if request.verb == "create":
            client.post(f"{request.path}?dryRun=All", body)
        elif request.verb == "delete":
            client.delete(request.path, body | {"dryRun": ["All"]})
        else:
            client.patch(request.path, body, request.verb, dryRun="All")
    except ApiError as error:
        return f"{error.status} {error.message}"
    return ""


def answers(
    client: ApiClient, requests: Mapping[str, Request], places: Mapping[str, str]
) -> dict[str, str]:
    """Return what the API server says to each request, without what is the same in all refusals."""
    found = {}
    own = places["volumes"] + "/"
    for goal, request in requests.items():
        path = request.path.format(**places).replace(own, f"{own}{places['namespace']}-")
        body = _filled(request.body, places)
        text = said(client, request._replace(path=path, body=body))
        status, _, reason = text.partition(DENIED)
        found[goal] = reason.removeprefix("the scheduler ") if status.startswith("403 ") else text
    return found


def test_every_write_that_the_code_does_not_make_is_refused_to_us_and_to_nobody_else(
    plane, thief, places
):
    tried = {**ATTACKS, **OURS, **REMAINS}
    kept = (f"{US}-ledger", f"{US}-history-7", f"{US}-history-attempts")
    for left in (f"{LEASES}/{US}", *(f"{CONFIG_MAPS}/{name}" for name in kept)):
        with contextlib.suppress(ApiError):  # there is none, unless a scheduler ran before
            plane.api.delete(left)

    found = answers(thief, tried, places)
    others = answers(plane.api, ATTACKS, places)

    says = {goal: request.says for goal, request in tried.items()}
    wrong = {
        goal: text
        for goal, text in found.items()
        if not (text.startswith(says[goal]) if says[goal] else text == "")
    }
    assert wrong == {}
    assert [goal for goal, text in others.items() if text.startswith(says[goal]) and text] == []


def test_the_ledger_stays_one_that_can_be_written(plane, thief):
    ledger = f"{CONFIG_MAPS}/{US}-ledger"
    with contextlib.suppress(ApiError):  # there is one, if a scheduler ran before
        plane.api.post(CONFIG_MAPS, {"metadata": {"name": f"{US}-ledger"}})

    refused = said(thief, Request("merge", ledger, {"immutable": True}))

    assert refused.endswith(f"{DENIED}the scheduler makes nothing immutable")
    assert said(thief, Request("merge", ledger, {"data": {"a": "b"}})) == ""
    plane.api.delete(ledger)


def test_a_policy_that_cannot_be_evaluated_stops_the_scheduler_and_nobody_else(plane, scene):
    policy, bound = own_writes()
    policy["metadata"]["name"] = bound["metadata"]["name"] = name = f"broken-{scene.namespace}"
    bound["spec"]["policyName"] = name
    condition = policy["spec"]["matchConditions"][0]
    us = f"system:serviceaccount:{US}:{US}"
    condition["expression"] = condition["expression"].replace(us, "thief")
    policy["spec"]["variables"][0]["expression"] = "[oldObject.spec.noSuchField]"
    scene.create(pod("p", by=FOREIGN))
    nominates = ATTACKS["nominate a pod of another scheduler"]
    request = nominates._replace(path=f"{scene.path('p')}/status")
    pause = threading.Event()
    with ApiClient.from_kubeconfig(plane.kubeconfig_for("thief", "system:masters")) as client:
        plane.api.apply([policy, bound])
        try:
            for _ in range(150):
                if refusal := said(client, request):
                    break
                pause.wait(0.1)
            assert "noSuchField" in refusal
            assert said(plane.api, request) == ""
        finally:
            plane.api.delete(f"{BINDINGS}/{name}")
            plane.api.delete(f"{POLICIES}/{name}")


def test_the_api_server_finds_no_mistake_in_the_policy(plane):
    found = plane.api.wait_for(
        f"{POLICIES}/{POLICY}",
        lambda policy: policy is not None and "observedGeneration" in policy.get("status", {}),
    )

    assert found is not None
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
    assert found["status"]["typeChecking"] == {}
