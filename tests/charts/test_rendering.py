"""What the chart makes of values."""

import re

import pytest
import yaml

from tests.charts.rendering import CHART, NAME, VALUES, Helm, configuration, container, of_kind, one

pytestmark = pytest.mark.chart

DEFAULT_KINDS = {
    "ClusterRole": 4,
    "ClusterRoleBinding": 1,
    "Deployment": 1,
    "FlowSchema": 2,
    "PodDisruptionBudget": 1,
    "Role": 1,
    "RoleBinding": 2,
    "Service": 1,
    "ServiceAccount": 1,
    "ValidatingAdmissionPolicy": 1,
    "ValidatingAdmissionPolicyBinding": 1,
}
DIGEST = f"sha256:{'0' * 64}"


def pod(objects):
    return one(objects, "Deployment")["spec"]["template"]


@pytest.mark.parametrize("case", VALUES)
def test_the_linter_finds_nothing(helm: Helm, case: str):
    assert "1 chart(s) linted, 0 chart(s) failed" in helm.lint(VALUES[case])


@pytest.mark.parametrize("case", VALUES)
def test_objects_have_names_of_their_own_and_say_whose_they_are(helm: Helm, case: str):
    objects = helm.template(VALUES[case])

    keys = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert keys
    assert len(keys) == len(set(keys))
    for each in objects:
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == NAME
        assert labels["app.kubernetes.io/instance"] == NAME
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels.items() >= VALUES[case].get("commonLabels", {}).items()


@pytest.mark.parametrize("case", VALUES)
def test_everything_selects_the_pods(helm: Helm, case: str):
    objects = helm.template(VALUES[case])
    labels = pod(objects)["metadata"]["labels"].items()

    selectors = [
        one(objects, "Deployment")["spec"]["selector"]["matchLabels"],
        *(each["spec"]["selector"] for each in of_kind(objects, "Service")),
        *(
            each["spec"]["selector"]["matchLabels"]
            for kind in ("PodDisruptionBudget", "ServiceMonitor", "PodMonitor")
            for each in of_kind(objects, kind)
        ),
        *(each["spec"]["podSelector"]["matchLabels"] for each in of_kind(objects, "NetworkPolicy")),
        *(
            each["spec"]["endpointSelector"]["matchLabels"]
            for each in of_kind(objects, "CiliumNetworkPolicy")
        ),
    ]

    for selector in selectors:
        assert selector
        assert labels >= selector.items()


def test_the_same_values_give_the_same_text(helm: Helm):
    command = ("template", NAME, str(CHART))

    assert helm.run(*command) == helm.run(*command)


def test_no_template_asks_the_cluster_or_rolls_dice_or_hooks_into_a_release():
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())

    assert not re.search(r"\b(lookup|rand\w+|uuidv4|now|genCA|genSelfSignedCert)\b *[\"(\d]", text)
    assert "helm.sh/hook" not in text


def test_without_values_there_is_what_an_installation_needs_and_nothing_else(helm: Helm):
    kinds = [each["kind"] for each in helm.template()]

    assert {kind: kinds.count(kind) for kind in sorted(kinds)} == DEFAULT_KINDS


def test_objects_that_the_user_provides_are_not_rendered(helm: Helm):
    objects = helm.template(VALUES["everything given by others"])

    assert {each["kind"] for each in objects} == {"Deployment"}
    assert pod(objects)["spec"]["serviceAccountName"] == "given"


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ({}, "preemptive-scheduler:0.1.0"),
        ({"tag": "v2"}, "preemptive-scheduler:v2"),
        ({"registry": "a.example:5000", "repository": "b/c"}, "a.example:5000/b/c:0.1.0"),
        ({"tag": "v2", "digest": DIGEST}, f"preemptive-scheduler@{DIGEST}"),
    ],
    ids=["nothing", "tag", "registry", "a digest wins over a tag"],
)
def test_the_image_is_named(helm: Helm, values: dict[str, str], want: str):
    assert container(helm.template({"image": values}))["image"] == want


def test_a_replica_is_restricted(helm: Helm):
    objects = helm.template()

    assert pod(objects)["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert one(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    assert pod(objects)["spec"]["automountServiceAccountToken"] is True


def test_another_configuration_replaces_the_pods_and_another_label_of_objects_does_not(helm: Helm):
    def annotations(**values):
        return pod(helm.template(values))["metadata"]["annotations"]

    before = annotations()

    assert annotations(config={"profiles": [{"schedulerName": "other"}]}) != before
    assert annotations(leaderElection={"retryPeriod": "1s"}) != before
    assert annotations(serviceAccount={"annotations": {"a": "b"}}) == before


@pytest.mark.parametrize(
    ("case", "want"),
    [
        (
            "nothing",
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        ),
        ("one replica without a lease", {"type": "Recreate"}),
        (
            "on the control plane",
            {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}},
        ),
    ],
)
def test_two_without_a_lease_never_run_together(helm: Helm, case: str, want: object):
    assert one(helm.template(VALUES[case]), "Deployment")["spec"]["strategy"] == want


