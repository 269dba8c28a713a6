"""Random nodes."""

from tests.oracle.generating import resources
from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.labels import node_labels
from tests.oracle.generating.traits import Traits

__all__ = ["IMAGES", "TAINTS", "node"]

_MIB = 1 << 20
#: Images by name, with their sizes; one has no tag.
IMAGES = {
    "example.com/small:1": 10 * _MIB,
    "example.com/medium:1": 120 * _MIB,
    "example.com/large:1": 900 * _MIB,
    "example.com/plain:latest": 400 * _MIB,
}
TAINTS = (
    ("dedicated", "db"), ("dedicated", "web"), ("flaky", ""), ("node.example.com/lost", ""),
)  # fmt: skip
_EFFECTS = ("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule")
_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
#: In the order in which the API server wants them.
_FEATURES = ("Other", "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")


def node(dice: Dice, traits: Traits, name: str) -> Object:
    """Return a node."""
    have = resources.allocatable(dice, traits)
    spec: Object = {}
    status: Object = {"allocatable": have, "capacity": dict(have)}
    taints = _taints(dice) if dice.chance(traits.taints) else []
    if dice.chance(traits.cordoned):
        spec["unschedulable"] = True
        if dice.chance(0.7):
            taints.append(_CORDON)
    if taints:
        spec["taints"] = taints
    if dice.chance(traits.images):
        status["images"] = [
            {"names": [image], "sizeBytes": size}
            for image, size in IMAGES.items()
            if dice.chance(0.5)
        ]
    if dice.chance(traits.features):
        status["declaredFeatures"] = dice.some(_FEATURES, 1, 3)
    status["conditions"] = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": node_labels(dice, name)},
        "spec": spec,
        "status": status,
    }


def _taints(dice: Dice) -> list[Object]:
    taints = []
    for key, value in dice.some(TAINTS, 1, 2):
        taint = {"key": key, "effect": dice.pick(_EFFECTS)}
        if value:
            taint["value"] = value
        taints.append(taint)
    return taints
