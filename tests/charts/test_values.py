"""Wrong values are refused, in words that say what is wrong; right ones are explained."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from deploy.tools.controlplane import binaries
from scheduler.config import policies
from tests.charts.rendering import CHART, NAME

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
TEXT = (CHART / "values.yaml").read_text()

#: Values that are refused, and a part of the message.
WRONG = yaml.safe_load(r"""
an unknown value: [{replicas: 3}, "additional properties 'replicas' not allowed"]
an unknown value further in:
- {image: {name: a}}
- "at '/image': additional properties 'name' not allowed"
fewer than no replicas: [{replicaCount: -1}, "at '/replicaCount': minimum: got -1, want 0"]
a tag with a digest: [{image: {tag: 'v1@sha256:0'}}, "at '/image/tag'"]
no profile: [{config: {profiles: []}}, "at '/config/profiles': minItems: got 0, want 1"]
a profile without a name:
- {config: {profiles: [{}]}}
- "at '/config/profiles/0': missing property 'schedulerName'"
the lease in the configuration:
- {config: {leaderElection: {leaderElect: false}}}
- "at '/config': additional properties 'leaderElection' not allowed"
an argument that is no flag: [{extraArgs: [run]}, "at '/extraArgs/0': 'run'"]
a priority that only the system may have:
- {priorityClasses: [{name: a, value: 2000000000}]}
- "at '/priorityClasses/0/value': maximum"
a name that is too long:
- {fullnameOverride: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}
- "at '/fullnameOverride': maxLength"
several replicas without a lease:
- {leaderElection: {enabled: false}}
- replicaCount must be 1 if leaderElection.enabled is false
a monitor that may not read:
- {podMonitor: {enabled: true}}
- podMonitor needs podMonitor.authorization or metrics.anonymous
both monitors:
- {metrics: {anonymous: true}, podMonitor: {enabled: true}, serviceMonitor: {enabled: true}}
- serviceMonitor and podMonitor exclude each other
a monitor of a service that is not made:
- {metrics: {anonymous: true}, service: {create: false}, serviceMonitor: {enabled: true}}
- serviceMonitor needs service.create
a budget that says two things:
- {podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}}
- 'podDisruptionBudget takes minAvailable or maxUnavailable, not both'
a lease that ends before its renewal:
- {leaderElection: {leaseDuration: 5s}}
- leaderElection.leaseDuration (5s) must be longer than leaderElection.renewDeadline (10s)
a lease that cannot be renewed twice:
- {leaderElection: {renewDeadline: 2400ms}}
- leaderElection.renewDeadline (2400ms) must be longer than 1.2 times leaderElection.retryPeriod
the name of kube-scheduler:
- {config: {profiles: [{schedulerName: default-scheduler}]}}
- schedulerName default-scheduler belongs to kube-scheduler
a budget of more replicas than there are:
- {podDisruptionBudget: {minAvailable: 5}}
- podDisruptionBudget.minAvailable 5 of 2 replicas allows no eviction
a budget of all replicas:
- {podDisruptionBudget: {minAvailable: 100%}}
- podDisruptionBudget.minAvailable 100% of 2 replicas allows no eviction
a key that everybody could read:
- config:
    profiles: [{schedulerName: a}]
    extenders: [{urlPrefix: 'https://e', tlsConfig: {keyData: 'LS0='}}]
