"""The shipped example: what it promises, and how it is read."""

from collections import Counter
from pathlib import Path

import pytest

from deploy.tools.demo import __main__ as demo
from deploy.tools.demo import example
from scheduler.config.settings import OUR_NAME
from scheduler.model.api import quantity

TEXT = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low, labels: {step: "1"}}
value: 5
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: late, labels: {step: "2"}}
spec: {replicas: 2, template: {metadata: {}, spec: {priorityClassName: low}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: early, labels: {step: "1"}}
spec: {replicas: 3, template: {metadata: {annotations: {a: b}}, spec: {priorityClassName: low}}}
"""


@pytest.fixture
def shipped() -> example.Example:
    return example.read(example.FILE, ending_seconds=1.0)


@pytest.fixture
def small(tmp_path: Path) -> example.Example:
    file = tmp_path / "small.yaml"
    file.write_text(TEXT)
    return example.read(file, ending_seconds=2.5)


def names(step: example.Step) -> list[str]:
    return [each["metadata"]["name"] for each in step.documents]


def deployments(step: example.Step) -> list[example.Json]:
    return [each for each in step.documents if each["kind"] == "Deployment"]


def cpu(steps: tuple[example.Step, ...]) -> int:
    """Return the millicores that all pods of some steps ask for."""
    total = 0
    for step in steps:
        for each in deployments(step):
            (container,) = each["spec"]["template"]["spec"]["containers"]
            amount = container["resources"]["requests"]["cpu"]
            total += each["spec"]["replicas"] * quantity.milli_value(amount)
    return total


def test_objects_are_grouped_by_their_step_and_keep_their_order(small: example.Example):
    assert [names(step) for step in small.steps] == [["low", "early"], ["late"]]


def test_pods_are_counted_by_priority_class_and_add_up(small: example.Example):
    assert [step.pods for step in small.steps] == [{"low": 3}, {"low": 2}]
    everything = [document for step in small.steps for document in step.documents]
    assert example.pods(everything) == Counter(low=5)
    assert small.classes == {"low": 5}


def test_pods_take_their_time_to_end(small: example.Example):
    annotations = [
        each["spec"]["template"]["metadata"]["annotations"]
        for step in small.steps
        for each in deployments(step)
    ]

    assert annotations == [{"a": "b", example.ENDING: "2.5s"}, {example.ENDING: "2.5s"}]


def test_the_shipped_example_has_two_steps_of_ascending_priority(shipped: example.Example):
    low, high = shipped.steps
    ((high_class, _),) = high.pods.items()

    assert low.pods.keys() == {"low-example"}
    assert high_class == "high-example"
    assert shipped.classes["low-example"] < shipped.classes["high-example"]
    assert {each["kind"] for each in low.documents} == {
        "Namespace",
        "PriorityClass",
        "Deployment",
        "PodDisruptionBudget",
        "PreemptionPolicy",
    }


def test_every_pod_of_the_shipped_example_is_ours(shipped: example.Example):
    templates = [
        each["spec"]["template"]["spec"] for step in shipped.steps for each in deployments(step)
    ]

    assert {template["schedulerName"] for template in templates} == {OUR_NAME}


def test_the_shipped_example_fills_the_nodes_of_the_demonstration(shipped: example.Example):
    room = demo.NODES * quantity.milli_value(demo.SHAPE.cpu)

    assert cpu(shipped.steps[:1]) == room
    assert cpu(shipped.steps[1:]) <= room
