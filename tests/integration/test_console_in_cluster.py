"""The console for all users of a cluster: a process without rights, before real schedulers."""

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.integration.access import EVERYWHERE, RBAC, until_status
from tests.integration.objects import pod
from tests.integration.test_leadership import ELECTION, forget_lease
from tests.support.certificates import Authority
from tests.support.live import COMMAND, LOOPBACK, PATIENCE_SECONDS, ROOT, WITH_US, free_port

pytestmark = pytest.mark.cluster

#: What readers of the API need, as the chart's ClusterRole of viewers has it.
VIEWER: Final = ("/preemptive-scheduler/api/v1", "/preemptive-scheduler/api/v1/*")


class ConsoleProcess:
    """`preemptive-scheduler console`, and a browser of it."""

    def __init__(self, folder: Path, authority: Authority, schedulers: list[Any]) -> None:
        self.port = free_port()
        self.origin = f"http://{LOOPBACK}:{self.port}"
        self.cookie = ""
        self._log = (folder / "console.log").open("w+b")
        self._process = subprocess.Popen(
            [
                sys.executable, "-I", "-S", "-c", WITH_US, COMMAND, "console", "--url", self.origin,
                *(f"--scheduler=https://{LOOPBACK}:{each.port}" for each in schedulers),
                "--certificate-authority", authority.certificate, "--tls-server-name", "kubernetes",
                "--port", str(self.port),
            ],
            cwd=ROOT,
            stderr=self._log,
        )  # fmt: skip

    def ask(
        self, method: str, path: str, body: str = "", **headers: str
    ) -> tuple[int, str, http.client.HTTPMessage]:
        """Send a request with the cookie."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=PATIENCE_SECONDS)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, {"Cookie": self.cookie, **named})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers
        finally:
            connection.close()

    def sign_in(self, token: str) -> tuple[int, str]:
        """Send the form; keep the cookie."""
        status, text, headers = self.ask(
            "POST", "/session", urlencode({"token": token}), Origin=self.origin,
            Content_Type="application/x-www-form-urlencoded",
        )  # fmt: skip
        self.cookie = headers.get("Set-Cookie", "").partition(";")[0]
        return status, text

    def until(self, path: str, wanted: int) -> Any:
        """Ask until the answer has this status; return the document."""
        pause = threading.Event()
        for _ in range(int(PATIENCE_SECONDS * 2)):
            try:
                status, text, _ = self.ask("GET", path)
            except ConnectionError:
                status, text = 0, "it does not listen yet"
            if status == wanted:
                return json.loads(text) if text.startswith("{") else text
            pause.wait(0.5)
        raise TimeoutError(f"{path}: {status} {text}")

    def log(self) -> str:
        """Return what it has logged."""
        self._log.seek(0)
        return self._log.read().decode()

    def close(self) -> int:
        """End it, and return its exit code."""
        self._process.terminate()
        code = self._process.wait(PATIENCE_SECONDS)
        sys.stdout.write(self.log())
        self._log.close()
        return code


@pytest.fixture
def authority(tmp_path) -> Authority:
    """What has signed the certificate of the schedulers."""
    return Authority(tmp_path / "authority")


@pytest.fixture
def replicas(plane, schedulers, authority) -> list[Any]:
    """A leader, and a replica that stands by."""
    forget_lease(plane)
    folder = authority.folder
    pair = [f"--tls-cert-file={folder}/server.crt", f"--tls-private-key-file={folder}/server.key"]
    leader = schedulers.start(*EVERYWHERE, *pair, config=ELECTION)
    leader.wait_log("became_leader")
    standby = schedulers.start(*EVERYWHERE, *pair, config=ELECTION)
    for each in (leader, standby):
        each.wait_log("serving")
    return [leader, standby]


@pytest.fixture
def console(tmp_path, authority, replicas) -> Iterator[ConsoleProcess]:
    """The console. The standby is named first, so the leader is not just the first."""
    process = ConsoleProcess(tmp_path, authority, replicas[::-1])
    process.until("/healthz", 200)
    yield process
    assert process.close() == 0


@pytest.fixture
def allow(plane, namespace) -> Iterator[Any]:
    """A function that lets a ServiceAccount get the pods of a namespace."""
    made = []

    def give(account: str, where: str) -> None:
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        base = f"{RBAC}/namespaces/{where}"
        plane.api.post(f"{base}/roles", {"metadata": {"name": account}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
        binding = {"metadata": {"name": account}, "roleRef": role, "subjects": [subject]}
        plane.api.post(f"{base}/rolebindings", binding)
        made.extend((f"{base}/rolebindings/{account}", f"{base}/roles/{account}"))

    yield give
    for path in made:
        plane.api.delete(path)


@pytest.fixture
def elsewhere(plane, namespace, replicas) -> Iterator[str]:
    """Another namespace, with a pod that waits."""
    name = f"{namespace}-elsewhere"
    plane.create_namespace(name)
    waits = pod("theirs", "64", "low")
    waits["metadata"] = {**waits["metadata"], "namespace": name}
    waits["spec"] = {**waits["spec"], "schedulerName": replicas[0].name}
    plane.api.post(f"/api/v1/namespaces/{name}/pods", waits)
    replicas[0].wait_log("pod_unschedulable", pod=f"{name}/theirs")
    yield name
    plane.api.delete(f"/api/v1/namespaces/{name}")


def test_each_user_sees_the_own_namespaces_and_a_change_of_the_leader_ends_no_session(
    scene, namespace, elsewhere, replicas, console, token, grant, allow
):
    leader, standby = replicas
    reader, stranger = token("reader"), token("stranger")
    grant("reader", *VIEWER)
    allow("reader", namespace)
    until_status(leader, "/api/v1", reader, 200)
    scene.create(pod("mine", "64", "low"))
    scene.wait_rejected("mine")

    assert console.ask("GET", "/api/v1/pods")[0] == 401
    assert console.sign_in(stranger)[0] == 403
    assert console.sign_in(f"{reader}x")[0] == 401
    assert console.sign_in(reader)[0] == 303

    index = console.until("/api/v1", 200)
    assert index["leader"]
    assert index["user"] == f"system:serviceaccount:{namespace}:reader"
    shown = console.until("/api/v1/pods", 200)
    names = {(each["pod"]["namespace"], each["pod"]["name"]) for each in shown["items"]}
    assert names == {(namespace, "mine")}
    assert shown["hidden"] == 1
    assert elsewhere not in json.dumps(shown)
    assert console.ask("GET", f"/api/v1/pods/{elsewhere}/theirs")[0] == 403

    leader.kill()
    standby.wait_log("became_leader")
    index = console.until("/api/v1/summary", 200)
    assert index["leader"]
    assert console.ask("GET", f"/api/v1/pods/{namespace}/mine")[0] == 200
    log = console.log()
    assert log.count('"leader_found"') == 2
    assert reader not in log
    assert console.cookie.partition("=")[2] not in log


def test_a_token_that_is_revoked_ends_the_session(
    plane, namespace, replicas, console, token, grant
):
    reader = token("reader")
    grant("reader", *VIEWER)
    until_status(replicas[0], "/api/v1", reader, 200)
    assert console.sign_in(reader)[0] == 303

    plane.api.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/reader")

    console.until("/api/v1/summary", 401)
    assert "Your session has ended" in console.ask("GET", "/api/v1/summary")[1]
    assert "Your session has ended" in console.ask("GET", "/")[1]
