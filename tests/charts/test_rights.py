"""The chart grants what `deploy/manifests/base` grants; tests/test_rbac.py compares it."""

import copy

import pytest
import yaml

from deploy.tools.controlplane.manifests import documents
from deploy.tools.demo import installation
from tests.charts.rendering import (
    CHART,
    MONITORED,
    NAME,
    PROMETHEUS,
    VALUES,
    Json,
    configuration,
    container,
    of_kind,
    one,
)

pytestmark = pytest.mark.chart

SAME = (
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "FlowSchema",
    "PodDisruptionBudget",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
#: What a cluster serves; `helm template` without one knows no kinds.
ADMISSION = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"


def base() -> list[Json]:
    """Return all objects of deploy/manifests/base."""
    names = yaml.safe_load((installation.BASE / "kustomization.yaml").read_text())["resources"]
    return [each for name in names for each in documents(installation.BASE / name)]


def bare(objects: list[Json]) -> list[Json]:
    """Return objects without their labels and what they select by, by name."""
    made = copy.deepcopy(objects)
    for each in made:
        del each["metadata"]["labels"]
        each.get("spec", {}).pop("selector", None)
    return sorted(made, key=lambda each: str(each["metadata"]["name"]))


@pytest.mark.parametrize("kind", SAME)
def test_the_chart_has_the_objects_of_the_base(helm, kind):
    ours = helm.template()

    wanted = of_kind(base(), kind)
    assert wanted
    assert bare(of_kind(ours, kind)) == bare(wanted)


def test_the_base_has_no_kind_that_is_not_compared():
    kinds = {each["kind"] for each in base()}

    assert kinds == {"Namespace", "CustomResourceDefinition", "Deployment", *SAME}


def test_the_view_role_reads_policies_and_only_the_policy_role_writes_them(helm):
    key = "rbac.authorization.k8s.io/aggregate-to-view"
    for objects in (base(), helm.template()):
        view = one(objects, "ClusterRole", f"{NAME}-policies-view")
        edit = one(objects, "ClusterRole", f"{NAME}-policies-edit")
        assert view["metadata"]["labels"][key] == "true"
        assert [rule["verbs"] for rule in view["rules"]] == [["get", "list", "watch"]]
        assert not any(name.startswith("rbac.") for name in edit["metadata"]["labels"])
    without = helm.template({"rbac": {"policyRoles": False}})
    assert [each["metadata"]["name"] for each in of_kind(without, "ClusterRole")] == [
        NAME,
        f"{NAME}-viewer",
    ]


def test_the_definition_of_policies_is_the_same_file_everywhere():
    name = "preemption-policies.yaml"

    wanted = (installation.BASE / name).read_text()
    assert (CHART / "crds" / name).read_text() == wanted
    folder = CHART.with_name("preemptive-scheduler-crds") / "files"
    assert (folder / name).read_text() == wanted


def test_the_deployment_of_the_base_is_part_of_that_of_the_chart(helm):
    # The base has no recorder, which asks for disk.
    chart = helm.template({"recorder": {"enabled": False}})

    spec, ours = one(base(), "Deployment")["spec"], one(chart, "Deployment")["spec"]
    (wanted,) = spec["template"]["spec"].pop("containers")
    assert spec["replicas"] == ours["replicas"]
    for key, value in spec["template"]["spec"].items():
        found = ours["template"]["spec"][key]
        if key == "affinity":
            # The chart has one more label, that of the release.
            for affinity in (found, value):
                for term in affinity["podAntiAffinity"][PREFERRED]:
                    term["podAffinityTerm"]["labelSelector"] = {}
        assert found.items() >= value.items() if isinstance(value, dict) else found == value, key
    wanted_args, args = wanted.pop("args"), container(chart)["args"]
    assert args[: len(wanted_args)] == wanted_args
    assert {key: container(chart)[key] for key in wanted} == wanted


@pytest.mark.parametrize(
    ("served", "enabled", "created"),
    [
        pytest.param((), True, True, id="without a cluster"),
        pytest.param(("v1/Pod", ADMISSION), True, True, id="the cluster has it"),
        pytest.param(("v1/Pod",), True, False, id="the cluster has it not"),
        pytest.param(("v1/Pod", ADMISSION), False, False, id="it is off"),
    ],
)
def test_the_own_writes_are_limited_where_the_api_server_can(helm, served, enabled, created):
    flags = [flag for each in served for flag in ("--api-versions", each)]
    values = {"admission": {"enabled": enabled}}

    text = helm.run("template", NAME, str(CHART), *flags, values=values)

    assert ("kind: ValidatingAdmissionPolicy\n" in text) is created


def test_the_own_writes_are_those_of_the_account_the_profiles_and_the_values(helm):
    values = {
        "fullnameOverride": "second",
        "serviceAccount": {"create": False, "name": "given"},
        "config": {"profiles": [{"schedulerName": "packing"}, {"schedulerName": "spreading"}]},
        "admission": {
            "maxVictimPriority": 1_000_000,
            "protectedNamespaces": ["storage"],
            "webhookKeys": ["example.com/zone"],
        },
    }

    spec = one(helm.template(values, namespace="there"), "ValidatingAdmissionPolicy")["spec"]

    (condition,) = spec["matchConditions"]
    assert condition["expression"].endswith("== 'system:serviceaccount:there:given'")
    found = {each["name"]: each["expression"] for each in spec["variables"]}
    assert found["profiles"] == '["packing","spreading"]'
    assert found["maxVictimPriority"] == "1000000"
    assert found["protectedNamespaces"] == '["storage","there"]'
    assert found["webhookKeys"] == '["example.com/zone"]'
    checks = " ".join(found.values())
    for part in ("'leases': ['second']", "'second-ledger'", "== 'there'", "== 'given'"):
        assert part in checks
    for always in ("preemptive-scheduler.io/Preemption", "profiles + ['preemptive-scheduler']"):
        checks = checks.replace(always, "")
    assert NAME not in checks


def test_writes_that_are_not_wanted_are_neither_permitted_nor_tried(helm):
    objects = helm.template(VALUES["neither volumes nor devices"])

    rights = [
        (verb, resource)
        for rule in one(objects, "ClusterRole", NAME)["rules"]
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
        if resource.startswith(("resourceclaims", "persistentvolume"))
    ]
    claims = [(verb, "resourceclaims") for verb in ("get", "list", "watch")]
    volumes = ("persistentvolumes", "persistentvolumeclaims")
    assert rights == claims + [(verb, each) for each in volumes for verb in ("list", "watch")]
    config = yaml.safe_load(configuration(objects))
    off = {"bindVolumes": False, "allocateDevices": False}
    assert [profile["pluginConfig"][-1] for profile in config["profiles"]] == [
        {"name": "PreemptiveScheduler", "args": {"reference": "v1.37", **off}},
        {"name": "PreemptiveScheduler", "args": off},
    ]


def test_shadow_mode_may_write_its_lease_and_ask_about_callers_and_nothing_else(helm):
    objects = helm.template(VALUES["beside other schedulers"])

    bound = {
        (each["roleRef"]["kind"], each["roleRef"]["name"])
        for each in of_kind(objects, "ClusterRoleBinding") + of_kind(objects, "RoleBinding")
        if {"kind": "ServiceAccount", "name": NAME, "namespace": NAME} in each["subjects"]
    }
    writes = {
        (each["kind"], resource, verb, *rule.get("resourceNames", ()))
        for each in of_kind(objects, "ClusterRole") + of_kind(objects, "Role")
        if (each["kind"], each["metadata"]["name"]) in bound
        for rule in each["rules"]
        for resource in rule.get("resources", ("a path",))
        for verb in set(rule["verbs"]) - {"get", "list", "watch"}
    }
    assert ("ClusterRole", NAME) in bound
    assert ("Role", NAME) in bound
    assert writes == {
        ("ClusterRole", "tokenreviews", "create"),
        ("ClusterRole", "subjectaccessreviews", "create"),
        ("Role", "leases", "create"),
        ("Role", "leases", "update", f"{NAME}-shadow"),
    }
    assert "--shadow=default-scheduler,batch" in container(objects)["args"]
    election = yaml.safe_load(configuration(objects))["leaderElection"]
    assert election["resourceName"] == f"{NAME}-shadow"


def test_the_plugin_can_verify_a_replica_in_shadow_mode_by_the_name_of_its_lease(helm):
    issued = {"enabled": True, "issuerRef": {"name": "internal"}}
    values = {"shadow": {"enabled": True}, "tls": {"certManager": issued}}

    (certificate,) = of_kind(helm.template(values), "Certificate")

    assert f"{NAME}-shadow.{NAME}.svc" in certificate["spec"]["dnsNames"]


def test_readers_of_metrics_may_read_them_and_the_scheduler_has_no_more_rights_for_it(helm):
    objects = helm.template(MONITORED)

    role = one(objects, "ClusterRole", f"{NAME}-metrics")
    binding = one(objects, "ClusterRoleBinding", f"{NAME}-metrics")
    assert role["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [PROMETHEUS]
    assert one(objects, "ClusterRole", NAME) == one(helm.template(), "ClusterRole", NAME)


def test_another_account_has_rights_and_fairness(helm):
    given = {"create": False, "name": "given"}

    objects = helm.template({"serviceAccount": given}, namespace="there")

    account = {"name": "given", "namespace": "there"}
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for binding in of_kind(objects, kind):
            assert binding["subjects"] == [{"kind": "ServiceAccount", **account}]
    for schema in of_kind(objects, "FlowSchema"):
        (rule,) = schema["spec"]["rules"]
        assert rule["subjects"] == [{"kind": "ServiceAccount", "serviceAccount": account}]
