"""The containers of random pods, and what concerns them as a whole."""

from typing import Any

from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.nodes import IMAGES
from tests.oracle.generating.resources import requests, resources
from tests.oracle.generating.traits import Traits

__all__ = ["containers", "needs_a_feature", "resized"]

_NO_IMAGE = "example.com/none:1"
_ADDRESSES = ("0.0.0.0", "10.0.0.1", "10.0.0.2")
_STATUSES = (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses"))


def containers(dice: Dice, traits: Traits) -> Object:
    """Return the fields of a pod's spec that say what it runs and requests."""
    names = [f"c{number}" for number in range(dice.pick((1, 1, 1, 2)))]
    fields: Object = {"containers": [_container(dice, traits, name) for name in names]}
    if dice.chance(traits.init):
        names = [f"i{number}" for number in range(dice.number(1, 3))]
        fields["initContainers"] = [_init_container(dice, traits, name) for name in names]
    if dice.chance(traits.overhead):
        fields["overhead"] = {"cpu": dice.pick(("50m", "250m")), "memory": "64Mi"}
    if dice.chance(traits.pod_level):
        fields["resources"] = {"requests": _pod_level(dice)}
    return fields


def needs_a_feature(dice: Dice) -> Object:
    """Return fields of a spec that not every kubelet can do."""
    if dice.chance(0.5):
        return {"hostNetwork": True, "hostUsers": False}
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    container = {
        "name": "restarts",
        "image": _NO_IMAGE,
        "restartPolicy": "Never",
        "restartPolicyRules": [rule],
    }
    return {"containers": [container]}


def resized(dice: Dice, spec: Object) -> Object:
    """Return the status of containers that were given other resources than they request."""
    plain = Traits()
    fields: dict[str, list[Any]] = {}
    for kind, status in _STATUSES:
        for each in spec.get(kind, ()):
            if dice.chance(0.7):
                granted: Object = {"name": each["name"], "image": each["image"]}
                allocated = requests(dice, plain)
                if allocated:
                    # The API server leaves an empty map out.
                    granted["allocatedResources"] = allocated
                actual = requests(dice, plain)
                granted["resources"] = {"requests": actual} if actual else {}
                fields.setdefault(status, []).append(granted)
    if dice.chance(0.3):
        reason = dice.pick(("Infeasible", "Deferred"))
        fields["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return fields


def _container(dice: Dice, traits: Traits, name: str) -> Object:
    made: Object = {"name": name, "image": _NO_IMAGE}
    if dice.chance(traits.images):
        made["image"] = dice.pick([*IMAGES, "example.com/plain"])
    found = resources(dice, traits)
    if found:
        made["resources"] = found
    if dice.chance(traits.ports):
        made["ports"] = [_port(dice) for _ in range(dice.number(1, 2))]
    return made


def _init_container(dice: Dice, traits: Traits, name: str) -> Object:
    made = _container(dice, traits, name)
    if dice.chance(0.4):
        made["restartPolicy"] = "Always"
    return made


def _port(dice: Dice) -> Object:
    port: Object = {"containerPort": 80, "protocol": dice.pick(("TCP", "TCP", "UDP"))}
    if dice.chance(0.9):
        port["hostPort"] = dice.pick((8080, 8080, 9090))
    if dice.chance(0.4):
        port["hostIP"] = dice.pick(_ADDRESSES)
    return port


def _pod_level(dice: Dice) -> dict[str, str]:
    wanted = {}
    if dice.chance(0.8):
        wanted["cpu"] = dice.pick(("1", "2", "3"))
    if dice.chance(0.6) or not wanted:
        wanted["memory"] = dice.pick(("1Gi", "2Gi"))
    return wanted
