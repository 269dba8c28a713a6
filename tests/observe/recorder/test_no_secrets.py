"""Nothing that no rule reads gets into a recording, however an object hides it."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
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


def hidden() -> str:
    return f"{SECRET}-{next(NUMBERS)}"


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "default",
        "uid": name,
        "resourceVersion": "1",
        "labels": {"app": "a"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"env": hidden()}),
            **more,
        },
        "managedFields": [{"manager": hidden()}],
        "finalizers": ["example.com/f"],
        "selfLink": hidden(),
    }


def container() -> dict[str, Any]:
    return {
        "name": "c",
        "image": "registry.example/app:1",
        "command": [hidden()],
        "args": [f"--password={hidden()}"],
        "workingDir": hidden(),
        "env": [
            {"name": hidden(), "value": hidden()},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": hidden(), "key": hidden()}}},
        ],
        "envFrom": [{"secretRef": {"name": hidden()}}, {"configMapRef": {"name": hidden()}}],
        "resources": {"requests": {"cpu": "1"}},
        "volumeMounts": [{"name": "v", "mountPath": hidden(), "subPath": hidden()}],
        "livenessProbe": {
            "httpGet": {"httpHeaders": [{"name": "Authorization", "value": hidden()}]}
        },
        "lifecycle": {"preStop": {"exec": {"command": [hidden()]}}},
        "securityContext": {"seLinuxOptions": {"user": hidden()}},
    }


def pod(name: str, cpu: str = "1", **spec: Any) -> Pod:
    body = container()
    body["resources"]["requests"]["cpu"] = cpu
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(name, token=hidden()),
        "spec": {
            "schedulerName": OURS,
            "priority": 0,
            "containers": [body],
            "initContainers": [container()],
            "ephemeralContainers": [container()],
            "serviceAccountName": hidden(),
            "imagePullSecrets": [{"name": hidden()}],
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": [hidden()]}],
            "dnsConfig": {"searches": [hidden()]},
            "volumes": [
                {"name": "a", "secret": {"secretName": hidden()}},
                {"name": "b", "configMap": {"name": hidden()}},
                {"name": "c", "hostPath": {"path": hidden()}},
                {
                    "name": "d",
                    "projected": {
                        "sources": [{"serviceAccountToken": {"audience": hidden()}}],
                    },
                },
                {
                    "name": "e",
                    "csi": {
                        "driver": "csi.example",
                        "volumeAttributes": {"password": hidden()},
                        "nodePublishSecretRef": {"name": hidden()},
                    },
                },
                {"name": "f", "nfs": {"server": hidden(), "path": hidden()}},
            ],
            **spec,
        },
        "status": {
            "phase": "Pending",
            "hostIP": hidden(),
            "containerStatuses": [
                {"name": "c", "state": {"waiting": {"message": hidden()}}, "imageID": hidden()}
            ],
        },
    }
    return msgspec.json.decode(json.dumps(raw).encode(), type=Pod)


def decoded(kind: type, **raw: Any) -> Any:
    return msgspec.json.decode(json.dumps(raw).encode(), type=kind)


def text(path: Path) -> str:
    with zstandard.ZstdDecompressor().stream_reader(
        BytesIO(path.read_bytes()), read_across_frames=True
    ) as reader:
        return reader.read().decode()


def test_what_no_rule_reads_is_not_recorded(tmp_path: Path):
    recorded = RecordedMachine(tmp_path / "x.rec")
    for event in (
        NamespaceObserved(decoded(LocalObject, metadata=meta("default"))),
        NodeObserved(
            decoded(
                Node,
                metadata=meta("n1"),
                spec={"providerID": hidden()},
                status={
                    "allocatable": {"cpu": "4", "pods": "9"},
                    "addresses": [{"type": "InternalIP", "address": hidden()}],
                    "nodeInfo": {"machineID": hidden()},
                },
            )
        ),
        BudgetObserved(decoded(PodDisruptionBudget, metadata=meta("b"))),
        WorkloadObserved(
            decoded(
                ReplicaSet,
                metadata=meta("rs"),
                spec={"template": {"spec": {"containers": [container()]}}},
            )
        ),
        StorageObserved(
            decoded(
                PersistentVolume,
                metadata=meta("pv"),
                spec={
                    "capacity": {"storage": "1Gi"},
                    "csi": {
                        "driver": "csi.example",
                        "volumeHandle": "h",
                        "volumeAttributes": {"password": hidden()},
                        "nodeStageSecretRef": {"name": hidden()},
                    },
                },
            )
        ),
        StorageObserved(decoded(PersistentVolumeClaim, metadata=meta("pvc"))),
        DevicesObserved(
            decoded(
                ResourceClaim,
                metadata=meta("claim"),
                status={"devices": [{"data": {"password": hidden()}}]},
            )
        ),
        PodObserved(pod("a")),
        PodObserved(pod("other", schedulerName="another", nodeName="n1")),
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
