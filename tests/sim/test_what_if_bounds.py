"""Bounds on the work and the text of a what-if."""

import pytest

from scheduler.model.rest.what_if import WhatIfRequest
from scheduler.sim import workloads
from scheduler.sim.expanded import MAX_WARNINGS, Expanded
from scheduler.sim.manifests import ManifestError, Manifests
from scheduler.sim.what_if import MAX_OBJECTS, what_if
from scheduler.sim.workloads import TooManyPodsError
from tests.sim.test_unknown_kinds import named, warnings
from tests.sim.test_what_if import state
from tests.sim.test_workloads import template, workload


def expand(*documents, namespace: str = "default") -> Expanded:
    places = [(f"objects[{index}]", each) for index, each in enumerate(documents)]
    return workloads.expand(places, Manifests(), "2026-01-01T00:00:00Z", namespace)


@pytest.mark.parametrize(
    "spec",
    [
        {"template": template(args=["x"] * 1000)},
        {"template": template(note="x" * 100_000)},
        {"template": template(), "volumeClaimTemplates": [{"metadata": {"name": "v"}}] * 200},
    ],
)
def test_large_templates_of_many_pods_are_refused_before_they_are_made(spec):
    with pytest.raises(TooManyPodsError, match="more than 2000000 values together"):
        expand(workload("StatefulSet", replicas=10_000, **spec))


def test_many_pods_of_a_usual_template_are_planned():
    found = expand(workload("StatefulSet", replicas=2000, template=template()))

    assert len(found.documents) == 2001


def test_too_many_objects_are_refused():
    many = [named("ConfigMap", name=f"c{number}") for number in range(MAX_OBJECTS + 1)]

    with pytest.raises(TooManyPodsError, match="10001 objects; at most 10000 are planned"):
        what_if(state(), WhatIfRequest(objects=tuple(many)))


def test_too_many_pairs_of_daemon_sets_and_nodes_are_refused():
    nodes = [named("Node", name=f"n{number}") for number in range(1500)]
    sets = [
        workload("DaemonSet", name=f"d{number}", template=template(nodeSelector={"a": "b"}))
        for number in range(700)
    ]

    with pytest.raises(ManifestError, match="more than 1000000 pairs"):
        expand(*nodes, *sets)


@pytest.mark.parametrize("namespace", ["a\nb", "A", "a" * 100_000, "\u00fc"])
def test_the_namespace_of_a_request_is_a_name(namespace: str):
    with pytest.raises(ManifestError, match=r"^namespace: .* is not a valid name$"):
        expand(namespace=namespace)


def test_objects_that_are_given_often_are_some_warnings():
    found = warnings(*[named("ConfigMap") for _ in range(100)])

    assert len(found) == 21
    assert found[-1] == "79 more objects are already defined"


def test_warnings_are_bounded():
    found = Expanded()
    for number in range(2 * MAX_WARNINGS):
        found.warn(f"{number}\n" + "x" * 1000)

    assert len(found.warnings) == MAX_WARNINGS + 1
    assert found.warnings[-1] == "there are more warnings, which are not shown"
    assert all(each.isprintable() and len(each) <= 500 for each in found.warnings)
