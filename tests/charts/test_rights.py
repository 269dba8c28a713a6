"""The chart installs what deploy/base installs; tests/test_rbac.py compares that with the code."""

import copy

import pytest

from deploy.demo import installation
from deploy.local.manifests import documents
from tests.charts.rendering import (
    CHART,
    MONITORED,
    NAME,
    PROMETHEUS,
    Helm,
    Json,
    container,
    of_kind,
    one,
)

pytestmark = pytest.mark.chart

SAME = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "FlowSchema")


def bare(objects: list[Json]) -> list[Json]:
    """Return objects without their labels, by name."""
    made = copy.deepcopy(objects)
    for each in made:
        del each["metadata"]["labels"]
    return sorted(made, key=lambda each: str(each["metadata"]["name"]))


@pytest.mark.parametrize("kind", SAME)
def test_the_chart_has_the_objects_of_the_base(helm: Helm, kind: str):
    base = of_kind(list(installation.manifests()), kind)

    assert base
    assert bare(of_kind(helm.template(), kind)) == bare(base)


def test_the_base_has_no_kind_that_is_not_compared():
    kinds = {each["kind"] for each in installation.manifests()}

    assert kinds == {"Namespace", "CustomResourceDefinition", *SAME}


def test_the_definition_of_policies_is_the_same_file_in_both():
    name = "preemption-policies.yaml"

    assert (CHART / "crds" / name).read_text() == (installation.BASE / name).read_text()


def test_the_deployment_of_the_base_is_part_of_that_of_the_chart(helm: Helm):
    (base,) = documents(installation.BASE / "deployment.yaml")
    chart = helm.template()

    spec, ours = base["spec"], one(chart, "Deployment")["spec"]
    (wanted,) = spec["template"]["spec"].pop("containers")
    assert spec["replicas"] == ours["replicas"]
    for key, value in spec["template"]["spec"].items():
        found = ours["template"]["spec"][key]
        assert found.items() >= value.items() if isinstance(value, dict) else found == value, key
    wanted_args, args = wanted.pop("args"), container(chart)["args"]
    assert args[: len(wanted_args)] == wanted_args
    assert container(chart)["image"].startswith(wanted.pop("image"))
    assert {key: container(chart)[key] for key in wanted} == wanted


def test_more_rights_are_only_those_that_were_asked_for(helm: Helm):
    rule = {"apiGroups": ["x.example"], "resources": ["ys"], "verbs": ["list"]}

    more = one(helm.template({"rbac": {"extraRules": [rule]}}), "ClusterRole")["rules"]

    assert more == [*one(helm.template(), "ClusterRole")["rules"], rule]


def test_readers_of_metrics_may_read_them_and_the_scheduler_has_no_more_rights_for_it(helm: Helm):
    objects = helm.template(MONITORED)

    role = one(objects, "ClusterRole", f"{NAME}-metrics")
    binding = one(objects, "ClusterRoleBinding", f"{NAME}-metrics")
    assert role["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [PROMETHEUS]
    assert one(objects, "ClusterRole", NAME) == one(helm.template(), "ClusterRole")


def test_another_account_has_rights_and_fairness(helm: Helm):
    given = {"create": False, "name": "given"}

    objects = helm.template({"serviceAccount": given}, namespace="there")

    account = {"name": "given", "namespace": "there"}
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        assert one(objects, kind)["subjects"] == [{"kind": "ServiceAccount", **account}]
    for schema in of_kind(objects, "FlowSchema"):
        (rule,) = schema["spec"]["rules"]
        assert rule["subjects"] == [{"kind": "ServiceAccount", "serviceAccount": account}]
