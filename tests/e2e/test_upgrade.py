"""Upgrade, rollback and uninstallation, as helm does them."""

import secrets
from typing import Any

from deploy.tools.controlplane.api import ApiError
from tests.e2e.measuring import tell
from tests.e2e.operating import Operator
from tests.e2e.release import Release
from tests.e2e.workloads import await_pod, bound, pod

Json = dict[str, Any]

#: A hand-over takes a try of the one that stands by; the rest is for a busy machine.
LONGEST_WAIT_SECONDS = 5.0

#: What every namespace has by itself.
NAMESPACE_OBJECTS = {"serviceaccounts/default", "configmaps/kube-root-ca.crt"}


def test_an_upgrade_leaves_no_gap_and_a_rollback_undoes_it(release, stream):
    before = {each["metadata"]["uid"] for each in release.pods()}
    config = release.values()["config"] | {"podInitialBackoffSeconds": 2}
    kept = ("--reuse-values", "--wait", "--timeout", "180s")

    release.upgrade(*kept, config=config)
    upgraded = {each["metadata"]["uid"] for each in release.await_settled()}
    stream.await_next()
    assert not before & upgraded, "pods with the old configuration are still there"
    assert configured(release) == 2
    tell(f"upgrade: longest wait of {stream.count} pods {stream.longest_so_far():.1f} s")

    release.operator.helm("rollback", release.name, "-n", release.name, "--wait")
    restored = {each["metadata"]["uid"] for each in release.await_settled()}
    stream.await_next()

    assert not upgraded & restored
    assert configured(release) is None
    tell(
        f"upgrade and rollback: longest wait of {stream.count} pods {stream.longest_so_far():.1f} s"
    )
    assert stream.longest_so_far() < LONGEST_WAIT_SECONDS


def configured(release: Release) -> int | None:
    """Return the setting that the upgrade changes, as the leader's configuration file has it."""
    file = "/etc/preemptive-scheduler/config.yaml"
    command = ("python3", "-c", f"print(open({file!r}).read())")
    text = release.operator.kubectl(
        "-n", release.name, "exec", release.await_leader(), "--", *command
    )
    _, found, rest = text.partition("podInitialBackoffSeconds: ")
    return int(rest.split()[0]) if found else None


def test_uninstalling_leaves_nothing_but_definitions(cluster, operator, image, namespace, played):
    release = Release(operator, f"e2e-{secrets.token_hex(3)}", image)
    before = everything(operator)
    release.install("--create-namespace")
    place = {"nodeSelector": played, "tolerations": [{"operator": "Exists"}]}
    path = f"/api/v1/namespaces/{namespace}/pods"
    cluster.api.post(path, pod("placed", release.name, **place))
    await_pod(cluster.api, namespace, "placed", bound)
    during = everything(operator)
    assert any("clusterroles/" in each for each in during - before)

    release.uninstall()

    # The garbage collector deletes it after its owner.
    cluster.api.wait_for(release.lease_path, lambda lease: lease is None)
    left = {each for each in everything(operator) - before if is_ours(each, release.name)}
    assert {each for each in left if "customresourcedefinitions/" not in each} == set()
    await_pod(cluster.api, namespace, "placed")
    cluster.api.delete(f"/api/v1/namespaces/{release.name}")


def everything(operator: Operator) -> set[str]:
    """Return all objects of the cluster, as namespace/resource/name."""
    api = operator.cluster.api
    found = set()
    for root in roots(api.get("/apis")):
        for resource in api.get(root)["resources"]:
            if "/" not in resource["name"] and "list" in resource["verbs"]:
                found |= listed(operator, root, resource["name"])
    return found


def roots(groups: Json) -> list[str]:
    preferred = [group["preferredVersion"]["groupVersion"] for group in groups["groups"]]
    return ["/api/v1", *(f"/apis/{version}" for version in preferred)]


def listed(operator: Operator, root: str, resource: str) -> set[str]:
    try:
        items = operator.cluster.api.items(f"{root}/{resource}")
    except ApiError:
        return set()
    metadata = [each["metadata"] for each in items]
    return {f"{each.get('namespace', '')}/{resource}/{each['name']}" for each in metadata}


def is_ours(each: str, release: str) -> bool:
    """Tell whether an object is of an installation, and not of the cluster or of another test."""
    namespace, resource, name = each.split("/", 2)
    if resource in ("events", "namespaces") or f"{resource}/{name}" in NAMESPACE_OBJECTS:
        return False
    return namespace == release or release in name or resource == "customresourcedefinitions"
