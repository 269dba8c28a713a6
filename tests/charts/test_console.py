"""The console in the cluster: off by default, without rights, and apart from the scheduler."""

from typing import Any, Final

import pytest
import yaml

from deploy.tools.controlplane.manifests import ResourcePaths
from scheduler.cli import main
from tests.charts.rendering import NAME, VALUES, of_kind, one
from tests.charts.test_live import QUERY

pytestmark = pytest.mark.chart

#: Values of installations with the console.
CASES: Final[dict[str, Any]] = yaml.safe_load("""
behind an ingress:
  tls: {certManager: {enabled: true, issuerRef: {name: internal}}}
  console:
    enabled: true
    url: https://console.example.com
    ingress:
      {enabled: true, className: nginx, tlsSecret: console, annotations: {a.example/b: c}}
locked up:
  tls: {existingSecret: serving}
  networkPolicy: {enabled: true, apiServerCIDRs: ['10.0.0.1/32']}
  commonLabels: {cost-centre: '7'}
  commonAnnotations: {owner: infra}
  console:
    enabled: true
    url: https://console.example.com:8443
    name: 'prod: "eu" #1'
    color: red
    ingress: {enabled: true}
    networkPolicy: {from: [{namespaceSelector: {matchLabels: {name: ingress}}}]}
    podAnnotations: {mesh.example/inject: 'false'}
    priorityClassName: system-cluster-critical
    tolerations: [{key: infra, operator: Exists}]
not verified, on OpenShift, in shadow mode:
  fullnameOverride: second
  nameOverride: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
  openshift: {enabled: true}
  shadow: {enabled: true}
  networkPolicy: {enabled: true, flavor: cilium}
  console: {enabled: true, url: 'http://localhost:8080', scheduler: {insecureSkipVerify: true}}
""")
UNVERIFIED: Final = {"scheduler": {"insecureSkipVerify": True}}
#: The kinds that only the console has, or one more of.
ADDED: Final = ("ServiceAccount", "Service", "Service", "Deployment")


def of_console(objects):
    """Return the objects of the console, those that have its name in their labels."""
    return [
        each
        for each in objects
        if each["metadata"]["labels"]["app.kubernetes.io/name"].endswith("-console")
    ]


def deployment(objects):
    return one(of_console(objects), "Deployment")


def pod(objects):
    return deployment(objects)["spec"]["template"]


def container(objects):
    (found,) = pod(objects)["spec"]["containers"]
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_linter_finds_nothing(helm, case):
    assert "1 chart(s) linted, 0 chart(s) failed" in helm.lint(CASES[case])


@pytest.mark.parametrize("case", CASES)
def test_it_adds_its_own_objects_and_changes_no_other_but_who_may_connect(helm, case):
    without = {**CASES[case], "console": {"enabled": False}}
    before, after = helm.template(without), helm.template(CASES[case])

    rest = [each for each in after if each not in of_console(after)]
    changed = [new for new, old in zip(rest, before, strict=True) if new != old]

    assert [each["kind"] for each in changed] in ([], ["NetworkPolicy"])
    added = sorted(each["kind"] for each in of_console(after))
    assert [kind for kind in added if kind not in {"Ingress", "NetworkPolicy"}] == sorted(ADDED)
    names = [(each["kind"], each["metadata"]["name"]) for each in after]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("case", VALUES)
def test_without_its_value_nothing_of_it_is_there(helm, case):
    assert of_console(helm.template(VALUES[case])) == []


@pytest.mark.parametrize("case", CASES)
def test_it_has_neither_rights_nor_a_token(helm, case):
    objects = helm.template(CASES[case])
    account = one(of_console(objects), "ServiceAccount")
    spec = pod(objects)["spec"]

    assert account["automountServiceAccountToken"] is False
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == account["metadata"]["name"]
    subjects = [
        (subject["kind"], subject["name"])
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for binding in of_kind(objects, kind)
        for subject in binding["subjects"]
    ]
    assert subjects
    assert ("ServiceAccount", account["metadata"]["name"]) not in subjects
    projected = [each for each in spec.get("volumes", ()) if "secret" not in each]
    assert projected == []


@pytest.mark.parametrize("case", CASES)
def test_it_gets_the_authority_of_the_scheduler_and_not_its_key(helm, case):
    objects = helm.template(CASES[case])

    authorities = [
        each["secret"]
        for each in pod(objects)["spec"].get("volumes", ())
        if each["name"] == "scheduler-ca"
    ]
    verified = "scheduler" not in CASES[case]["console"]
    assert len(authorities) == verified
    for each in authorities:
        assert each["items"] == [{"key": "ca.crt", "path": "ca.crt"}]


@pytest.mark.parametrize("case", CASES)
def test_no_selector_takes_a_pod_of_the_other(helm, case):
    objects = helm.template(CASES[case])
    own = pod(objects)["metadata"]["labels"].items()
    (scheduler,) = (each for each in of_kind(objects, "Deployment") if each != deployment(objects))
    theirs = scheduler["spec"]["template"]["metadata"]["labels"].items()
    replicas = f"{scheduler['metadata']['name']}-replicas"

    for each in objects:
        spec = each.get("spec", {})
        selector = (
            spec.get("selector") or spec.get("podSelector") or spec.get("endpointSelector") or {}
        )
        labels = selector.get("matchLabels", selector)
        if not labels:
            continue
        is_own = each in of_console(objects) and each["metadata"]["name"] != replicas
        assert (own >= labels.items(), theirs >= labels.items()) == (is_own, not is_own), each


