"""A real Prometheus that scrapes the scheduler's pods with the token of an account of its own."""

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.tools.controlplane.api import ApiClient
from tests.e2e.release import PORT, Release

Json = dict[str, Any]

#: Whose token Prometheus shows; the chart gives it the right to read metrics.
READER: Final = {"kind": "ServiceAccount", "name": "prometheus", "namespace": "e2e-monitoring"}

SCRAPE_SECONDS: Final = 1
PATIENCE_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 0.2


def tool(name: str) -> str:
    """Return the path of prometheus or promtool."""
    path = shutil.which(name)
    assert path is not None, f"{name} is not on PATH (Debian: prometheus)"
    return path


def token(api: ApiClient, account: Mapping[str, str]) -> str:
    """Return a fresh token of an account, which is made with its namespace if it is missing."""
    namespace, name = account["namespace"], account["name"]
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    metadata = {"name": name, "namespace": namespace}
    api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    made: str = api.post(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    return made


class Prometheus:
    """A server that is running."""

    def __init__(self, port: int) -> None:
        self._port = port

    def get(self, path: str, **query: str) -> Any:
        """Return the data of an answer of its API."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request("GET", f"/api/v1/{path}?{urllib.parse.urlencode(query)}")
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        assert answer["status"] == "success", answer
        return answer["data"]

    def value(self, expression: str) -> float:
        """Return the value of an expression that yields one number; nothing counts as 0."""
        found = self.get("query", query=expression)["result"]
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else 0.0

    def await_value(self, expression: str, wanted: float) -> None:
        """Wait until an expression has a value: one scrape, or two."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (value := self.value(expression)) != wanted:
            assert time.monotonic() < deadline, f"{expression} is {value:g}, not {wanted:g}"
            time.sleep(PAUSE_SECONDS)

    def evaluated_rules(self) -> list[Json]:
        """Return all rules once each has been evaluated."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            groups = self.get("rules")["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            if all(rule["health"] != "unknown" for rule in rules):
                return rules
            assert time.monotonic() < deadline, rules
            time.sleep(PAUSE_SECONDS)


@contextlib.contextmanager
def prometheus(release: Release, folder: Path, rules: list[Json]) -> Iterator[Prometheus]:
    """Run a server that scrapes all pods of a release, and evaluates rules."""
    shown = token(release.api, READER)
    with contextlib.ExitStack() as stack:
        targets = {
            pod["metadata"]["name"]: stack.enter_context(
                release.operator.forward(release.name, f"pod/{pod['metadata']['name']}", PORT)
            )
            for pod in release.pods()
        }
        config = _config(release, shown, targets)
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": rules}))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        log = stack.enter_context((folder / "prometheus.log").open("wb"))
        process = subprocess.Popen(
            [
                tool("prometheus"),
                f"--config.file={folder}/prometheus.yaml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        server = Prometheus(port)
        _await_ready(server, process, folder / "prometheus.log")
        server.await_value("sum(up)", len(targets))
        yield server


def _config(release: Release, shown: str, targets: Mapping[str, int]) -> Json:
    # With the labels that the chart's ServiceMonitor yields.
    return {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [
            {
                "job_name": release.name,
                "scheme": "https",
                "authorization": {"credentials": shown},
                "tls_config": {"insecure_skip_verify": True},
                "static_configs": [
                    {
                        "targets": [f"127.0.0.1:{port}"],
                        "labels": {"namespace": release.name, "pod": pod},
                    }
                    for pod, port in targets.items()
                ],
            }
        ],
    }


def _await_ready(server: Prometheus, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            server.get("status/runtimeinfo")
        except (OSError, ValueError, AssertionError):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(PAUSE_SECONDS)
        else:
            return
