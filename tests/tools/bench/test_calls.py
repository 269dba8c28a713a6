"""Requests of the benchmark: in order within a job, and given up with the first error."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from deploy.tools.bench.calls import Refused, connected, delete, get, merge, post, send, send_all
from scheduler.kube.http.http1 import Http1
from tests.support.fake_api import FakeApi, Recorded

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    api = FakeApi()
    await api.start()
    yield api
    await api.stop()


@pytest.fixture
async def http(api: FakeApi, tmp_path: Path) -> AsyncIterator[Http1]:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "current-context": "it",
                "contexts": [{"name": "it", "context": {"cluster": "it"}}],
                "clusters": [{"name": "it", "cluster": {"server": api.url}}],
            }
        )
    )
    async with connected(kubeconfig) as http:
        yield http


def pod(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": []}}


async def test_the_calls_of_a_job_are_made_in_order(api: FakeApi, http: Http1):
    jobs = [
        [
            post(PODS, pod(name)),
            merge(f"{PODS}/{name}", {"metadata": {"labels": {"a": "b"}}}),
            delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0}),
        ]
        for name in ("a", "b", "c")
    ]

    await send_all(http, jobs)

    for name in ("a", "b", "c"):
        verbs = [each.verb for each in api.requests if concerns(each, name)]
        assert verbs == ["create", "patch", "delete"]


def concerns(request: Recorded, name: str) -> bool:
    made = request.body["metadata"]["name"] if request.verb == "create" else ""
    return name in (made, request.path.rpartition("/")[2])


async def test_a_refusal_names_call_and_status(http: Http1):
    with pytest.raises(Refused, match=f"GET {PODS}/none: 404") as refused:
        await send(http, get(f"{PODS}/none"))

    assert refused.value.status == 404


async def test_jobs_after_an_error_are_not_begun(api: FakeApi, http: Http1):
    begun = []

    def jobs():
        for number in range(1000):
            begun.append(number)
            yield [get(f"{PODS}/none")]

    with pytest.raises(Refused):
        await send_all(http, jobs())

    assert len(begun) < 1000