@pytest.mark.parametrize(
    ("case", "want"),
    [
        ("nothing", {"maxUnavailable": 1}),
        ("three replicas, slow lease", {"minAvailable": "50%"}),
        ("a budget by number", {"maxUnavailable": 2}),
    ],
)
def test_the_budget_is_what_was_asked_for(helm: Helm, case: str, want: dict[str, object]):
    spec = one(helm.template(VALUES[case]), "PodDisruptionBudget")["spec"]

    assert {key: spec[key] for key in spec.keys() & {"minAvailable", "maxUnavailable"}} == want


def test_one_replica_has_no_budget_that_would_block_its_node(helm: Helm):
    objects = helm.template(VALUES["one replica without a lease"])

    assert of_kind(objects, "PodDisruptionBudget") == []


def test_spreading_counts_the_pods_of_this_release_unless_configured_otherwise(helm: Helm):
    objects = helm.template(VALUES["on the control plane"])

    zones, hosts = pod(objects)["spec"]["topologySpreadConstraints"]
    assert zones["labelSelector"] == {"matchLabels": {"mine": "yes"}}
    assert hosts["labelSelector"] == one(objects, "Deployment")["spec"]["selector"]


def test_labels_of_ones_own_never_change_what_is_selected(helm: Helm):
    stolen = {"app.kubernetes.io/name": "other"}

    objects = helm.template({"podLabels": stolen, "commonLabels": stolen})

    assert pod(objects)["metadata"]["labels"]["app.kubernetes.io/name"] == NAME


def test_two_releases_share_no_object(helm: Helm):
    def keys(name: str) -> set[tuple[str, str]]:
        objects = helm.template({"fullnameOverride": name}, release=name)
        return {(each["kind"], each["metadata"]["name"]) for each in objects}

    assert keys("first") & keys("second") == set()


def test_a_long_name_is_cut_so_that_every_object_can_have_it(helm: Helm):
    objects = helm.template({"grafanaDashboard": {"enabled": True}}, release="r" * 53)

    # A pod has the name of its Deployment and 17 characters more.
    assert max(len(each["metadata"]["name"]) for each in objects) <= 63
    assert len(one(objects, "Deployment")["metadata"]["name"]) <= 63 - 17


def test_another_name_is_that_of_lease_and_right_as_well(helm: Helm):
    objects = helm.template({"fullnameOverride": "second"})

    assert "resourceName: second" in configuration(objects)
    assert one(objects, "Role")["rules"][1]["resourceNames"] == ["second"]


def test_without_a_lease_there_is_no_right_to_one(helm: Helm):
    objects = helm.template(VALUES["one replica without a lease"])

    resources = [each["resources"] for each in one(objects, "Role")["rules"]]
    assert resources == [["configmaps"], ["configmaps"], ["deployments"]]


def test_no_state_of_the_process_is_part_of_the_release(helm: Helm):
    for values in VALUES.values():
        objects = helm.template(values)

        assert of_kind(objects, "Lease") == []
        assert [each for each in of_kind(objects, "ConfigMap") if not each.get("data")] == []
        name = one(objects, "Deployment")["metadata"]["name"]
        assert f"--owner-deployment={name}" in container(objects)["args"]


def test_where_victims_are_only_evicted_there_is_no_right_to_delete_pods(helm: Helm):
    objects = helm.template({"evictOnly": True})

    verbs = {
        resource: rule["verbs"]
        for rule in one(objects, "ClusterRole", NAME)["rules"]
        for resource in rule["resources"]
    }
    assert verbs["pods"] == ["get", "list", "watch"]
    assert verbs["pods/eviction"] == ["create"]
    assert "--evict-only" in container(objects)["args"]
    assert "--evict-only" not in container(helm.template())["args"]


def test_the_release_to_decide_as_is_a_value(helm: Helm):
    fixed = container(helm.template({"reference": "v1.37"}))["args"]
    default = container(helm.template())["args"]

    assert "--reference=v1.37" in fixed
    assert not [each for each in default if each.startswith("--reference=")]


