"""What an operator gets wrong: it is said at once, named, and does not take down what runs."""

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.operating import Cluster, CommandError, Operator
from tests.e2e.release import Release, ready
from tests.e2e.workloads import await_pod, bound, pod

Json = dict[str, Any]


def test_a_broken_configuration_is_named_and_the_old_pods_go_on(
    cluster: Cluster, release: Release, namespace: str, played: dict[str, str]
):
    before = {each["metadata"]["name"] for each in release.pods()}
    plugins = {"filter": {"enabled": [{"name": "NoSuchPlugin"}]}}
    profile = {"schedulerName": release.name, "plugins": plugins}

    release.upgrade("--reuse-values", config={"profiles": [profile]})
    try:
        pods = release.await_pods(lambda pods: any(map(crashed, pods)))
        (broken,) = (each for each in pods if crashed(each))
        assert "NoSuchPlugin" in (last_words(broken) or "")
        names = {each["metadata"]["name"] for each in release.pods()}
        assert before < names
        place = {"nodeSelector": played, "tolerations": [{"operator": "Exists"}]}
        path = f"/api/v1/namespaces/{namespace}/pods"
        cluster.api.post(path, pod("placed", release.name, **place))
        await_pod(cluster.api, namespace, "placed", bound)
        # One of the old pods that is restarted comes back: it has its own configuration.
        leader = release.await_leader()
        end = ("python3", "-c", "import os; os.kill(1, 15)")
        release.operator.kubectl("-n", release.name, "exec", leader, "--", *end)
        release.await_pods(lambda pods: leader in map(name, filter(restarted, pods)))
    finally:
        release.operator.helm("rollback", release.name, "-n", release.name, "--wait")

    # The rollback finds the old pods, as nothing has replaced them.
    assert {each["metadata"]["name"] for each in release.await_settled()} == before


def restarted(pod: Json) -> bool:
    """Tell whether the container of a pod was started again, and is ready."""
    return ready(pod) and any(
        status["restartCount"] for status in pod["status"]["containerStatuses"]
    )


def name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def crashed(pod: Json) -> bool:
    """Tell whether the container of a pod has ended at least once."""
    return last_words(pod) is not None


def last_words(pod: Json) -> str | None:
    """Return what `kubectl describe` shows of the end of a pod's container, if it has ended."""
    for status in pod["status"].get("containerStatuses") or ():
        for state in (status["lastState"], status["state"]):
            if "terminated" in state:
                return str(state["terminated"].get("message"))
    return None


@pytest.fixture
def without_rights(operator: Operator, image: Json) -> Iterator[Release]:
    """A release whose ClusterRole lacks one rule."""
    release = Release(operator, f"e2e-{secrets.token_hex(3)}", image)
    release.install(replicaCount=1)
    yield release
    release.uninstall()
    operator.cluster.api.delete(f"/api/v1/namespaces/{release.name}")


def test_a_missing_right_makes_it_unready_and_is_named(without_rights: Release):
    release = without_rights
    (old,) = release.pods()
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{release.name}"
    role = release.api.get(path)
    for rule in role["rules"]:
        rule["resources"] = [each for each in rule["resources"] if each != "storageclasses"]
    release.api.put(path, role)

    release.operator.kubectl("-n", release.name, "delete", "pod", old["metadata"]["name"])
    (pod,) = release.await_pods(lambda pods: len(pods) == 1 and all(map(running, pods)))

    status, text = eventually_unready(release, pod["metadata"]["name"])
    assert status == 500
    assert "[-]informer-sync failed" in text
    assert "storageclasses" in text
    assert "forbidden" in text


def running(pod: Json) -> bool:
    """Tell whether the container of a pod runs."""
    statuses = pod["status"].get("containerStatuses") or ()
    return bool(statuses) and all("running" in status["state"] for status in statuses)


def eventually_unready(release: Release, pod: str) -> tuple[int, str]:
    """Return what /readyz says once it says more than that nothing was read yet."""
    told: tuple[int, str] = (0, "")
    for _ in range(60):
        try:
            told = release.page(pod, "/readyz?verbose")
        except (CommandError, OSError):  # it does not listen yet
            continue
        if "forbidden" in told[1]:
            break
    return told
