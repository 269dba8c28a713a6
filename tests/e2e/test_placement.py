"""What is installed runs as it should, and what it places runs on real nodes."""

import base64
import json

import pytest

from deploy.tools.controlplane.api import ApiError
from tests.e2e.workloads import await_pods, pod, pod_spec

#: Printed by the scheduler's own container: who it is, what it may, what it can write.
ASK = """
import json, os
status = dict(line.split(':\\t') for line in open('/proc/1/status').read().splitlines())
try:
    open('/written', 'w')
    refused = ''
except OSError as error:
    refused = error.strerror
token = open('/var/run/secrets/kubernetes.io/serviceaccount/token').read()
print(json.dumps({**status, 'refused': refused, 'token': token}))
"""
PYTHON = "/opt/app/bin/python"


def test_it_runs_on_both_nodes_with_no_rights_on_them(cluster, release):
    pods = release.pods()

    assert {each["spec"]["nodeName"] for each in pods} == set(cluster.nodes)
    told = release.operator.kubectl(
        "-n", release.name, "exec", pods[0]["metadata"]["name"], "--", PYTHON, "-c", ASK
    )
    inside = json.loads(told)
    assert inside["Uid"].split() == ["65532"] * 4
    assert int(inside["CapEff"], 16) == int(inside["CapBnd"], 16) == 0
    assert inside["NoNewPrivs"] == "1"
    assert inside["Seccomp"] == "2"
    assert inside["refused"] == "Read-only file system"


def test_its_token_is_its_own_and_ends_soon(release):
    pod = release.pods()[0]["metadata"]

    told = release.operator.kubectl(
        "-n", release.name, "exec", pod["name"], "--", PYTHON, "-c", ASK
    )

    _, payload, _ = json.loads(told)["token"].split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert claims["sub"] == f"system:serviceaccount:{release.name}:{release.name}"
    assert claims["kubernetes.io"]["pod"]["uid"] == pod["uid"]
    assert claims["kubernetes.io"]["warnafter"] - claims["iat"] <= 3607


def test_the_namespace_refuses_what_is_not_restricted(release):
    refused = pod("root", release.name, hostNetwork=True)

    with pytest.raises(ApiError, match="violates PodSecurity"):
        release.api.post(f"/api/v1/namespaces/{release.name}/pods", refused)


def test_pods_that_name_it_run(cluster, release, namespace):
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",  # else the nodes that KWOK plays count as well
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": pod_spec(release.name, topologySpreadConstraints=[spread]),
    }
    body = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }

    cluster.api.post(f"/apis/apps/v1/namespaces/{namespace}/deployments", body)

    pods = await_pods(cluster.api, namespace, 4)
    nodes = [each["spec"]["nodeName"] for each in pods]
    assert sorted(nodes) == sorted(cluster.nodes * 2)
    assert len({each["status"]["podIP"] for each in pods}) == 4
    events = cluster.api.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    placed = [each for each in events if each["reason"] == "Scheduled"]
    assert {each["reportingController"] for each in placed} == {release.name}
