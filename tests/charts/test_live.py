"""The chart on a real API server: its objects are valid, and what it installs schedules."""

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.tools.controlplane.api import ApiClient, ApiError
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.manifests import ResourcePaths
from deploy.tools.controlplane.nodes import NodeShape
from tests.charts.rendering import (
    CHART,
    ROOT,
    VALUES,
    Helm,
    Json,
    configuration,
    container,
    of_kind,
    one,
)
from tests.integration import test_policy_admission
from tests.support.recipes import RECIPES
from tests.support.refusals import BEYOND_THE_SCHEMA, VALID_POLICIES

pytestmark = [pytest.mark.chart, pytest.mark.cluster]

QUERY = {"dryRun": "All", "fieldManager": "chart", "fieldValidation": "Strict", "force": "true"}
#: Kinds of the Prometheus operator, cert-manager and Cilium, which no API server knows by itself.
FOREIGN = ("ServiceMonitor", "PodMonitor", "PrometheusRule", "Certificate", "CiliumNetworkPolicy")
#: Of policies.
DEFINITION = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
    "preemptionpolicies.preemptive-scheduler.io"
)
#: Where one test installs the chart; no other object has the name.
RELEASE = "chart-live"


@pytest.fixture(scope="module", autouse=True)
def definition(control_plane: ControlPlane) -> Iterator[None]:
    """The definition of policies, which templates may use; tests elsewhere have none."""
    control_plane.api.apply(CHART / "crds")
    yield
    undefine(control_plane)


def undefine(cluster: ControlPlane) -> None:
    """Remove the definition of policies, and with it all policies."""
    cluster.api.delete(DEFINITION)
    cluster.api.wait_for(DEFINITION, lambda found: found is None)


@pytest.fixture
def paths(control_plane: ControlPlane) -> ResourcePaths:
    return ResourcePaths(lambda root: control_plane.api.get(root)["resources"])


@pytest.mark.parametrize("case", VALUES)
def test_the_api_server_accepts_every_object(helm, control_plane, paths, namespace, case):
    objects = helm.template(VALUES[case], namespace=namespace)
    native = [each for each in objects if each["kind"] not in FOREIGN]

    for each in native:
        accepted = control_plane.api.patch(paths.of(each), each, "apply", **QUERY)
        assert accepted["metadata"]["name"] == each["metadata"]["name"]


