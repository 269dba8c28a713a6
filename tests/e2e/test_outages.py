"""Parts of the cluster are replaced while the scheduler runs."""

import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.measuring import tell
from tests.e2e.operating import CommandError, Operator
from tests.e2e.release import Release
from tests.e2e.workloads import Stream, pod_spec

Json = dict[str, Any]

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
PYTHON = "/opt/app/bin/python"
PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.5
#: Waits in the pod until the kubelet has put another token there.
AWAIT_ANOTHER = f"""
import sys, time
while open({TOKEN!r}).read() == sys.argv[1]:
    time.sleep(0.5)
"""


def token(release: Release, pod: str) -> str:
    """Return the token that a pod of the scheduler has."""
    return run(release, pod, f"print(open({TOKEN!r}).read(), end='')")


def run(release: Release, pod: str, program: str, *arguments: str) -> str:
    """Run a program in the container of a pod, once its kubelet knows the pod again."""
    flags = ("-n", release.name, "exec", pod, "--")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return release.operator.kubectl(*flags, PYTHON, "-c", program, *arguments)
        except CommandError as error:
            if "unable to upgrade connection" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_SECONDS)


def restarts(release: Release) -> dict[str, int]:
    """Return how often the container of each pod of the scheduler was started anew."""
    return {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"]
        for pod in release.pods()
    }


@pytest.fixture
def patient(operator: Operator, image: Json) -> Iterator[Release]:
    """A release that keeps its lease while the API server is started anew."""
    release = Release(operator, f"e2e-{secrets.token_hex(3)}", image)
    slow = {"leaseDuration": "120s", "renewDeadline": "90s", "retryPeriod": "2s"}
    release.install(replicaCount=1, leaderElection=slow)
    release.await_settled(1)
    yield release
    release.uninstall()
    operator.cluster.api.delete(f"/api/v1/namespaces/{release.name}")


def test_a_new_token_is_used_before_the_old_one_ends(cluster, patient, namespace, played):
    """The key that signs tokens is replaced, as an administrator would do it."""
    release = patient
    before = restarts(release)
    old = {pod: token(release, pod) for pod in before}
    spec = pod_spec(release.name, nodeSelector=played, tolerations=[{"operator": "Exists"}])

    with Stream(cluster.api, namespace, spec) as stream:
        began = time.monotonic()
        try:
            cluster.change_token_key()
        except NotImplementedError as error:
            pytest.skip(str(error))
        tell(f"the API server has a new key after {time.monotonic() - began:.1f} s")
        for node in cluster.nodes:
            cluster.restart_kubelet(node)  # it asks for new tokens when it starts
        for pod, shown in old.items():
            run(release, pod, AWAIT_ANOTHER, shown)
        tell(f"its pod has a new token after {time.monotonic() - began:.1f} s")
        cluster.drop_old_token_key()
        stream.await_next()

    tell(f"key replaced: longest wait of {stream.count} pods {stream.longest_so_far():.1f} s")
    assert restarts(release) == before, "it had to start anew"
