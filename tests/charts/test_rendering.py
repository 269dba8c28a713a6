"""What the chart renders from values."""

import re

import pytest

from tests.charts.rendering import CHART, NAME, VALUES, container, of_kind, one

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
def test_the_linter_finds_nothing(helm, case):
    assert "1 chart(s) linted, 0 chart(s) failed" in helm.lint(VALUES[case])


@pytest.mark.parametrize("case", VALUES)
def test_objects_have_names_of_their_own_and_say_whose_they_are(helm, case):
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
def test_all_selectors_match_the_pod_labels(helm, case):
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


def test_no_template_asks_the_cluster_or_rolls_dice_or_hooks_into_a_release():
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())

    assert not re.search(r"\b(lookup|rand\w+|uuidv4|now|genCA|genSelfSignedCert)\b *[\"(\d]", text)
    assert "helm.sh/hook" not in text


def test_without_values_there_is_what_an_installation_needs_and_nothing_else(helm):
    kinds = [each["kind"] for each in helm.template()]

    assert {kind: kinds.count(kind) for kind in sorted(kinds)} == DEFAULT_KINDS


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
def test_the_image_is_named(helm, values, want):
    assert container(helm.template({"image": values}))["image"] == want


def test_a_replica_is_restricted(helm):
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


def test_another_configuration_replaces_the_pods_and_another_label_of_objects_does_not(helm):
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
def test_two_without_a_lease_never_run_together(helm, case, want):
    assert one(helm.template(VALUES[case]), "Deployment")["spec"]["strategy"] == want


def test_custom_labels_do_not_change_selectors(helm):
    stolen = {"app.kubernetes.io/name": "other"}

    objects = helm.template({"podLabels": stolen, "commonLabels": stolen})

    assert pod(objects)["metadata"]["labels"]["app.kubernetes.io/name"] == NAME


def test_a_long_name_is_cut_so_that_every_object_can_have_it(helm):
    objects = helm.template({"grafanaDashboard": {"enabled": True}}, release="r" * 53)

    # A pod has the name of its Deployment and 17 characters more.
    assert max(len(each["metadata"]["name"]) for each in objects) <= 63
    assert len(one(objects, "Deployment")["metadata"]["name"]) <= 63 - 17


def test_without_a_lease_there_is_no_right_to_one(helm):
    objects = helm.template(VALUES["one replica without a lease"])

    resources = [each["resources"] for each in one(objects, "Role")["rules"]]
    assert resources == [["configmaps"], ["configmaps"], ["deployments"]]


def test_no_state_of_the_process_is_part_of_the_release(helm):
    for values in VALUES.values():
        objects = helm.template(values)

        assert of_kind(objects, "Lease") == []
        assert [each for each in of_kind(objects, "ConfigMap") if not each.get("data")] == []
        name = one(objects, "Deployment")["metadata"]["name"]
        assert f"--owner-deployment={name}" in container(objects)["args"]


def test_where_victims_are_only_evicted_there_is_no_right_to_delete_pods(helm):
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


@pytest.mark.parametrize(("size", "volume"), [("64Mi", "81Mi"), ("1Mi", "2Mi"), ("2Gi", "2561Mi")])
def test_the_recorder_has_a_bounded_volume(helm, size, volume):
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


def test_the_recorder_can_be_switched_off(helm):
    objects = helm.template({"recorder": {"enabled": False}})

    assert not [each for each in container(objects)["args"] if "recording" in each]
    assert "ephemeral-storage" not in container(objects)["resources"]["requests"]
    assert "recording" not in {each["name"] for each in pod(objects)["spec"]["volumes"]}
    assert "recording" not in str(pod(objects)["metadata"]["annotations"])


def test_a_serving_certificate_is_mounted_and_used(helm):
    objects = helm.template(VALUES["locked up"])

    (path,) = (
        mount["mountPath"] for mount in container(objects)["volumeMounts"] if mount["name"] == "tls"
    )
    assert f"--tls-cert-file={path}/tls.crt" in container(objects)["args"]
    assert f"--tls-private-key-file={path}/tls.key" in container(objects)["args"]


def test_a_namespace_and_a_release_may_be_numbers(helm):
    objects = helm.template(VALUES["locked up"], release="123", namespace="456")

    for each in objects:
        metadata = each["metadata"]
        texts = [metadata["name"], *metadata["labels"].values(), metadata.get("namespace", "")]
        assert [text for text in texts if not isinstance(text, str)] == []
    for binding in of_kind(objects, "RoleBinding"):
        assert [subject["namespace"] for subject in binding["subjects"]] == ["456"]
    lease = of_kind(objects, "FlowSchema")[0]["spec"]["rules"][0]["resourceRules"][0]
    assert lease["namespaces"] == ["456"]


@pytest.mark.parametrize(
    ("values", "pods"),
    [({}, "5"), ({"replicaCount": 3}, "7"), ({"resourceQuota": {"pods": 9}}, "9")],
)
def test_a_quota_admits_the_priority_class_and_a_roll_out(helm, values, pods):
    quota = {"create": True, **values.get("resourceQuota", {})}

    spec = one(helm.template({**values, "resourceQuota": quota}), "ResourceQuota")["spec"]

    assert spec["hard"] == {"pods": pods}
    (expression,) = spec["scopeSelector"]["matchExpressions"]
    assert expression["values"] == ["system-cluster-critical"]


def test_a_certificate_of_cert_manager_is_used_and_verified(helm):
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
