"""The plugin on a real API server: its Lease, its rights, and a real port-forward.

KWOK serves the port-forward with the kubelet's own code, and forwards to a stand-in of the
scheduler's pages.
"""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest
import yaml

from deploy.tools.controlplane import binaries, components
from scheduler.kubectl.errors import CommandError
from tests.kubectl.conftest import authority, run, scheduler  # noqa: F401 - fixtures
from tests.support.api_stand_in import RECORDING, serving

pytestmark = pytest.mark.cluster

RBAC = "/apis/rbac.authorization.k8s.io/v1"
LEASES = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list"]}
FORWARD = {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["create", "get"]}
STAGES = Path(components.__file__).with_name("kwok.yaml")


@pytest.fixture
async def pages(authority, scheduler):  # noqa: F811 - fixtures
    """The port of a stand-in of the scheduler's pages."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.folder / "server.crt", authority.folder / "server.key")
    async with serving(scheduler, context=context) as url:
        yield int(url.rpartition(":")[2])


@pytest.fixture
def kubelet(plane, namespace, pages, authority, tmp_path):  # noqa: F811 - fixtures
    """A node whose kubelet forwards port 10259 of any pod to the pages."""
    port = _free_port()
    target = {"address": "127.0.0.1", "port": pages}
    forward = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterPortForward",
        "metadata": {"name": "pages"},
        "spec": {"forwards": [{"ports": [10259], "target": target}]},
    }
    settings, *stages = yaml.safe_load_all(STAGES.read_text())  # it does not start without stages
    settings["options"]["enableDebuggingHandlers"] = True
    config = tmp_path / "kwok.yaml"
    config.write_text(yaml.safe_dump_all([settings, *stages, forward]))
    name = f"kubelet-{namespace}"
    plane.run(name, [
        binaries.find("kwok"),
        f"--config={config}", f"--kubeconfig={plane.admin_kubeconfig}",
        "--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=example.com/none=none",
        f"--server-address=127.0.0.1:{port}",
        f"--tls-cert-file={authority.folder / 'server.crt'}",
        f"--tls-private-key-file={authority.folder / 'server.key'}",
    ])  # fmt: skip
    node = {
        "metadata": {"name": name},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        },
    }
    plane.api.post("/api/v1/nodes", node)
    yield name
    plane.api.delete(f"/api/v1/nodes/{name}")
    plane.stop(name)


@pytest.fixture
def leader(plane, namespace, kubelet):
    """A pod on that node that holds the Lease."""
    spec = {"nodeName": kubelet, "containers": [{"name": "scheduler", "image": "none"}],
            "tolerations": [{"operator": "Exists"}]}  # fmt: skip
    plane.api.post(
        f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "leader"}, "spec": spec}
    )
    lease = {"metadata": {"name": "preemptive-scheduler"}, "spec": {"holderIdentity": "leader_1"}}
    plane.api.post(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease)
    return "leader"


@pytest.fixture
def user(plane, namespace):
    """A function that returns the kubeconfig of a user with some rules in the namespace."""

    def make(*rules):
        name = f"user-{len(rules)}"
        api = plane.api
        api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        metadata = {"metadata": {"name": name}}
        roles = f"{RBAC}/namespaces/{namespace}"
        api.post(f"{roles}/roles", {**metadata, "rules": list(rules)})
        binding = {
            **metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        api.post(f"{roles}/rolebindings", binding)
        return str(plane.service_account_kubeconfig(namespace, name))

    return make


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


async def until_done(run, *argv):  # noqa: F811 - an argument
    """Run a command until it succeeds: rights are applied, and KWOK listens, a little later."""
    for _ in range(100):
        try:
            return await run(*argv)
        except CommandError as error:
            problem = error
            await asyncio.sleep(0.1)
    raise problem


async def test_the_leader_is_reached_through_the_api_server(
    run, namespace, leader, user, tmp_path  # noqa: F811 - a fixture
):  # fmt: skip
    flags = ["--scheduler-namespace", namespace, "--kubeconfig", user(LEASES, FORWARD)]

    printed = await until_done(run, "version", *flags)
    await run("record", "-o", str(tmp_path / "a.rec"), *flags)

    assert "decides as kube-scheduler v1.37" in printed.text
    assert (tmp_path / "a.rec").read_bytes() == RECORDING
