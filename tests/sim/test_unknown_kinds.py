"""Objects of which no pods are made: what is said of each, and where it stands."""

from typing import Any

import pytest

from scheduler.sim import workloads
from scheduler.sim.manifests import ManifestError, Manifests
from tests.sim.test_workloads import template, workload


def named(kind: str, version: str = "v1", name: str = "x") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def warnings(*documents: Any) -> list[str]:
    places = ((f"f.yaml:{number}", each) for number, each in enumerate(documents, 1))
    return workloads.expand(places, Manifests(), "2026-01-01T00:00:00Z").warnings


@pytest.mark.parametrize(
    ("document", "warning"),
    [
        (named("Foo"), "f.yaml:1: kind Foo of v1 is not known, so it makes no pods in this plan"),
        (
            named("Foo", "example.com/v1"),
            "f.yaml:1: kind Foo of example.com/v1 is not known, so it makes no pods in this plan",
        ),
        (
            named("Deployment", "v1"),
            "f.yaml:1: kind Deployment of v1 is not known, so it makes no pods in this plan;"
            " Deployment of apps/v1 is",
        ),
        (
            named("Deployment", "apps/v1beta1"),
            "f.yaml:1: kind Deployment of apps/v1beta1 is not known, so it makes no pods in this"
            " plan; Deployment of apps/v1 is",
        ),
        (
            named("PodDisruptionBudget", "policy/v1beta1"),
            "f.yaml:1: kind PodDisruptionBudget of policy/v1beta1 is not known, so it makes no pods"
            " in this plan; PodDisruptionBudget of policy/v1 is",
        ),
        (
            named("pod"),
            "f.yaml:1: kind pod of v1 is not known, so it makes no pods in this plan; Pod of v1 is",
        ),
        (
            named("Foo\nBar\x1b[2J"),
            r"f.yaml:1: kind Foo\nBar\x1b[2J of v1 is not known, so it makes no pods in this plan",
        ),
    ],
)
def test_a_kind_that_is_not_known_is_said(document: dict[str, Any], warning: str):
    assert warnings(document) == [warning]


@pytest.mark.parametrize(
    "document",
    [
        named("ConfigMap"),
        named("Secret"),
        named("Ingress", "networking.k8s.io/v1"),
        named("ClusterRole", "rbac.authorization.k8s.io/v1", "system:x"),
        named("HorizontalPodAutoscaler", "autoscaling/v2"),
        named("PriorityClass", "scheduling.k8s.io/v1"),
        named("ResourceClaimTemplate", "resource.k8s.io/v1"),
        named("Node"),
        named("Deployment", "apps/v1"),
        {"apiVersion": "v1", "kind": "List", "items": []},
        {"apiVersion": "v1", "kind": "PodList", "items": None},
    ],
    ids=lambda document: document["kind"],
)
def test_kinds_of_kubernetes_that_make_no_pods_are_no_news(document: dict[str, Any]):
    assert warnings(document) == []


def test_many_objects_of_a_kind_are_one_warning():
    (only,) = warnings(*[named("Foo", name=f"x{number}") for number in range(5)])

    assert only.startswith("f.yaml:1: kind Foo of v1 is not known")
    assert only.endswith(" (5 objects)")


def test_many_kinds_are_a_bounded_number_of_warnings():
    found = warnings(*[named(f"Foo{number}") for number in range(100)])

    assert len(found) == 21
    assert found[-1] == "80 more kinds are not known, so they make no pods in this plan"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "a list is not a Kubernetes object"),
        ("x", "a string is not a Kubernetes object"),
        (3, "a number is not a Kubernetes object"),
        (True, "a boolean is not a Kubernetes object"),
        ({}, "not a Kubernetes object (no kind)"),
        ({"kind": ""}, "not a Kubernetes object (no kind)"),
        ({"kind": None}, "not a Kubernetes object (no kind)"),
        ({"kind": 3}, "not a Kubernetes object (no kind)"),
        ({"kind": "Foo"}, "Foo: apiVersion is missing"),
        ({"kind": "Pod", "metadata": {"name": "x"}}, "Pod: apiVersion is missing"),
        ({"kind": "Foo", "apiVersion": ""}, "Foo: apiVersion is missing"),
        ({"kind": "Foo", "apiVersion": 3}, "Foo: apiVersion is not a string"),
        ({"kind": "Foo", "apiVersion": "v1"}, "Foo: metadata.name is missing"),
        ({"kind": "Foo", "apiVersion": "v1", "metadata": 3}, "Foo: metadata is not an object"),
        ({"kind": "Foo", "apiVersion": "v1", "metadata": {"name": 3}}, "Foo: metadata.name"),
        (
            {"kind": "Pod", "apiVersion": "v1", "metadata": {"generateName": "x-"}},
            "Pod: metadata.name is missing; names are not generated in a plan",
        ),
        (named("Pod", name="Übung"), "Pod: metadata.name: 'Übung' is not a valid name"),
        (named("Pod", name="x" * 254), "is not a valid name"),
        (named("Pod", name="a\nb"), r"Pod: metadata.name: 'a\nb' is not a valid name"),
        (workload("Deployment", name="A/b", template=template()), "'A/b' is not a valid name"),
        (
            {**named("Pod"), "metadata": {"name": "x", "namespace": "a b"}},
            "Pod: metadata.namespace: 'a b' is not a valid name",
        ),
        ({"apiVersion": "v1", "kind": "List", "items": [{}]}, "items[0]: not a Kubernetes object"),
    ],
)
def test_a_malformed_object_is_an_error_that_names_it(document: Any, problem: str):
    with pytest.raises(ManifestError) as refused:
        warnings(named("ConfigMap"), document)

    message = str(refused.value)
    assert message.startswith("f.yaml:2: ")
    assert problem in message
    assert message.isprintable()
    assert len(message) < 500


def test_items_of_a_typed_list_are_of_its_kind():
    items = [{"metadata": {"name": "c"}}]

    assert warnings({"apiVersion": "v1", "kind": "ConfigMapList", "items": items}) == []
    (warning,) = warnings({"apiVersion": "v1", "kind": "FooList", "items": items})
    assert warning.startswith("f.yaml:1: items[0]: kind Foo of v1 is not known")


def test_of_objects_of_one_name_the_last_counts():
    one = workload("Deployment", replicas=1, template=template())
    two = workload("Deployment", replicas=2, template=template())
    places = [("f.yaml:1", one), ("f.yaml:9", two)]

    found = workloads.expand(places, Manifests(), "2026-01-01T00:00:00Z")

    assert found.warnings == [
        "f.yaml:9: Deployment default/web is already defined at f.yaml:1; the last definition is"
        " used"
    ]
    assert sum(each["kind"] == "Pod" for _, each in found.documents) == 2
