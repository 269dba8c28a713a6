"""What an operator gets wrong: it is said at once, named, and does not take down what runs."""

from typing import Any

from tests.e2e.release import ready
from tests.e2e.workloads import await_pod, bound, pod

Json = dict[str, Any]


def test_a_broken_configuration_is_named_and_the_old_pods_go_on(
    cluster, release, namespace, played
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


def running(pod: Json) -> bool:
    """Tell whether the container of a pod runs."""
    statuses = pod["status"].get("containerStatuses") or ()
    return bool(statuses) and all("running" in status["state"] for status in statuses)