@pytest.mark.parametrize(("size", "volume"), [("64Mi", "81Mi"), ("1Mi", "2Mi"), ("2Gi", "2561Mi")])
def test_the_recorder_has_a_bounded_volume(helm: Helm, size: str, volume: str):
    objects = helm.template({"recorder": {"size": size, "retention": "30m"}})

    found = pod(objects)
    (kept,) = (each for each in found["spec"]["volumes"] if each["name"] == "recording")
    (mount,) = (each for each in container(objects)["volumeMounts"] if each["name"] == "recording")
    assert kept["emptyDir"] == {"sizeLimit": volume}
    assert container(objects)["securityContext"]["readOnlyRootFilesystem"] is True
    assert {
        f"--recording-dir={mount['mountPath']}",
        f"--recording-size={size}",
        "--recording-retention=30m",
    } <= set(container(objects)["args"])
    assert container(objects)["resources"]["requests"]["ephemeral-storage"] == volume
    # The cluster autoscaler may still remove the node.
    local = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
    assert found["metadata"]["annotations"][local] == "recording"


def test_the_recorder_can_be_switched_off(helm: Helm):
    objects = helm.template({"recorder": {"enabled": False}})

    assert not [each for each in container(objects)["args"] if "recording" in each]
    assert "ephemeral-storage" not in container(objects)["resources"]["requests"]
    assert "recording" not in {each["name"] for each in pod(objects)["spec"]["volumes"]}
    assert "recording" not in str(pod(objects)["metadata"]["annotations"])


def test_a_serving_certificate_is_mounted_and_used(helm: Helm):
    objects = helm.template(VALUES["locked up"])

    (path,) = (
        mount["mountPath"] for mount in container(objects)["volumeMounts"] if mount["name"] == "tls"
    )
    assert f"--tls-cert-file={path}/tls.crt" in container(objects)["args"]
    assert f"--tls-private-key-file={path}/tls.key" in container(objects)["args"]


def test_the_notes_name_the_next_commands(helm: Helm):
    notes = (CHART / "templates" / "NOTES.txt").read_text()

    for wanted in (
        "rollout status",
        "get lease",
        "schedulerName",
        "logs",
        "port-forward",
        "No other release",
    ):
        assert wanted in notes


def test_a_namespace_and_a_release_may_be_numbers(helm: Helm):
    objects = helm.template(VALUES["locked up"], release="123", namespace="456")

    for each in objects:
        metadata = each["metadata"]
        texts = [metadata["name"], *metadata["labels"].values(), metadata.get("namespace", "")]
        assert [text for text in texts if not isinstance(text, str)] == []
    for binding in of_kind(objects, "RoleBinding"):
        assert [subject["namespace"] for subject in binding["subjects"]] == ["456"]
    lease = of_kind(objects, "FlowSchema")[0]["spec"]["rules"][0]["resourceRules"][0]
    assert lease["namespaces"] == ["456"]


def test_probes_wait_as_long_as_those_of_kube_scheduler(helm: Helm):
    found = container(helm.template())

    times = {
        name: {key: value for key, value in found[name].items() if key != "httpGet"}
        for name in ("startupProbe", "livenessProbe")
    }
    # Source: kubeadm v1.36.3 staticpod.LivenessProbe, staticpod.StartupProbe.
    usual = {"initialDelaySeconds": 10, "timeoutSeconds": 15, "periodSeconds": 10}
    assert times == {
        "startupProbe": {**usual, "failureThreshold": 24},
        "livenessProbe": {**usual, "failureThreshold": 8},
    }
    assert {found[name]["httpGet"]["path"] for name in times} == {"/livez"}
    assert found["readinessProbe"]["timeoutSeconds"] == 15


def test_replicas_run_on_linux_and_see_no_variables_of_services(helm: Helm):
    spec = pod(helm.template({"nodeSelector": {"fast": "yes"}}))["spec"]

    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", "fast": "yes"}
    assert spec["enableServiceLinks"] is False


def test_on_openshift_ids_come_from_the_namespace(helm: Helm):
    assert pod(helm.template(VALUES["on OpenShift"]))["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


@pytest.mark.parametrize(
    ("values", "pods"),
    [({}, "5"), ({"replicaCount": 3}, "7"), ({"resourceQuota": {"pods": 9}}, "9")],
)
def test_a_quota_admits_the_priority_class_and_a_roll_out(helm: Helm, values: dict, pods: str):
    quota = {"create": True, **values.get("resourceQuota", {})}

    spec = one(helm.template({**values, "resourceQuota": quota}), "ResourceQuota")["spec"]

    assert spec["hard"] == {"pods": pods}
    (expression,) = spec["scopeSelector"]["matchExpressions"]
    assert expression["values"] == ["system-cluster-critical"]


def test_a_certificate_of_cert_manager_is_used_and_verified(helm: Helm):
    objects = helm.template(VALUES["a certificate of cert-manager"], namespace="there")

    made = one(objects, "Certificate")["spec"]
    (volume,) = (each for each in pod(objects)["spec"]["volumes"] if each["name"] == "tls")
    assert volume["secret"]["secretName"] == made["secretName"]
    assert any(each.startswith("--tls-cert-file=") for each in container(objects)["args"])
    (endpoint,) = one(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["tlsConfig"] == {
        "ca": {"secret": {"name": made["secretName"], "key": "ca.crt"}},
        "serverName": "preemptive-scheduler.there.svc",
    }
    assert endpoint["tlsConfig"]["serverName"] in made["dnsNames"]


def test_more_objects_are_made_as_they_are(helm: Helm):
    given = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}}

    assert one(helm.template({"extraObjects": [given]}), "Secret") == given


