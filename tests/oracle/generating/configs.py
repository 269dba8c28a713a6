"""Random configurations."""

from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.labels import HOSTNAME, ZONE, node_term
from tests.oracle.generating.pods import SCHEDULER
from tests.oracle.generating.resources import FPGA, GPU
from tests.oracle.generating.traits import Traits

__all__ = ["config"]

API_VERSION = "kubescheduler.config.k8s.io/v1"
_SECOND = "second"
_SCORES = (
    "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality", "TaintToleration",
    "NodeAffinity", "PodTopologySpread", "InterPodAffinity",
)  # fmt: skip
_CPU = {"name": "cpu", "weight": 1}
_SPREADING = ("PodTopologySpread", "NodeResourcesFit")
_FILTERS = ("NodePorts", "TaintToleration", "NodeUnschedulable", "NodeAffinity", "InterPodAffinity")


def config(dice: Dice, traits: Traits, nodes: list[str], pods: list[Object]) -> Object:
    """Return a KubeSchedulerConfiguration; with two profiles, each has some of the pods."""
    profiles = [_profile(dice, traits, nodes, SCHEDULER)]
    if dice.chance(0.15):
        profiles.append(_profile(dice, traits, nodes, _SECOND))
        for pod in pods:
            pod["spec"]["schedulerName"] = dice.pick((SCHEDULER, _SECOND))
    return {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": profiles}


def _profile(dice: Dice, traits: Traits, nodes: list[str], name: str) -> Object:
    profile: Object = {"schedulerName": name, "pluginConfig": _arguments(dice, traits, nodes)}
    plugins: Object = {}
    off = dice.some(_FILTERS, 1, 2) if dice.chance(0.3) else []
    if off:
        plugins["multiPoint"] = {"disabled": [{"name": name} for name in off]}
    if dice.chance(0.5):
        names = [name for name in dice.some(_SCORES, 1, 3) if name not in off]
        plugins["score"] = {
            "disabled": [{"name": name} for name in names],
            "enabled": [{"name": name, "weight": dice.pick((1, 3, 10))} for name in names],
        }
    if dice.chance(0.2):
        plugins["postFilter"] = {"disabled": [{"name": dice.pick(("DynamicResources", "*"))}]}
    if dice.chance(0.2):
        # What it says before any node is looked at still counts.
        half = [name for name in (*_FILTERS, *_SPREADING) if name not in off]
        plugins["filter"] = {"disabled": [{"name": name} for name in dice.some(half, 1, 2)]}
    if plugins:
        profile["plugins"] = plugins
    return profile


def _arguments(dice: Dice, traits: Traits, nodes: list[str]) -> list[Object]:
    found = {}
    if dice.chance(0.6):
        found["NodeResourcesFit"] = _fit(dice, traits)
    if dice.chance(0.3):
        weights = _weights(dice, most=1)
        if traits.devices is not None:
            # Upstream panics where a class with selectors provides a resource of this plugin.
            weights = [each for each in weights if each["name"] != GPU] or [_CPU]
        found["NodeResourcesBalancedAllocation"] = {"resources": weights}
    if traits.pod_affinity and dice.chance(0.6):
        found["InterPodAffinity"] = {
            "hardPodAffinityWeight": dice.pick((0, 1, 50, 100)),
            "ignorePreferredTermsOfExistingPods": dice.chance(0.5),
        }
    if dice.chance(0.3):
        found["NodeAffinity"] = {"addedAffinity": _added(dice, nodes)}
    if traits.spread and dice.chance(0.6):
        found["PodTopologySpread"] = _spread(dice)
    return [
        {"name": name, "args": {"apiVersion": API_VERSION, "kind": f"{name}Args", **fields}}
        for name, fields in found.items()
    ]


def _fit(dice: Dice, traits: Traits) -> Object:
    kind = dice.pick(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    strategy: Object = {"type": kind, "resources": _weights(dice, most=100)}
    if kind == "RequestedToCapacityRatio":
        points = sorted(dice.some((0, 10, 30, 50, 75, 90, 100), 2, 4))
        shape = [{"utilization": point, "score": dice.number(0, 10)} for point in points]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    arguments: Object = {"scoringStrategy": strategy}
    if traits.extended and dice.chance(0.3):
        arguments["ignoredResources"] = [dice.pick((GPU, FPGA))]
    if traits.extended and dice.chance(0.1):
        arguments["ignoredResourceGroups"] = ["example.com"]
    return arguments


def _weights(dice: Dice, most: int) -> list[Object]:
    names = dice.some(("cpu", "memory", "ephemeral-storage", GPU), 1, 3)
    return [{"name": name, "weight": min(most, dice.pick((1, 1, 5, 100)))} for name in names]


def _added(dice: Dice, nodes: list[str]) -> Object:
    if dice.chance(0.5):
        terms = [node_term(dice, nodes)]
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    preferred = [{"weight": dice.pick((1, 30)), "preference": node_term(dice, nodes)}]
    return {"preferredDuringSchedulingIgnoredDuringExecution": preferred}


def _spread(dice: Dice) -> Object:
    if dice.chance(0.2):
        return {"defaultingType": "System"}
    constraints = [
        {
            "maxSkew": dice.number(1, 3),
            "topologyKey": key,
            "whenUnsatisfiable": dice.pick(("DoNotSchedule", "ScheduleAnyway")),
        }
        for key in dice.some((HOSTNAME, ZONE), 0, 2)
    ]
    return {"defaultingType": "List", "defaultConstraints": constraints}
