"""Labels of pods and nodes, and what selects them."""

from tests.oracle.generating.dice import Dice, Object

__all__ = [
    "HOSTNAME",
    "REGION",
    "ZONE",
    "node_labels",
    "node_requirement",
    "node_term",
    "pod_labels",
    "pod_selector",
]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"

_APPS = ("web", "db", "job")
_TIERS = ("x", "y")
_ZONES = ("z1", "z2", "z3")
_DISKS = ("ssd", "hdd")


def node_labels(dice: Dice, name: str) -> dict[str, str]:
    """Return labels; every node has its hostname, most have a zone."""
    labels = {HOSTNAME: name}
    if dice.chance(0.85):
        labels[ZONE] = dice.pick(_ZONES)
        if dice.chance(0.3):
            labels[REGION] = "r1"
    if dice.chance(0.7):
        labels["disk"] = dice.pick(_DISKS)
    if dice.chance(0.6):
        labels["size"] = dice.pick(("1", "5", "10", "big", ""))
    return labels


def pod_labels(dice: Dice) -> dict[str, str]:
    """Return labels; few pods have none."""
    labels = {}
    if dice.chance(0.9):
        labels["app"] = dice.pick(_APPS)
    if dice.chance(0.5):
        labels["tier"] = dice.pick(_TIERS)
    return labels


def pod_selector(dice: Dice) -> Object:
    """Return a label selector for pods; some select everything."""
    form = dice.number(0, 9)
    if form < 5:
        return {"matchLabels": {"app": dice.pick(_APPS)}}
    if form < 6:
        return {"matchLabels": {"app": dice.pick(_APPS), "tier": dice.pick(_TIERS)}}
    if form < 9:
        return {"matchExpressions": [_pod_requirement(dice)]}
    return {}


def _pod_requirement(dice: Dice) -> Object:
    key, values = dice.pick((("app", _APPS), ("tier", _TIERS)))
    operator = dice.pick(("In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("In", "NotIn"):
        return {"key": key, "operator": operator, "values": dice.some(values, 1, 2)}
    return {"key": key, "operator": operator}


def node_requirement(dice: Dice) -> Object:
    """Return an expression over labels of nodes."""
    if dice.chance(0.25):
        operator = dice.pick(("Gt", "Lt"))
        return {"key": "size", "operator": operator, "values": [dice.pick(("0", "3", "5", "9"))]}
    key, values = dice.pick((("disk", _DISKS), (ZONE, _ZONES), ("size", ("1", "5", "10"))))
    operator = dice.pick(("In", "In", "NotIn", "Exists", "DoesNotExist"))
    if operator in ("In", "NotIn"):
        return {"key": key, "operator": operator, "values": dice.some(values, 1, 2)}
    return {"key": key, "operator": operator}


def node_term(dice: Dice, nodes: list[str]) -> Object:
    """Return a term over labels, and at times the name, of nodes; a few are empty."""
    if dice.chance(0.05):
        return {}
    term: Object = {}
    if dice.chance(0.25):
        name = dice.pick([*nodes, "absent"])
        operator = dice.pick(("In", "In", "NotIn"))
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
    if "matchFields" not in term or dice.chance(0.5):
        term["matchExpressions"] = [node_requirement(dice) for _ in range(dice.number(1, 2))]
    return term