- 'config.extenders: the key of https://e would be readable for everybody'
a budget of a share that is rounded up to all replicas:
- {podDisruptionBudget: {minAvailable: 51%}}
- podDisruptionBudget.minAvailable 51% of 2 replicas allows no eviction
a budget that lets no replica go:
- {podDisruptionBudget: {maxUnavailable: 0}}
- podDisruptionBudget.maxUnavailable 0 allows no eviction
two pods without a lease during an update:
- {replicaCount: 1, leaderElection: {enabled: false}, strategy: {type: RollingUpdate}}
- strategy.type must be Recreate if leaderElection.enabled is false
a profile that is there twice:
- {config: {profiles: [{schedulerName: a}, {schedulerName: a}]}}
- 'config.profiles: a is there twice'
a PriorityClass that is there twice:
- {priorityClasses: [{name: a, value: 1}, {name: a, value: 2}]}
- 'priorityClasses: a is there twice'
a PriorityClass of Kubernetes:
- {priorityClasses: [{name: system-a, value: 1}]}
- 'priorityClasses: system-a: names that begin with system- belong to Kubernetes'
two defaults for the priority:
- priorityClasses:
  - {name: a, value: 1, globalDefault: true}
  - {name: b, value: 2, globalDefault: true}
- 'priorityClasses: a, b: only one of them can be the globalDefault'
a quantity in a unit that there is not:
- {resources: {requests: {memory: 256MB}}}
- 'resources.requests.memory: 256MB is no quantity; write it as 500m or 256Mi'
a limit below the request:
- {resources: {limits: {cpu: 0.05}}}
- resources.limits.cpu (0.05) must not be less than the request (100m)
'a limit below the request, in another unit':
- {resources: {requests: {memory: 1Gi}, limits: {memory: 1000M}}}
- resources.limits.memory (1000M) must not be less than the request (1Gi)
a limit in which no replica starts:
- {resources: {requests: {memory: 32Mi}, limits: {memory: 64Mi}}}
- resources.limits.memory (64Mi) must be at least 128Mi
no bound for victims:
- {admission: {maxVictimPriority: null}}
- "at '/admission': missing property 'maxVictimPriority'"
no list of protected namespaces:
- {admission: {protectedNamespaces: null}}
- "at '/admission': missing property 'protectedNamespaces'"
'no port of the API server, which would allow all':
- {networkPolicy: {apiServerPorts: null}}
- "at '/networkPolicy': missing property 'apiServerPorts'"
an address that no probe reaches:
- {extraArgs: ['--bind-address=127.0.0.1']}
- 'extraArgs: --bind-address=127.0.0.1: the kubelet could not reach the probes'
no probe: [{startupProbe: null}, startupProbe cannot be left out]
root that must not be root:
- {podSecurityContext: {runAsUser: 0}}
- 'podSecurityContext: the kubelet starts no container with runAsUser 0 and runAsNonRoot'
a quota that stops every update:
- {resourceQuota: {create: true, pods: 2}}
- resourceQuota.pods must be at least 3
a viewer of no namespace:
- {api: {viewers: [{kind: ServiceAccount, name: portal}]}}
- 'api.viewers: the ServiceAccount "portal" needs a namespace'
a certificate that is renewed before it is made:
- {tls: {certManager: {enabled: true, issuerRef: {name: a}, renewBefore: 2160h}}}
- tls.certManager.renewBefore (2160h) must be shorter than duration (2160h)
addresses that Cilium does not need:
- {networkPolicy: {flavor: cilium, apiServerCIDRs: ['10.0.0.1/32']}}
- networkPolicy.flavor cilium knows where the API server is
'addresses, and every address':
- {networkPolicy: {apiServerPortsOnly: true, apiServerCIDRs: ['10.0.0.1/32']}}
- 'networkPolicy takes apiServerCIDRs or apiServerPortsOnly, not both'
a profile that there is not:
- {schedulerNameFor: {schedulerName: other}}
- 'schedulerNameFor.schedulerName: other is none of config.profiles (preemptive-scheduler)'
an address that there cannot be:
- {networkPolicy: {enabled: true, apiServerCIDRs: ['300.0.0.1/32']}}
- 'networkPolicy.apiServerCIDRs: 300.0.0.1/32 is no range of addresses'
a range of more bits than an address has:
- {networkPolicy: {enabled: true, apiServerCIDRs: ['10.0.0.0/33']}}
- 'networkPolicy.apiServerCIDRs: 10.0.0.0/33 is no range of addresses'
a flag for which there is a value:
- {extraArgs: ['--leader-elect=false']}
- 'extraArgs: --leader-elect is not for extraArgs; use leaderElection.enabled'
a flag that there is not:
- {extraArgs: ['--compare-cache=5m']}
- 'extraArgs: the scheduler has no flag --compare-cache'
a recorder that forgets at once:
- {recorder: {retention: 30s}}
- recorder.retention (30s) must be at least 1m
a reader of no namespace:
- {metrics: {readers: [{kind: ServiceAccount, name: prometheus}]}}
- 'metrics.readers: the ServiceAccount "prometheus" needs a namespace'
a token for a server that cannot be verified:
- {serviceMonitor: {enabled: true}}
- serviceMonitor would send the token of Prometheus to a server that it cannot verify
a token from a pod for a server that cannot be verified:
- {podMonitor: {enabled: true, authorization: {credentials: {name: a}}}}
- podMonitor would send the token of Prometheus to a server that it cannot verify
a file with a token on OpenShift:
- {openshift: {enabled: true}, tls: {existingSecret: serving}, serviceMonitor: {enabled: true}}
- serviceMonitor needs serviceMonitor.authorization or metrics.anonymous
two certificates:
- {tls: {existingSecret: a, certManager: {enabled: true}}}
- 'tls takes existingSecret or certManager, not both'
a certificate without an issuer:
- {tls: {certManager: {enabled: true}}}
- tls.certManager needs issuerRef.name
a network policy without addresses:
- {networkPolicy: {enabled: true}}
- networkPolicy needs apiServerCIDRs
a quota for no priority:
- {resourceQuota: {create: true}, priorityClassName: ''}
- resourceQuota needs priorityClassName
an admission that restricts nothing:
- {podAdmission: {enabled: true}}
- podAdmission restricts nothing
a PriorityClass of no namespace:
- {podAdmission: {enabled: true, priorityClasses: [{names: [a, b]}]}}
- 'podAdmission.priorityClasses: a, b needs namespaces or namespaceLabels'
a namespace that cannot be:
- {podAdmission: {namespaces: ["Prod'] || true"]}}
- "at '/podAdmission/namespaces/0'"
no ServiceAccount:
- {serviceAccount: {create: false}}
- serviceAccount.name is required if serviceAccount.create is false
""")
WRONG["a configuration that no annotation holds"] = (
    {
        "config": {"profiles": [{"schedulerName": "ä" * 61_500}]},
        "podAnnotations": {"note": "a" * 123_000},
    },
    "the annotations of a pod hold 245760 (240 KiB)",
)


@pytest.mark.chart
@pytest.mark.parametrize("case", WRONG)
def test_it_is_refused(helm, case):
    values, message = WRONG[case]

    with pytest.raises(ValueError, match=re.escape(message)):
        helm.template(values)


@pytest.mark.chart
def test_a_parent_chart_may_switch_it_off_and_share_values(helm):
    assert helm.template({"enabled": True, "global": {"imageRegistry": "a"}}) == helm.template()


def resolved(schema):
    while "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def leaves(values, schema, path=""):
    """Yield each value that the chart has a default for, with the schema of its parent."""
    for key, value in values.items():
        yield f"{path}{key}", schema
        below = resolved(resolved(schema)["properties"].get(key, {}))
        if isinstance(value, dict) and below.get("properties"):
            yield from leaves(value, below, f"{path}{key}.")


DEFAULTS = dict(leaves(yaml.safe_load(TEXT), SCHEMA))
#: Values that Kubernetes explains.
FOREIGN = (
    "resources.", "console.resources.", "startupProbe.", "livenessProbe.", "readinessProbe.",
    "config.profiles",
)  # fmt: skip


@pytest.mark.parametrize("path", DEFAULTS)
def test_the_schema_knows_every_value(path):
    assert path.rsplit(".", 1)[-1] in resolved(DEFAULTS[path])["properties"]


def test_every_value_of_the_schema_has_a_default():
    wanted = SCHEMA["properties"].keys() - {"global", "enabled"}

    assert {path.split(".")[0] for path in DEFAULTS} == wanted


def test_the_schema_lets_no_unknown_value_pass():
    parts = [each for each in SCHEMA["$defs"].values() if "required" not in each]
    objects = [SCHEMA, *SCHEMA["properties"].values(), *parts]

    closed = [each for each in objects if "properties" in each]
    assert closed
    assert [each for each in closed if each.get("additionalProperties") is not False] == []


def test_every_value_is_explained():
    lines = TEXT.splitlines()
    unexplained = []
    parents: list[str] = []
    for number, line in enumerate(lines):
        found = re.match(r"^( *)([A-Za-z][A-Za-z_]*):", line)
        if found is None:
            continue
        del parents[len(found[1]) // 2 :]
        path = ".".join([*parents, found[2]])
        parents.append(found[2])
        if path not in DEFAULTS or path.startswith(FOREIGN):
            continue
        explained = lines[number - 1].lstrip().startswith("#")
        opens = line.rstrip().endswith(":")
        if not explained and not opens:
            unexplained.append(path)
    assert unexplained == []


@pytest.mark.chart
@pytest.mark.parametrize("name", [NAME, f"{NAME}-crds"])
def test_the_page_of_a_chart_is_generated_from_its_values(name, tmp_path):
    chart = CHART.with_name(name)
    for file in ("Chart.yaml", "values.yaml", "README.md.gotmpl"):
        shutil.copyfile(chart / file, tmp_path / file)
    command = [binaries.find("helm-docs"), "--sort-values-order=file", "--log-level=warning"]

    subprocess.run(command, cwd=tmp_path, check=True)

    want = (tmp_path / "README.md").read_text()
    assert (chart / "README.md").read_text() == want, "run: make golden"


def test_the_page_of_the_chart_explains_every_value():
    rows = re.findall(
        r"^\| `(\S+)` \| .*\| (.*) \|$", (CHART / "README.md").read_text(), re.MULTILINE
    )

    known = {path for path in DEFAULTS if not path.startswith(FOREIGN)}
    sections = {path.rpartition(".")[0] for path in known}
    assert known - sections <= {name for name, _ in rows}
    assert [name for name, text in rows if len(text) < 10] == []


@pytest.mark.parametrize("name", [NAME, f"{NAME}-crds"])
def test_the_annotations_for_artifact_hub_are_true(name):
    chart = yaml.safe_load((CHART.with_name(name) / "Chart.yaml").read_text())
    about = {
        key.removeprefix("artifacthub.io/"): yaml.safe_load(text)
        for key, text in chart["annotations"].items()
    }
    definition = yaml.safe_load((CHART / "crds" / "preemption-policies.yaml").read_text())

    (crd,) = about["crds"]
    names, (version,) = definition["spec"]["names"], definition["spec"]["versions"]
    assert crd["name"] == definition["metadata"]["name"]
    assert (crd["kind"], crd["version"]) == (names["kind"], version["name"])
    (example,) = about["crdsExamples"]
    assert example["kind"] == names["kind"]
    assert policies.read(example).name == example["metadata"]["name"]
    kinds = {"added", "changed", "deprecated", "removed", "fixed", "security"}
    assert {change["kind"] for change in about["changes"]} <= kinds
    assert about["license"] == "Apache-2.0"


def test_both_charts_have_the_same_version():
    ours, other = (
        yaml.safe_load((CHART.with_name(name) / "Chart.yaml").read_text())
        for name in (NAME, f"{NAME}-crds")
    )

    for key in ("version", "appVersion", "kubeVersion"):
        assert ours[key] == other[key]
