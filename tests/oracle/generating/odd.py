"""What the API server would not let in, or once did: invalid selectors and terms."""

from collections.abc import Callable

from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.labels import HOSTNAME, ZONE
from tests.oracle.generating.traits import Traits

__all__ = ["spoil"]

_NODE_EXPRESSIONS = (
    {"key": "size", "operator": "Gt", "values": ["x"]},
    {"key": "size", "operator": "Gt", "values": ["1", "2"]},
    {"key": "size", "operator": "Lt"},
    {"key": "disk", "operator": "Near", "values": ["ssd"]},
    {"key": "disk", "operator": "In"},
    {"key": "disk", "operator": "Exists", "values": ["ssd"]},
    {"key": "no key", "operator": "Exists"},
    {"key": "disk", "operator": "In", "values": ["no value!"]},
)
_NODE_FIELDS = (
    {"key": "metadata.name", "operator": "In", "values": ["n0", "n1"]},
    {"key": "metadata.name", "operator": "Exists"},
    {"key": "metadata.uid", "operator": "In", "values": ["n0"]},
)
_SELECTORS = (
    {"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]},
    {"matchExpressions": [{"key": "app", "operator": "In"}]},
    {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["web"]}]},
    {"matchExpressions": [{"key": "no key", "operator": "Exists"}]},
    {"matchLabels": {"no key": "web"}},
    {"matchLabels": {"app": "no value!"}},
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def spoil(dice: Dice, traits: Traits, pods: list[Object]) -> None:
    """Make something about some pods invalid."""
    for pod in pods:
        if dice.chance(traits.odd):
            dice.pick(_WAYS)(dice, pod["spec"])


def _node_term(dice: Dice) -> Object:
    if dice.chance(0.3):
        return {"matchFields": [dice.pick(_NODE_FIELDS)]}
    term = {"matchExpressions": [dice.pick(_NODE_EXPRESSIONS)]}
    if dice.chance(0.3):
        term["matchExpressions"].append({"key": "disk", "operator": "Exists"})
    return term


def _node_affinity(dice: Dice, spec: Object) -> None:
    terms: list[Object] = [_node_term(dice)]
    if dice.chance(0.4):
        disk = {"key": "disk", "operator": "In", "values": ["ssd"]}
        terms.append({"matchExpressions": [disk]})
    required = {"nodeSelectorTerms": dice.shuffled(terms)}
    spec.setdefault("affinity", {})["nodeAffinity"] = {_REQUIRED: required}


def _preferred_nodes(dice: Dice, spec: Object) -> None:
    preferred = [{"weight": dice.pick((0, 10)), "preference": _node_term(dice)}]
    spec.setdefault("affinity", {})["nodeAffinity"] = {_PREFERRED: preferred}


def _pod_term(dice: Dice) -> Object:
    term: Object = {"topologyKey": dice.pick((HOSTNAME, ZONE, ""))}
    if dice.chance(0.7):
        term["labelSelector"] = dice.pick(_SELECTORS)
    else:
        term["labelSelector"] = {"matchLabels": {"app": "web"}}
        term["namespaceSelector"] = dice.pick(_SELECTORS)
    return term


def _pod_affinity(dice: Dice, spec: Object) -> None:
    kind = dice.pick(("podAffinity", "podAntiAffinity"))
    spec.setdefault("affinity", {})[kind] = {_REQUIRED: [_pod_term(dice)]}


def _preferred_pods(dice: Dice, spec: Object) -> None:
    kind = dice.pick(("podAffinity", "podAntiAffinity"))
    preferred = [{"weight": 10, "podAffinityTerm": _pod_term(dice)}]
    spec.setdefault("affinity", {})[kind] = {_PREFERRED: preferred}


def _spread(dice: Dice, spec: Object) -> None:
    spec["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": dice.pick((HOSTNAME, ZONE, "")),
            "whenUnsatisfiable": dice.pick(("DoNotSchedule", "ScheduleAnyway", "Perhaps")),
            "labelSelector": dice.pick(_SELECTORS),
        }
    ]


def _toleration(dice: Dice, spec: Object) -> None:
    operator = dice.pick(("Near", "Gt", "Lt", ""))
    spec["tolerations"] = [{"key": "dedicated", "operator": operator, "value": "db"}]


_WAYS: tuple[Callable[[Dice, Object], None], ...] = (
    _node_affinity, _preferred_nodes, _pod_affinity, _preferred_pods, _spread, _toleration,
)  # fmt: skip