@pytest.mark.parametrize("case", VALUES)
def test_the_restricted_standard_admits_the_pods(helm, control_plane, case):
    namespace = f"restricted-{list(VALUES).index(case)}"
    enforce = {"pod-security.kubernetes.io/enforce": "restricted"}
    control_plane.create_namespace(namespace, enforce)
    objects = helm.template(VALUES[case], namespace=namespace)
    template = one(objects, "Deployment")["spec"]["template"]
    account = template["spec"]["serviceAccountName"]
    metadata = {"name": account, "namespace": namespace}
    control_plane.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    pod = {**template, "apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {**pod["metadata"], "name": "scheduler"}

    admitted = control_plane.api.patch(
        f"/api/v1/namespaces/{namespace}/pods/scheduler", pod, "apply", **QUERY
    )

    assert admitted["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
    control_plane.api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def installed(helm: Helm, control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """Install a release in the namespace, and uninstall it."""
    values = {"fullnameOverride": RELEASE, "config": {"profiles": [{"schedulerName": RELEASE}]}}
    where = ("--namespace", namespace, "--kubeconfig", str(control_plane.admin_kubeconfig))
    helm.run("upgrade", RELEASE, str(CHART), "--install", *where, values=values)
    yield namespace
    helm.run("uninstall", RELEASE, *where)


@pytest.fixture
def scheduler(
    helm: Helm, control_plane: ControlPlane, installed: str, tmp_path: Path
) -> Iterator[str]:
    """Run the installed scheduler on this machine."""
    start(control_plane, installed, tmp_path, RELEASE)
    yield installed
    control_plane.stop(RELEASE)


def start(cluster: ControlPlane, namespace: str, folder: Path, process: str) -> None:
    """Start a replica of what is installed: its account, its configuration, its flags."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{RELEASE}"
    objects = [cluster.api.get(path) | {"kind": "Deployment"}]
    config = folder / "config.yaml"
    config.write_text(configuration(objects))
    flags = container(objects)["args"]
    mounted = "--config=/etc/preemptive-scheduler/config.yaml"
    assert mounted in flags
    kubeconfig = cluster.service_account_kubeconfig(namespace, RELEASE)
    argv = [
        sys.executable, "-m", "scheduler.cli.main",
        *(flag for flag in flags if flag != mounted),
        f"--config={config}", f"--kubeconfig={kubeconfig}", "--secure-port=0",
    ]  # fmt: skip
    cluster.run(process, argv, {**os.environ, "PYTHONPATH": str(ROOT)})


def test_the_installed_rbac_suffices_to_schedule(control_plane, scheduler):
    label = {"chart": "live"}
    (node,) = control_plane.create_nodes(1, NodeShape(labels=label), prefix="chart-live")
    path = f"/api/v1/namespaces/{scheduler}/pods"
    spec = {
        "schedulerName": RELEASE,
        "nodeSelector": label,
        "containers": [{"name": "c", "image": "i"}],
    }

    control_plane.api.post(path, {"metadata": {"name": "first"}, "spec": spec})

    found = control_plane.api.wait_for(
        f"{path}/first", lambda pod: pod is not None and "nodeName" in pod["spec"]
    )
    assert found is not None
    assert found["spec"]["nodeName"] == node
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{scheduler}/leases/{RELEASE}"
    assert control_plane.api.get(lease)["spec"]["holderIdentity"]
    control_plane.api.delete(f"/api/v1/nodes/{node}")


def test_the_token_of_a_release_writes_only_what_the_scheduler_writes(control_plane, installed):
    path = f"/api/v1/namespaces/{installed}/pods"
    spec = {"schedulerName": RELEASE, "containers": [{"name": "c", "image": "i"}]}
    control_plane.api.post(path, {"metadata": {"name": "p"}, "spec": spec})
    kubeconfig = control_plane.service_account_kubeconfig(installed, RELEASE)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pause = threading.Event()
    denied = ""
    with ApiClient.from_kubeconfig(kubeconfig) as thief:
        for _ in range(150):
            try:
                change = {"metadata": {"labels": {"a": "b"}}}
                thief.patch(f"{path}/p/status", change, dryRun="All")
            except ApiError as error:
                denied = error.message
                break
            pause.wait(0.1)
        thief.patch(f"{path}/p/status", {"status": {"conditions": [condition]}}, "strategic")

    assert f"ValidatingAdmissionPolicy '{RELEASE}-own-writes'" in denied


def test_uninstalling_removes_everything_but_the_definition_of_policies(
    helm, control_plane, paths, namespace
):
    values = {**VALUES["bounded"], "fullnameOverride": RELEASE}
    undefine(control_plane)
    where = ("--namespace", namespace, "--kubeconfig", str(control_plane.admin_kubeconfig))
    objects = helm.template(values, release=RELEASE, namespace=namespace)

    helm.run("upgrade", RELEASE, str(CHART), "--install", *where, values=values)
    assert exists(control_plane, DEFINITION)
    assert all(exists(control_plane, paths.of(each)) for each in objects)
    helm.run("uninstall", RELEASE, "--wait", *where)

    assert [each["kind"] for each in objects if exists(control_plane, paths.of(each))] == []
    assert of_kind(objects, "ClusterRole")
    assert exists(control_plane, DEFINITION)


def exists(cluster: ControlPlane, path: str) -> Json | None:
    """Return an object, `None` if there is none."""
    collection, name = path.rsplit("/", 1)
    return next(iter(cluster.api.items(collection, fieldSelector=f"metadata.name={name}")), None)


def admission(helm: Helm, values: dict[str, object], suffix: str) -> list[Json]:
    """Return an admission policy of a release, and its binding."""
    policies = (
        each
        for each in helm.template(values)
        if each["kind"].startswith("ValidatingAdmissionPolicy")
    )
    found = [each for each in policies if each["metadata"]["name"] == f"{RELEASE}-{suffix}"]
    assert len(found) == 2
    return found


@pytest.fixture
def judged(helm: Helm, control_plane: ControlPlane, paths: ResourcePaths) -> Iterator[None]:
    """The API server validates policies as the chart configures it."""
    values = {"fullnameOverride": RELEASE, "policyAdmission": {"enabled": True}}
    objects = admission(helm, values, "policies")
    for each in objects:
        control_plane.api.apply(each)
    wrong = next(iter(BEYOND_THE_SCHEMA))
    pause = threading.Event()
    for _ in range(150):
        if refusal(control_plane, wrong):
            break
        pause.wait(0.2)
    yield
    for each in objects:
        control_plane.api.delete(paths.of(each))


def refusal(cluster: ControlPlane, spec: str) -> str:
    """Return why the API server refuses a policy, empty if it does not."""
    try:
        test_policy_admission.submitted(cluster, spec)
    except ApiError as error:
        return f"{error.status} {error.message}"
    return ""


def test_the_admission_policy_refuses_what_the_scheduler_would_refuse_and_nothing_else(
    control_plane, judged
):
    told = {spec: refusal(control_plane, spec) for spec in BEYOND_THE_SCHEMA}

    assert [
        spec
        for spec, message in told.items()
        if not (message.startswith("422 ") and "ValidatingAdmissionPolicy" in message)
    ] == []
    assert "spec has no such fields: maxVictimPerPreemption" in next(iter(told.values()))
    recipes = map(test_policy_admission.spec_of, RECIPES)
    right = {spec: refusal(control_plane, spec) for spec in (*VALID_POLICIES, *recipes)}
    assert [message for message in right.values() if message] == []
    assert refusal(control_plane, "{stop: true, maxVictimPerPreemption: 1}") == ""


@pytest.fixture
def admitted(helm: Helm, control_plane: ControlPlane, paths: ResourcePaths) -> Iterator[None]:
    """The API server admits pods as the chart has it do."""
    values = {
        "fullnameOverride": RELEASE,
        "config": {"profiles": [{"schedulerName": RELEASE}]},
        "podAdmission": {
            "enabled": True,
            "namespaces": ["admission-named"],
            "namespaceLabels": {"use": "it", "tier": "batch"},
            "priorityClasses": [{"names": ["system-node-critical"], "namespaces": ["no-such"]}],
        },
    }
    objects = admission(helm, values, "pods")
    for name, labels in ADMISSION.items():
        control_plane.create_namespace(name, labels)
    for each in objects:
        control_plane.api.apply(each)
    pause = threading.Event()
    for _ in range(150):
        if denial(control_plane, "admission-other"):
            break
        pause.wait(0.2)
    yield
    for each in objects:
        control_plane.api.delete(paths.of(each))
    for name in ADMISSION:
        control_plane.api.delete(f"/api/v1/namespaces/{name}")


#: Namespaces by name, with their labels.
ADMISSION = {
    "admission-named": {},
    "admission-labelled": {"use": "it", "tier": "batch"},
    "admission-half": {"use": "it"},
    "admission-other": {},
}


def denial(
    cluster: ControlPlane, namespace: str, scheduler: str = RELEASE, priority_class: str = ""
) -> str:
    """Return why the API server refuses a pod, empty if it does not; the pod is not stored."""
    spec = {
        "schedulerName": scheduler,
        "priorityClassName": priority_class,
        "containers": [{"name": "c", "image": "i"}],
    }
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": spec,
    }
    path = f"/api/v1/namespaces/{namespace}/pods/p"
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    cluster.api.wait_for(account, lambda found: found is not None)
    try:
        cluster.api.patch(path, document, "apply", **QUERY)
    except ApiError as error:
        return f"{error.status} {error.message}"
    return ""


def test_pods_use_the_scheduler_and_priority_classes_only_where_they_are_allowed(
    control_plane, admitted
):
    told = {name: denial(control_plane, name) for name in ADMISSION}

    assert [name for name, message in told.items() if not message] == [
        "admission-named",
        "admission-labelled",
    ]
    assert told["admission-half"].startswith("403 ")
    assert (
        f"pods of namespace admission-half may not use the scheduler {RELEASE}"
        in told["admission-half"]
    )
    assert denial(control_plane, "admission-other", scheduler="default-scheduler") == ""
    critical = {"priority_class": "system-node-critical"}
    assert (
        "pods of namespace admission-named may not use the PriorityClass system-node-critical"
        in denial(control_plane, "admission-named", **critical)
    )
    assert denial(control_plane, "admission-named", "default-scheduler", **critical) == ""


def test_a_definition_in_a_release_is_upgraded_and_removed_or_kept_with_it(
    helm, control_plane, namespace
):
    undefine(control_plane)
    where = ("--namespace", namespace, "--kubeconfig", str(control_plane.admin_kubeconfig))
    values = {"fullnameOverride": RELEASE, "crds": {"enabled": True}}
    install = ("upgrade", RELEASE, str(CHART), "--install", "--skip-crds", *where)

    helm.run(*install, values=values)
    assert exists(control_plane, DEFINITION)
    with_policies = {**values, **VALUES["bounded"]}
    helm.run(*install, values=with_policies)
    helm.run("uninstall", RELEASE, "--wait", *where)
    assert exists(control_plane, DEFINITION)

    helm.run(
        *install, "--take-ownership", values={**values, "crds": {"enabled": True, "keep": False}}
    )
    helm.run("uninstall", RELEASE, "--wait", *where)
    assert exists(control_plane, DEFINITION) is None
    control_plane.api.apply(CHART / "crds")
