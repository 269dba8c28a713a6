"""Rendering the chart with helm, over the combinations of values that users have."""

import copy
import functools
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from deploy.tools.controlplane import binaries

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "charts" / "preemptive-scheduler"
NAME: Final = "preemptive-scheduler"
KUBERNETES: Final = binaries.pinned_version("kube-apiserver")

Values: TypeAlias = Mapping[str, Any]
Json: TypeAlias = dict[str, Any]

#: Values that users have, by a short description.
VALUES: Final[Mapping[str, Values]] = yaml.safe_load("""
nothing: {}
monitored by a service:
  metrics: {readers: [{kind: ServiceAccount, name: prometheus, namespace: monitoring}]}
  serviceMonitor:
    enabled: true
    labels: {release: prometheus}
    honorLabels: true
    sampleLimit: 5000
    relabelings: [{targetLabel: cluster, replacement: blue}]
  tls: {existingSecret: serving}
  prometheusRule: {enabled: true, runbookUrl: 'https://docs.example/operations'}
  grafanaDashboard: {enabled: true, annotations: {folder: Kubernetes}}
monitored by pods:
  service: {create: false}
  podMonitor:
    enabled: true
    authorization: {credentials: {name: prometheus, key: token}}
    scrapeTimeout: 10s
    tlsConfig: {insecureSkipVerify: true}
    metricRelabelings: [{action: labeldrop, regex: host}]
  prometheusRule:
    enabled: true
    alertLabels: {team: platform}
    clusterLabel: cluster
    disabled: [PreemptiveSchedulerBudgetsViolated]
monitored by everybody: {metrics: {anonymous: true}, podMonitor: {enabled: true}}
one replica without a lease: {replicaCount: 1, leaderElection: {enabled: false}}
scaled to nothing: {replicaCount: 0}
'three replicas, slow lease':
  replicaCount: 3
  leaderElection: {leaseDuration: 1m0s, renewDeadline: 40s, retryPeriod: 5s}
  podDisruptionBudget: {minAvailable: 50%}
a budget by number: {podDisruptionBudget: {maxUnavailable: 2}}
a mirror:
  image:
    registry: 'mirror.example:5000'
    repository: infra/preemptive-scheduler
    digest: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'
    pullPolicy: Always
    pullSecrets: [{name: mirror}]
everything given by others:
  serviceAccount: {create: false, name: given}
  rbac: {create: false}
  admission: {enabled: false}
  flowSchemas: {create: false}
  podDisruptionBudget: {create: false}
  service: {create: false}
locked up:
  networkPolicy:
    enabled: true
    from: [{namespaceSelector: {matchLabels: {name: monitoring}}}]
    apiServerCIDRs: ['10.0.0.1/32']
    extraEgress: [{ports: [{port: 8888, protocol: TCP}]}]
  tls: {existingSecret: serving}
a network policy: {networkPolicy: {enabled: true, apiServerCIDRs: ['10.0.0.1/32', 'fd00::1/128']}}
a network policy of Cilium: {networkPolicy: {enabled: true, flavor: cilium}}
a network policy of ports only: {networkPolicy: {enabled: true, apiServerPortsOnly: true}}
a certificate of cert-manager:
  tls:
    certManager:
      enabled: true
      issuerRef: {name: internal, kind: ClusterIssuer}
      duration: 2160h
      renewBefore: 720h
  serviceMonitor: {enabled: true}
on OpenShift:
  openshift: {enabled: true}
  tls: {existingSecret: serving}
  serviceMonitor: {enabled: true, authorization: {credentials: {name: prometheus, key: token}}}
on GKE: {resourceQuota: {create: true}}
policies judged at admission:
  policyAdmission: {enabled: true, failurePolicy: Ignore}
  rbac: {policyRoles: false}
pods admitted by namespace:
  podAdmission:
    enabled: true
    namespaces: [batch, research]
    namespaceLabels: {example.com/scheduler: preemptive, tier: batch}
    priorityClasses:
    - {names: [urgent, high], namespaces: [research]}
    - {names: [top], namespaceLabels: {tier: production}}
pods of some namespaces get the scheduler:
  schedulerNameFor:
    namespaceSelector:
      matchLabels: {team: batch}
      matchExpressions: [{key: quiet, operator: DoesNotExist}]
    failurePolicy: Fail
neither volumes nor devices:
  rbac: {volumes: false, devices: false}
  config:
    profiles:
    - schedulerName: packing
      pluginConfig:
      - {name: PreemptiveScheduler, args: {reference: v1.37}}
      - {name: DefaultPreemption, args: {minCandidateNodesAbsolute: 10}}
    - {schedulerName: spreading}
writes limited further:
  admission:
    maxVictimPriority: 1000
    protectedNamespaces: [kube-system, storage]
    webhookKeys: [example.com/zone]
writes not limited: {admission: {enabled: false}}
the definition as an object of the release: {crds: {enabled: true}}
the definition goes with the release: {crds: {enabled: true, keep: false}}
administrators write policies: {rbac: {aggregatePolicyEdit: [admin]}}
two address families: {service: {ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv4]}}
surroundings of a pod:
  hostUsers: false
  dnsPolicy: None
  dnsConfig: {nameservers: ['10.0.0.10']}
  hostAliases: [{ip: '10.1.1.1', hostnames: [extender.example]}]
  deploymentAnnotations: {reloader.example/auto: 'true'}
  service: {ipFamilyPolicy: SingleStack, ipFamilies: [IPv4]}
  extraContainers:
  - name: proxy
    image: 'proxy.example/proxy:1'
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
on the control plane:
  nodeSelector: {node-role.kubernetes.io/control-plane: ''}
  tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: fast, operator: Exists}]}]
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: DoNotSchedule
    labelSelector: {matchLabels: {mine: 'yes'}}
  - {maxSkew: 2, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
  priorityClassName: ''
  resources: {requests: {cpu: 1, memory: 2Gi}, limits: {memory: 2147483648}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 50%}}
"labels and names of one's own":
  fullnameOverride: second
  commonLabels: {cost-centre: '7'}
  commonAnnotations: {owner: infra}
  podLabels: {mesh: 'no'}
  podAnnotations: {mesh.example/inject: 'false'}
  serviceAccount: {annotations: {cloud.example/role: scheduler}}
  service: {annotations: {a: b}}
beside other schedulers:
  shadow: {enabled: true, schedulers: [default-scheduler, batch]}
  prometheusRule: {enabled: true}
more of everything:
  extraArgs: ['--compare-cache-period=5m']
  recorder: {size: 2Gi, retention: 24h}
  extraEnv: [{name: HTTPS_PROXY, value: 'http://proxy.example:3128'}]
  extraEnvFrom: [{secretRef: {name: more, optional: true}}]
  extraVolumes: [{name: more, emptyDir: {}}]
  extraVolumeMounts: [{name: more, mountPath: /more}]
  logging: {format: text, verbosity: 4}
  rbac: {extraRules: [{apiGroups: [x.example], resources: [ys], verbs: [list]}]}
  priorityClasses:
  - {name: urgent, value: 1000000, description: Now.}
  - {name: patient, value: -5, preemptionPolicy: Never}
bounded:
  preemptionPolicies:
  - name: careful
    spec:
      preemptors: {maxPriority: 1000}
      budgets: [{maxVictims: 5, window: 1h, scope: Namespace}]
      podDisruptionBudgets: Strict
  - {name: watched, spec: {mode: Audit, maxVictimsPerPreemption: 1}}
profiles and extenders:
  config:
    percentageOfNodesToScore: 50
    podMaxBackoffSeconds: 60
    clientConnection: {qps: 100, burst: 200}
    profiles:
    - schedulerName: packing
      pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
    - {schedulerName: spreading, plugins: {score: {disabled: [{name: ImageLocality}]}}}
    extenders:
    - urlPrefix: 'http://extender.example:8888'
      filterVerb: filter
      httpTimeout: 2s
      ignorable: true
""")
MONITORED: Final = VALUES["monitored by a service"]
(PROMETHEUS,) = MONITORED["metrics"]["readers"]