@pytest.mark.parametrize("case", CASES)
def test_the_command_line_is_one_that_the_program_accepts(helm, case):
    arguments = main.parser().parse_args(container(helm.template(CASES[case]))["args"])

    values = CASES[case]["console"]
    assert arguments.url == values["url"]
    assert arguments.name == values.get("name", "")
    assert arguments.insecure_skip_tls_verify is ("scheduler" in values)
    assert bool(arguments.certificate_authority) is not arguments.insecure_skip_tls_verify


def test_the_scheduler_is_reached_by_the_addresses_and_verified_by_the_name_of_its_certificate(
    helm,
):
    objects = helm.template(CASES["behind an ingress"], namespace="there")
    arguments = main.parser().parse_args(container(objects)["args"])

    replicas = one(objects, "Service", f"{NAME}-replicas")
    assert replicas["spec"]["clusterIP"] == "None"
    assert arguments.scheduler == [f"https://{replicas['metadata']['name']}.there.svc:10259"]
    assert arguments.tls_server_name in one(objects, "Certificate")["spec"]["dnsNames"]


@pytest.mark.parametrize(
    ("case", "secret"), [("behind an ingress", {"secretName": "console"}), ("locked up", {})]
)
def test_the_ingress_is_for_the_host_of_the_url_and_always_for_https(helm, case, secret):
    """With `tls`, controllers redirect http, also where they have the certificate themselves."""
    spec = one(helm.template(CASES[case]), "Ingress")["spec"]

    assert spec["tls"] == [{"hosts": ["console.example.com"], **secret}]
    (rule,) = spec["rules"]
    (path,) = rule["http"]["paths"]
    assert rule["host"] == "console.example.com"
    assert path["backend"]["service"] == {"name": f"{NAME}-console", "port": {"name": "http"}}


def test_network_policies_let_the_ingress_reach_the_console_and_the_console_the_scheduler(helm):
    objects = helm.template(CASES["locked up"])
    console, scheduler = (
        one(objects, "NetworkPolicy", name)["spec"] for name in (f"{NAME}-console", NAME)
    )

    (entry,) = console["ingress"]
    assert entry["from"] == [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}]
    to_scheduler, to_names = console["egress"]
    assert to_scheduler["to"] == [{"podSelector": scheduler["podSelector"]}]
    assert {each["port"] for each in to_names["ports"]} == {53}
    (entry,) = scheduler["ingress"]
    assert entry["from"] == [{"podSelector": console["podSelector"]}]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "console.url is required"),
        ({"url": "https://a.example/path"}, "at '/console/url'"),
        ({"url": "http://a.example"}, "at '/console/url'"),
        ({"url": "https://a.example:99999"}, "at '/console/url'"),
        ({"url": "https://a..b.example"}, "at '/console/url'"),
        ({"url": "https://a.example"}, "to a server that it cannot verify"),
        ({"url": "https://a.example", "color": "mauve"}, "at '/console/color'"),
        ({"url": "https://a.example", "replicas": 2}, "additional properties 'replicas'"),
        (
            {"url": "http://localhost:1", **UNVERIFIED, "ingress": {"enabled": True}},
            "console.url must begin with https://",
        ),
        (
            {"url": "https://10.0.0.7", **UNVERIFIED, "ingress": {"enabled": True}},
            "console.url must have a name",
        ),
        (
            {"url": "https://a.example", **UNVERIFIED, "resources": {"limits": {"memory": "90Mi"}}},
            "console.resources.limits.memory (90Mi) must not be less than the request (96Mi)",
        ),
    ],
)
def test_values_that_do_not_work_are_refused(helm, values, message):
    with pytest.raises(ValueError, match="console") as refused:
        helm.template({"console": {"enabled": True, **values}})

    assert message in str(refused.value)


@pytest.mark.cluster
@pytest.mark.parametrize("case", CASES)
def test_the_api_server_accepts_its_objects_and_the_restricted_standard_its_pod(
    helm, control_plane, namespace, case
):
    api = control_plane.api
    paths = ResourcePaths(lambda root: api.get(root)["resources"])
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    api.patch(f"/api/v1/namespaces/{namespace}", restricted)
    objects = of_console(helm.template(CASES[case], namespace=namespace))
    account = one(objects, "ServiceAccount")
    api.apply(account)

    for each in objects:
        accepted = api.patch(paths.of(each), each, "apply", **QUERY)
        assert accepted["metadata"]["name"] == each["metadata"]["name"]
    template = pod(objects)
    made = {**template, "apiVersion": "v1", "kind": "Pod"}
    made["metadata"] = {**template["metadata"], "name": "console"}
    made["spec"] = {**template["spec"], "priorityClassName": None}
    path = f"/api/v1/namespaces/{namespace}/pods/console"
    admitted = api.patch(path, made, "apply", **QUERY)
    assert admitted["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
    assert [each["name"] for each in admitted["spec"].get("volumes", ())] == [
        each["name"] for each in template["spec"].get("volumes", ())
    ]
