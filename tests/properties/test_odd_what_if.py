"""A what-if about any objects is answered, or refused in one line."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.model.rest.what_if import WhatIfRequest
from scheduler.sim import what_if_request
from scheduler.sim.hiding import hide
from scheduler.sim.manifests import ManifestError
from scheduler.sim.what_if import what_if
from scheduler.sim.what_if_cluster import State
from scheduler.sim.what_if_request import JSON
from tests.sim.test_what_if import state
from tests.support.builders import node, pdb, pod

ROUNDS = 150
TERM = {
    "topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["app"],
}  # fmt: skip
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SPEC = {
    "schedulerName": "preemptive-scheduler",
    "priorityClassName": "gold",
    "runtimeClassName": "kata",
    "hostNetwork": True,
    "nodeSelector": {"zone": "a"},
    "resources": {"limits": {"cpu": "1"}},
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}],
    "affinity": {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}
        },
        "podAntiAffinity": {
            REQUIRED: [TERM],
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": TERM}
            ],
        },
    },
    "containers": [
        {
            "name": "c",
            "image": "i",
            "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}},
        }
    ],
    "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}],
    "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "gpu"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
}  # fmt: skip
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": SPEC}
DEVICES = {
    "devices": {
        "requests": [
            {"name": "r", "exactly": {"deviceClassName": "gpu"}},
            {"name": "s", "firstAvailable": [{"name": "t", "deviceClassName": "gpu"}]},
        ]
    }
}


def kind(name: str, version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": name, "metadata": {"name": name.lower()}, **fields}


OBJECTS = [
    kind("PriorityClass", "scheduling.k8s.io/v1", value=7, globalDefault=True),
    kind("ResourceClaimTemplate", "resource.k8s.io/v1", spec={"spec": DEVICES}),
    kind("ResourceClaim", "resource.k8s.io/v1", spec=DEVICES),
    kind("Pod", "v1", spec=SPEC),
    kind(
        "Node", "v1", status={"allocatable": {"cpu": "4"}},
        spec={"taints": [{"key": "k", "effect": "NoSchedule"}]},
    ),
    kind("Deployment", "apps/v1", spec={"replicas": 2, "template": TEMPLATE, "selector": {}}),
    kind("ReplicaSet", "apps/v1", spec={"replicas": 2, "template": TEMPLATE, "selector": {}}),
    kind(
        "StatefulSet", "apps/v1",
        spec={
            "replicas": 2, "template": TEMPLATE, "selector": {}, "ordinals": {"start": 1},
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": CLAIM}],
        },
    ),
    kind("DaemonSet", "apps/v1", spec={"template": TEMPLATE, "selector": {}}),
    kind("Job", "batch/v1", spec={"template": TEMPLATE}, status={"conditions": [{"type": "C"}]}),
    kind(
        "CronJob", "batch/v1",
        spec={"schedule": "@daily", "jobTemplate": {"spec": {"template": TEMPLATE}}},
    ),
    kind("PodTemplate", "v1", template=TEMPLATE),
    kind(
        "PodDisruptionBudget", "policy/v1", spec={"selector": {"matchLabels": {"app": "x"}}}
    ),
    kind("PersistentVolumeClaim", "v1", spec=CLAIM),
    kind(
        "PreemptionPolicy", "preemptive-scheduler.io/v1alpha1",
        spec={"budgets": [{"maxVictims": 1, "window": "1h"}]},
    ),
]  # fmt: skip
ODD: tuple[Any, ...] = (
    None, 0, -1, 2**31, 2**40, 10**30, 1.5, True, "", "x", "n1", "0x7", "é", "\0", "9" * 300,
    [], [[]], [None], ["x"], {}, {"": ""}, {"name": {}}, {"kind": "List", "items": [3]},
)  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container and key or index in a value."""
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from places(value[key])
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from places(item)


def around() -> State:
    return state(
        pod("a").on("n1").cpu("2").owner("ReplicaSet", "a"), pod("b").cpu("9"),
        node("n1").cpu("2"), node("n2").cpu("1"), pdb("b").selects(app="x"),
    )  # fmt: skip


def test_the_objects_are_planned_as_they_are():
    answer = what_if(around(), WhatIfRequest(objects=tuple(copy.deepcopy(OBJECTS))))

    made = sorted(each.source.partition("/")[0] for each in answer.items)
    assert (
        made
        == ["", "CronJob", *["Deployment"] * 2, "Job", "PodTemplate", *["ReplicaSet"] * 2]
        + ["StatefulSet"] * 2
    )


def answered(state: State, body: bytes) -> str:
    """Answer a body; return why it is refused, empty if it is not."""
    try:
        answer = what_if(state, what_if_request.read(body, JSON))
    except ManifestError as error:
        return str(error) or "without a reason"
    msgspec.json.encode(hide(answer, lambda name: name == "default"))
    return ""


@pytest.mark.parametrize("seed", range(12))
def test_odd_objects_are_answered_or_refused_in_one_line(seed: int):
    dice = np.random.default_rng(seed)
    state, refused = around(), 0
    for _ in range(ROUNDS):
        objects = copy.deepcopy(OBJECTS)
        some = [objects[index] for index in dice.choice(len(objects), size=5, replace=False)]
        for each in some[:3]:  # those of an API server are not checked by the table of fields
            each["metadata"]["resourceVersion"] = "7"
        for _ in range(int(dice.integers(1, 4))):
            found = list(places(some))
            container, key = found[int(dice.integers(len(found)))]
            container[key] = copy.deepcopy(ODD[int(dice.integers(len(ODD)))])
        refusal = answered(state, json.dumps(some).encode())
        assert "\n" not in refusal, some
        refused += bool(refusal)
    assert 0 < refused < ROUNDS
