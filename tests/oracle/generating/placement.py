"""Where a pod wants to be: tolerations, affinities, spread constraints."""

from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.labels import (
    HOSTNAME,
    REGION,
    ZONE,
    node_labels,
    node_term,
    pod_selector,
)
from tests.oracle.generating.nodes import TAINTS
from tests.oracle.generating.traits import Traits

__all__ = ["placement"]

NAMESPACES = ("default", "blue")


def placement(dice: Dice, traits: Traits, nodes: list[str]) -> Object:
    """Return the fields of a pod's spec that say where it wants to be."""
    fields: Object = {}
    if dice.chance(traits.taints) or dice.chance(traits.cordoned / 2):
        fields["tolerations"] = [_toleration(dice) for _ in range(dice.number(1, 2))]
    if dice.chance(traits.node_selector):
        labels = node_labels(dice, dice.pick(nodes))
        keys = dice.some(sorted(labels), 0, 2)
        fields["nodeSelector"] = {key: labels[key] for key in keys}
    affinity = _affinity(dice, traits, nodes)
    if affinity:
        fields["affinity"] = affinity
    if dice.chance(traits.spread):
        constraints = [_constraint(dice) for _ in range(dice.number(1, 2))]
        kinds = [(each["topologyKey"], each["whenUnsatisfiable"]) for each in constraints]
        # The API server allows each pair once.
        if len(set(kinds)) == len(kinds):
            fields["topologySpreadConstraints"] = constraints
    return fields


def _toleration(dice: Dice) -> Object:
    key, value = dice.pick(TAINTS)
    form = dice.number(0, 9)
    if form == 0:
        return {"operator": "Exists"}
    toleration: Object = {"key": key, "operator": "Exists"}
    if form >= 5:
        toleration = {"key": key, "operator": "Equal", "value": value}
    if form == 9:
        toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    if dice.chance(0.5):
        toleration["effect"] = dice.pick(("NoSchedule", "NoExecute", "PreferNoSchedule"))
    return toleration


def _affinity(dice: Dice, traits: Traits, nodes: list[str]) -> Object:
    affinity: Object = {}
    of_nodes: Object = {}
    if dice.chance(traits.node_affinity):
        terms = [node_term(dice, nodes) for _ in range(dice.number(1, 2))]
        of_nodes["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if dice.chance(traits.preferred_nodes):
        of_nodes["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": dice.pick((1, 5, 33, 100)), "preference": node_term(dice, nodes)}
            for _ in range(dice.number(1, 3))
        ]
    if of_nodes:
        affinity["nodeAffinity"] = of_nodes
    for kind in ("podAffinity", "podAntiAffinity"):
        of_pods = _of_pods(dice, traits)
        # An empty one is not the same as none.
        if of_pods or dice.chance(traits.pod_affinity / 10):
            affinity[kind] = of_pods
    return affinity


def _of_pods(dice: Dice, traits: Traits) -> Object:
    found: Object = {}
    if dice.chance(traits.pod_affinity):
        found["requiredDuringSchedulingIgnoredDuringExecution"] = [
            _pod_term(dice) for _ in range(dice.pick((1, 1, 1, 2)))
        ]
    if dice.chance(traits.preferred_pods):
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": dice.pick((1, 10, 57, 100)), "podAffinityTerm": _pod_term(dice)}
            for _ in range(dice.number(1, 2))
        ]
    return found


def _pod_term(dice: Dice) -> Object:
    term: Object = {"topologyKey": dice.pick((HOSTNAME, HOSTNAME, ZONE, ZONE, REGION, "disk"))}
    if dice.chance(0.97):
        term["labelSelector"] = pod_selector(dice)
    if dice.chance(0.15):
        term["namespaces"] = dice.some(NAMESPACES, 1, 2)
    if dice.chance(0.15):
        term["namespaceSelector"] = dice.pick(
            (
                {},
                {"matchLabels": {"team": "blue"}},
                {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
                {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["blue"]}]},
            )
        )
    return term


def _constraint(dice: Dice) -> Object:
    when = dice.pick(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"))
    constraint: Object = {
        "maxSkew": dice.pick((1, 1, 2, 3)),
        "topologyKey": dice.pick((HOSTNAME, ZONE, ZONE, "disk")),
        "whenUnsatisfiable": when,
    }
    if dice.chance(0.95):
        constraint["labelSelector"] = pod_selector(dice)
    if when == "DoNotSchedule" and dice.chance(0.2):
        constraint["minDomains"] = dice.number(1, 4)
    if dice.chance(0.2):
        constraint["nodeAffinityPolicy"] = dice.pick(("Honor", "Ignore"))
    if dice.chance(0.2):
        constraint["nodeTaintsPolicy"] = dice.pick(("Honor", "Ignore"))
    if "labelSelector" in constraint and dice.chance(0.1):
        constraint["matchLabelKeys"] = dice.some(("app", "tier", "absent"), 1, 2)
    return constraint
