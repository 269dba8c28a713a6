"""Objects of plans are checked as an API server checks them with `fieldValidation=Strict`."""

import argparse
import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.tools import field_table
from scheduler.kubectl import connection, server_check
from scheduler.service.clock import Clock
from scheduler.sim import object_fields

pytestmark = pytest.mark.cluster

TABLE = Path(object_fields.__file__).with_name("object_fields.txt")
POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}  # fmt: skip
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
}  # fmt: skip
BUDGET = {
    "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
}  # fmt: skip
CLASS = {
    "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c"},
    "value": 3,
}  # fmt: skip
CLAIM = {
    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "v"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}  # fmt: skip
GONE = object()
#: An object, the path of a field, and what is there instead.
CHANGES: list[tuple[dict[str, Any], str, Any]] = [
    (POD, "spec.contaners", []),
    (POD, "spec.containers", GONE),
    (POD, "spec.containers", []),
    (POD, "spec.containers", {}),
    (POD, "spec.containers.0.name", GONE),
    (POD, "spec.containers.0.image", GONE),
    (POD, "spec.containers.0.resources", {"request": {}}),
    (POD, "spec.containers.0.env", [{"name": "A", "value": 5}]),
    (POD, "spec.containers.0.env", [{"value": "5"}]),
    (POD, "spec.containers.0.ports", [{"name": "http"}]),
    (POD, "spec.containers.0.volumeMounts", [{"name": "v"}]),
    (POD, "spec.affinity", {"podAntiAfinity": {}}),
    (POD, "spec.hostNetwork", "yes"),
    (POD, "spec.priority", "high"),
    (POD, "spec", GONE),
    (POD, "metadata.label", {"a": "b"}),
    (POD, "metadata.labels", {"a": 1}),
    (POD, "specs", {}),
    (DEPLOYMENT, "spec.replica", 3),
    (DEPLOYMENT, "spec.selector", GONE),
    (DEPLOYMENT, "spec.template", GONE),
    (DEPLOYMENT, "spec.template.spec", GONE),
    (DEPLOYMENT, "spec.template.spec.containers.0.imag", "i"),
    (BUDGET, "spec.minAvailabel", 1),
    (BUDGET, "spec.selector.matchLabel", {}),
    (CLASS, "preemptionpolicy", "Never"),
    (CLASS, "value", "3"),
    (CLAIM, "spec.storageClass", "fast"),
    (CLAIM, "spec.accessModes", GONE),
    (CLAIM, "spec.resources", GONE),
]  # fmt: skip
#: What is accepted although it looks odd.
FINE: list[tuple[dict[str, Any], str, Any]] = [
    (POD, "spec.nodeSelector", None),
    (POD, "status", {"phase": "Running", "conditions": [{"type": "Ready"}]}),
    (POD, "spec.containers.0.resources", {"limits": {"cpu": 1, "memory": "1Gi"}}),
    (CLASS, "value", GONE),
    (BUDGET, "spec.minAvailable", "50%"),
    (DEPLOYMENT, "spec.strategy", {"rollingUpdate": {"maxSurge": 1}}),
]


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    *parents, last = path.split(".")
    target: Any = changed
    for key in parents:
        target = target[int(key)] if isinstance(target, list) else target[key]
    if value is GONE:
        del target[last]
    else:
        target[last] = value
    return changed


@pytest.fixture
def session(plane, namespace):
    """What a command works with that has the kubeconfig of an administrator."""
    arguments = argparse.Namespace(server="")
    reach = connection.Reach((Path(plane.admin_kubeconfig),), Clock().wall)
    return SimpleNamespace(
        arguments=arguments, selection=reach.selection, namespace=lambda: namespace
    )


async def test_both_refuse_the_same_objects_and_nothing_is_stored(session, plane, namespace):
    documents = [changed(*each) for each in (*CHANGES, *FINE)]
    found = [(str(index), document) for index, document in enumerate(documents)]

    refused = set()
    for place, document in found:
        problems, warnings = await server_check.checked(session, [(place, document)])
        assert warnings == []
        refused |= {place} if problems else set()

    ours = {place for place, document in found if list(object_fields.problems(document))}
    assert refused == {str(index) for index in range(len(CHANGES))}
    assert ours == refused
    for plural in ("pods", "persistentvolumeclaims"):
        assert plane.api.get(f"/api/v1/namespaces/{namespace}/{plural}")["items"] == []


async def test_a_file_that_creates_what_it_needs_is_no_error(session):
    """The namespace and the class are not there yet; nor is the kind that the file defines."""
    files = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "to-be-made"}},
        CLASS,
        changed(changed(POD, "metadata.namespace", "to-be-made"), "spec.priorityClassName", "c"),
        changed(POD, "spec.priorityClassName", "c"),
    ]

    problems, warnings = await server_check.checked(session, [("f", each) for each in files])

    assert problems == []
    assert warnings == [
        "the API server has not checked 2 of the objects: they need what the files create first"
    ]


@pytest.mark.needs_server("1.37", "the table has the fields of v1.37")
def test_the_table_has_the_fields_of_the_api_server(plane):
    assert field_table.table(plane.api.get("/openapi/v2")) == TABLE.read_text()
