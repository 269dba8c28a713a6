"""A plan knows the PriorityClasses of the cluster, which the scheduler does not read."""

from contextlib import nullcontext
from typing import Any

import pytest
import yaml

from scheduler.kubectl import priority_classes
from scheduler.kubectl.errors import CommandError
from tests.kubectl.test_transport import api, config  # noqa: F401 - fixtures

HIGH = {"metadata": {"name": "high"}, "value": 1000}


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "prod"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def of_class(name: str) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **HIGH} | {
        "metadata": {"name": name}
    }


def deployment(**spec: Any) -> dict[str, Any]:
    return {"kind": "Deployment", "spec": {"template": {"spec": pod(**spec)["spec"]}}}


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        ([pod(priorityClassName="high")], True),
        ([pod()], True),
        ([deployment(priorityClassName="high")], True),
        ([pod(priorityClassName="high", priority=1000)], False),
        ([pod(priorityClassName="high"), of_class("high")], False),
        ([pod(priorityClassName="high"), of_class("low")], True),
        ([{"kind": "Node", "metadata": {"name": "n"}}], False),
        ([{"kind": "Odd", "metadata": None, "spec": [[{"containers": 1}]]}], False),
        ([{"kind": "PriorityClass", "metadata": 3}, pod(priorityClassName=["odd"])], True),
    ],
)
def test_classes_are_needed_where_a_pod_has_no_number(objects, want):
    assert priority_classes.needed(objects) is want


async def test_a_plan_has_the_classes_of_the_cluster(
    run,
    api,  # noqa: F811
    scheduler,
    config,  # noqa: F811
    tmp_path,
):
    api.priority_classes = [HIGH]
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump(pod(priorityClassName="high")))

    await run("plan", "-f", str(path), KUBECONFIG=config)

    sent = scheduler.plans[0].objects
    assert [each["kind"] for each in sent] == ["Pod", "PriorityClass"]
    assert sent[1]["value"] == 1000


@pytest.mark.parametrize(
    ("objects", "refused"),
    [
        ([pod(priorityClassName="hihg")], True),
        ([deployment(priorityClassName="hihg")], True),
        ([pod(priorityClassName="hihg", priority=1)], False),
        ([pod(priorityClassName="hihg"), of_class("hihg"), pod()], False),
    ],
)
def test_a_class_that_neither_cluster_nor_files_have_is_an_error(objects, refused):
    """The API server refuses such pods."""
    with pytest.raises(CommandError, match='no PriorityClass "hihg"') if refused else nullcontext():
        priority_classes.check([*objects, of_class("high")])


async def test_a_class_that_the_cluster_does_not_have_is_not_planned(
    run,
    api,  # noqa: F811
    scheduler,
    config,  # noqa: F811
    tmp_path,
):
    api.priority_classes = [HIGH]
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump(pod(priorityClassName="hihg")))

    with pytest.raises(CommandError, match='Pod "p": there is no PriorityClass "hihg"'):
        await run("plan", "-f", str(path), KUBECONFIG=config)
    assert scheduler.plans == []


async def test_classes_of_the_files_count_more_than_those_of_the_cluster(
    run,
    api,  # noqa: F811
    scheduler,
    config,  # noqa: F811
    tmp_path,
):
    api.priority_classes = [HIGH, {"metadata": {"name": "low"}, "value": 1}]
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump_all([of_class("high"), pod()]))

    await run("plan", "-f", str(path), KUBECONFIG=config)

    names = [each["metadata"]["name"] for each in scheduler.plans[0].objects]
    assert names == ["high", "p", "low"]
