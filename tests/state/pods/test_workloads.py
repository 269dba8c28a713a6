"""The default selector of a pod, from services and controllers."""

import pytest
from msgspec.structs import replace

from scheduler.model.api.objects import (
    LabelSelector,
    LabelsSpec,
    ObjectMeta,
    OwnerReference,
    Pod,
    ReplicaSet,
    ReplicationController,
    SelectorSpec,
    StatefulSet,
    Workload,
)
from scheduler.state.pods.workloads import Workloads
from tests.support.affinities import labels, service
from tests.support.builders import pod, requirement

WEB = pod("web-0").label("app", "web").label("tier", "front").build()


def owned(kind: str, version: str = "apps/v1", *, controller: bool = True) -> Pod:
    owner = OwnerReference(version, kind, "owner", "uid", controller)
    return replace(WEB, metadata=replace(WEB.metadata, owner_references=[owner]))


def controller(kind: type[ReplicaSet] | type[StatefulSet], selector: LabelSelector) -> Workload:
    return kind(ObjectMeta(name="owner", namespace="default"), SelectorSpec(selector))


def chosen(pod: Pod, *known: Workload) -> list[tuple[str, str, list[str]]]:
    workloads = Workloads()
    for each in known:
        workloads.write(each)
    requirements = workloads.default_selector(pod).requirements
    return [(each.key, each.operator, each.values) for each in requirements]


def test_a_pod_without_services_and_controller_belongs_to_none() -> None:
    assert chosen(WEB, service("other", app="db")) == []


def test_all_services_that_select_the_pod_count() -> None:
    known = (service("a", app="web"), service("b", tier="front"), service("c", app="web", x="y"))

    assert chosen(WEB, *known) == [("app", "In", ["web"]), ("tier", "In", ["front"])]


def test_services_of_other_namespaces_and_without_selector_do_not_count() -> None:
    elsewhere = service("a", app="web")
    elsewhere = replace(elsewhere, metadata=replace(elsewhere.metadata, namespace="other"))
    without = replace(service("b"), spec=LabelsSpec(None))

    assert chosen(WEB, elsewhere, without) == []


@pytest.mark.parametrize("kind", [ReplicaSet, StatefulSet])
def test_the_selector_of_the_controller_counts_as_well(
    kind: type[ReplicaSet] | type[StatefulSet],
) -> None:
    owner = controller(kind, labels(requirement("tier", "Exists"), app="web"))

    assert chosen(owned(kind.__name__), owner, service("s", app="web")) == [
        ("app", "In", ["web"]),
        ("app", "In", ["web"]),
        ("tier", "Exists", []),
    ]


def test_a_replication_controller_selects_by_labels() -> None:
    owner = ReplicationController(
        ObjectMeta(name="owner", namespace="default"), LabelsSpec({"app": "web"})
    )

    assert chosen(owned("ReplicationController", "v1"), owner) == [("app", "In", ["web"])]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(owned("ReplicaSet", controller=False), id="not the controller"),
        pytest.param(owned("ReplicaSet", "extensions/v1beta1"), id="another version"),
        pytest.param(owned("Job", "batch/v1"), id="another kind"),
        pytest.param(owned("StatefulSet"), id="one that is not known"),
    ],
)
def test_other_owners_do_not_count(given: Pod) -> None:
    assert chosen(given, controller(ReplicaSet, labels(app="web"))) == []


def test_a_controller_with_an_invalid_selector_does_not_count() -> None:
    owner = controller(ReplicaSet, labels(requirement("app", "Nonsense")))

    assert chosen(owned("ReplicaSet"), owner, service("s", app="web")) == [("app", "In", ["web"])]


def test_the_version_of_a_namespace_grows_with_its_selectors_only() -> None:
    workloads = Workloads()
    assert workloads.version("default") == 0

    workloads.write(service("s", app="web"))
    workloads.write(service("s", app="web"))
    assert workloads.version("default") == 1
    assert workloads.version("other") == 0

    workloads.erase("Service", "default/s")
    workloads.erase("Service", "default/s")
    workloads.erase("ReplicaSet", "default/unknown")
    assert workloads.version("default") == 2
    assert workloads.default_selector(WEB).empty