@dataclass(frozen=True)
class Helm:
    """Runs helm on the chart."""

    path: Path

    def run(self, command: str, *arguments: str, values: Values | None = None) -> str:
        """Return what helm prints.

        Raises:
            ValueError: helm says no; the message is what it says.
        """
        installs = command in ("upgrade", "uninstall", "rollback")
        versions = () if installs else ("--kube-version", KUBERNETES)
        given = () if command in ("uninstall", "rollback") else ("--values=-",)
        answer = subprocess.run(
            [self.path, command, *arguments, *versions, *given],
            input=yaml.safe_dump(dict(values or {})),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if answer.returncode != 0:
            raise ValueError(answer.stdout + answer.stderr)
        return answer.stdout

    def lint(self, values: Values) -> str:
        """Return what the linter says; it is strict."""
        return self.run("lint", str(CHART), "--strict", values=values)

    def template(
        self, values: Values | None = None, *, release: str = NAME, namespace: str = NAME
    ) -> list[Json]:
        """Return the objects of a release."""
        return copy.deepcopy(_objects(self, release, namespace, yaml.safe_dump(dict(values or {}))))


@functools.cache
def _objects(helm: Helm, release: str, namespace: str, values: str) -> list[Json]:
    """Render the chart, once for each set of values."""
    where = ("--namespace", namespace)
    text = helm.run("template", release, str(CHART), *where, values=yaml.safe_load(values))
    return [each for each in yaml.safe_load_all(text) if each is not None]


def of_kind(objects: list[Json], kind: str) -> list[Json]:
    """Return the objects of a kind."""
    return [each for each in objects if each["kind"] == kind]


def one(objects: list[Json], kind: str, name: str | None = None) -> Json:
    """Return the only object of a kind, or the one of a name."""
    (found,) = (each for each in of_kind(objects, kind) if name in (None, each["metadata"]["name"]))
    return found


def container(objects: list[Json]) -> Json:
    """Return the container of the Deployment."""
    found, *_ = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert found["name"] == "scheduler"
    return dict(found)


def configuration(objects: list[Json]) -> str:
    """Return the configuration file that the pods of the Deployment see."""
    spec = one(objects, "Deployment")["spec"]["template"]["spec"]
    (volume,) = (each for each in spec["volumes"] if each["name"] == "config")
    (item,) = volume["downwardAPI"]["items"]
    assert item["path"] == "config.yaml"
    annotations = one(objects, "Deployment")["spec"]["template"]["metadata"]["annotations"]
    (text,) = (
        text
        for key, text in annotations.items()
        if item["fieldRef"]["fieldPath"] == f"metadata.annotations['{key}']"
    )
    return str(text)


def expressions(objects: list[Json]) -> Iterator[tuple[str, str]]:
    """Yield the alerts of the PrometheusRule: name and expression."""
    for group in one(objects, "PrometheusRule")["spec"]["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
