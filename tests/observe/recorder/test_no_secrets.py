"""Nothing that no rule reads gets into a recording, however an object hides it."""

import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import yaml
import zstandard

from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import LocalObject, Node, Pod, PodDisruptionBudget, ReplicaSet
from scheduler.model.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.model.effects import SetCondition
from scheduler.model.events import (
    BudgetObserved,
    DevicesObserved,
    NamespaceObserved,
    NodeObserved,
    PodObserved,
    StorageObserved,
    WorkloadObserved,
)
from tests.support.builders import OURS
from tests.support.recordings import RecordedMachine

#: Is part of everything that must not be recorded.
SECRET = "hunter2"
NUMBERS = iter(range(1000))
T = 1_767_225_600.0


def decoded(kind: type, text: str) -> Any:
    """Return an object; each `~` in its text becomes another secret."""
    document = yaml.safe_load(re.sub("~", lambda _: f"{SECRET}-{next(NUMBERS)}", text))
    return msgspec.json.decode(json.dumps(document).encode(), type=kind)


META = """
  name: %s
  namespace: default
  uid: %s
  resourceVersion: "1"
  labels: {app: a}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"env": "~"}'%s}
  managedFields: [{manager: ~x}]
  finalizers: [example.com/f]
  selfLink: ~x
"""
CONTAINER = """{
  name: c, image: 'registry.example/app:1', command: [~x], args: [--password=~], workingDir: ~x,
  env: [{name: ~x, value: ~x}, {name: B, valueFrom: {secretKeyRef: {name: ~x, key: ~x}}}],
  envFrom: [{secretRef: {name: ~x}}, {configMapRef: {name: ~x}}],
  resources: {requests: {cpu: CPU}}, volumeMounts: [{name: v, mountPath: ~x, subPath: ~x}],
  livenessProbe: {httpGet: {httpHeaders: [{name: Authorization, value: ~x}]}},
  lifecycle: {preStop: {exec: {command: [~x]}}}, securityContext: {seLinuxOptions: {user: ~x}}}
"""
POD_SPEC = f"""
  schedulerName: OURS
  priority: 0
  containers: [{CONTAINER}]
  initContainers: [{CONTAINER}]
  ephemeralContainers: [{CONTAINER}]
  serviceAccountName: ~x
  imagePullSecrets: [{{name: ~x}}]
  hostAliases: [{{ip: 10.0.0.1, hostnames: [~x]}}]
  dnsConfig: {{searches: [~x]}}
  volumes:
  - {{name: a, secret: {{secretName: ~x}}}}
  - {{name: b, configMap: {{name: ~x}}}}
  - {{name: c, hostPath: {{path: ~x}}}}
  - {{name: d, projected: {{sources: [{{serviceAccountToken: {{audience: ~x}}}}]}}}}
  - {{name: e, csi: {{driver: csi.example, volumeAttributes: {{password: ~x}},
     nodePublishSecretRef: {{name: ~x}}}}}}
  - {{name: f, nfs: {{server: ~x, path: ~x}}}}
"""
POD_STATUS = """
  phase: Pending
  hostIP: ~x
  containerStatuses: [{name: c, state: {waiting: {message: ~x}}, imageID: ~x}]
"""


def thing(kind: type, name: str, more: str = "", notes: str = "") -> Any:
    return decoded(kind, f"metadata:{META % (name, name, notes)}{more}")


def pod(name: str, cpu: str = "1", scheduler: str = OURS, more: str = "") -> Pod:
    text = f"spec:{POD_SPEC}{more}status:{POD_STATUS}".replace("CPU", f"'{cpu}'")
    text = text.replace("schedulerName: OURS", f"schedulerName: {scheduler}")
    return thing(Pod, name, text, ", token: ~x")


NODE = """
spec: {providerID: ~x}
status:
  allocatable: {cpu: "4", pods: "9"}
  addresses: [{type: InternalIP, address: ~x}]
  nodeInfo: {machineID: ~x}
"""
VOLUME = """
spec:
  capacity: {storage: 1Gi}
  csi: {driver: csi.example, volumeHandle: h, volumeAttributes: {password: ~x},
    nodeStageSecretRef: {name: ~x}}
"""


def text(path: Path) -> str:
    with zstandard.ZstdDecompressor().stream_reader(
        BytesIO(path.read_bytes()), read_across_frames=True
    ) as reader:
        return reader.read().decode()


def test_what_no_rule_reads_is_not_recorded(tmp_path):
    recorded = RecordedMachine(tmp_path / "x.rec")
    template = f"spec: {{template: {{spec: {{containers: [{CONTAINER}]}}}}}}".replace("CPU", "1")
    for event in (
        NamespaceObserved(thing(LocalObject, "default")),
        NodeObserved(thing(Node, "n1", NODE)),
        BudgetObserved(thing(PodDisruptionBudget, "b")),
        WorkloadObserved(thing(ReplicaSet, "rs", template)),
        StorageObserved(thing(PersistentVolume, "pv", VOLUME)),
        StorageObserved(thing(PersistentVolumeClaim, "pvc")),
        DevicesObserved(
            thing(ResourceClaim, "claim", "status: {devices: [{data: {password: ~x}}]}")
        ),
        PodObserved(pod("a")),
        PodObserved(pod("other", scheduler="another", more="  nodeName: n1\n")),
        PodObserved(pod("too-large", "64")),
    ):
        recorded.observe_all(event, T)
    recorded.segment(T)
    decisions = [recorded.step(T + 1) for _ in range(2)]
    recorded.segment(T + 2)

    shown = text(recorded.path)
    assert next(NUMBERS) > 60
    assert {type(each.decision).__name__ for each in decisions} == {"Placed", "Unschedulable"}
    assert [
        effect for each in decisions for effect in each.effects if isinstance(effect, SetCondition)
    ]
    assert SECRET not in shown
    for wanted in ("too-large", "registry.example/app:1", "Insufficient cpu", "csi.example"):
        assert wanted in shown