def test_another_tag_is_another_version(helm: Helm):
    objects = helm.template({"image": {"tag": "v2"}})

    labels = one(objects, "Deployment")["metadata"]["labels"]
    assert labels["app.kubernetes.io/version"] == "v2"


def test_replicas_may_run_in_another_runtime(helm: Helm):
    # Not among VALUES: the API server admits no pod of a RuntimeClass that does not exist.
    assert pod(helm.template({"runtimeClassName": "kata"}))["spec"]["runtimeClassName"] == "kata"
    assert "runtimeClassName" not in pod(helm.template())["spec"]


def test_an_address_family_is_that_of_the_cluster_unless_one_is_asked_for(helm: Helm):
    # Not among VALUES: an API server with IPv4 alone refuses the other family.
    service = {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"]}

    both = one(helm.template({"service": service}), "Service")["spec"]

    assert (both["ipFamilyPolicy"], both["ipFamilies"]) == ("PreferDualStack", ["IPv6", "IPv4"])
    assert (
        one(helm.template(), "Service")["spec"].keys() & {"ipFamilyPolicy", "ipFamilies"} == set()
    )


@pytest.mark.parametrize("keep", [True, False])
def test_the_definition_can_be_part_of_the_release(helm: Helm, keep: bool):
    kind = "CustomResourceDefinition"
    shipped = yaml.safe_load((CHART / "crds" / "preemption-policies.yaml").read_text())

    found = one(helm.template({"crds": {"enabled": True, "keep": keep}}), kind)

    assert found["spec"] == shipped["spec"]
    assert found["metadata"]["name"] == shipped["metadata"]["name"]
    annotations = found["metadata"].get("annotations", {})
    assert annotations == ({"helm.sh/resource-policy": "keep"} if keep else {})
    assert of_kind(helm.template(), kind) == []


def test_pods_are_admitted_by_namespace_and_priority_class(helm: Helm):
    objects = helm.template(
        {
            **VALUES["pods admitted by namespace"],
            "config": {"profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]},
        }
    )

    policy = one(objects, "ValidatingAdmissionPolicy", f"{NAME}-pods")["spec"]
    binding = one(objects, "ValidatingAdmissionPolicyBinding", f"{NAME}-pods")["spec"]
    (condition,) = policy["matchConditions"]
    assert condition["expression"] == 'object.spec.schedulerName in ["a","b"]'
    assert binding == {"policyName": f"{NAME}-pods", "validationActions": ["Deny"]}
    labels = (
        '(("example.com/scheduler" in variables.labels && '
        'variables.labels["example.com/scheduler"] == "preemptive") && '
        '("tier" in variables.labels && variables.labels["tier"] == "batch"))'
    )
    assert [each["expression"] for each in policy["validations"]] == [
        f'(request.namespace in ["batch","research"] || {labels})',
        '!(variables.priorityClass in ["urgent","high"]) || (request.namespace in ["research"])',
        '!(variables.priorityClass in ["top"]) || '
        '((("tier" in variables.labels && variables.labels["tier"] == "production")))',
    ]


def test_without_namespaces_priority_classes_alone_are_restricted(helm: Helm):
    values = {"enabled": True, "priorityClasses": [{"names": ["top"], "namespaces": ["x"]}]}

    policy = one(
        helm.template({"podAdmission": values}), "ValidatingAdmissionPolicy", f"{NAME}-pods"
    )["spec"]

    (rule,) = policy["validations"]
    assert "PriorityClass" in rule["messageExpression"]


def test_relabelings_follow_the_rule_that_names_the_job(helm: Helm):
    (endpoint,) = one(helm.template(VALUES["monitored by a service"]), "ServiceMonitor")["spec"][
        "endpoints"
    ]

    assert [rule["targetLabel"] for rule in endpoint["relabelings"]] == ["job", "cluster"]
    (endpoint,) = one(helm.template(VALUES["monitored by pods"]), "PodMonitor")["spec"][
        "podMetricsEndpoints"
    ]
    assert endpoint["metricRelabelings"] == [{"action": "labeldrop", "regex": "host"}]
