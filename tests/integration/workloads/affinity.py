"""Workloads about other pods: affinity and spreading."""

from tests.integration.objects import Json
from tests.integration.stage import Stage

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def zones(stage: Stage, *counts: int, cpu: str = "4") -> None:
    """Create zones a, b, ... with so many nodes each."""
    for letter, count in zip("abc", counts, strict=False):
        stage.nodes(letter, count, cpu, labels={ZONE: letter})


def pod_affinity(stage: Stage) -> None:
    """Affinity decides: pods are placed where others are, the first of a kind anywhere.

    The pods that are looked for run already, in different zones, so each term names one zone.
    """
    zones(stage, 3, 3, 3)
    (a, *_), (b, *_) = stage.of("a"), stage.of("b")
    stage.running("db", [a], 1, "2")
    stage.running("cache", [b], 1, "1")

    stage.pods("client", 10, affinity=together("db", ZONE))
    stage.pods("beside", 2, affinity=together("cache", HOSTNAME))
    stage.pods("beside-late", 2, "2", affinity=together("cache", HOSTNAME))
    stage.pods("lonely", 1, affinity=together("absent", ZONE))
    stage.pods("herd", 3, "2", affinity=together("herd", ZONE), nodeSelector={ZONE: "c"})
    stage.pods("herd-late", 2, "3", affinity=together("herd", ZONE))
    stage.pods("likes", 4, "500m", affinity=together("cache", ZONE, weight=100))


def pod_anti_affinity(stage: Stage) -> None:
    """Anti-affinity decides, that of running pods and that of incoming pods.

    There are more pods than nodes, and than zones, so that all places are taken and some wait.
    """
    zones(stage, 3, 3, 3)
    guard = stage.of("c")[:1]
    stage.running("hermit", guard, 1, affinity=apart("noise", ZONE))

    stage.pods("alone", 9, affinity=apart("alone", HOSTNAME))
    stage.pods("alone-late", 1, labels={"app": "alone"}, affinity=apart("alone", HOSTNAME))
    stage.pods("noise", 6, "1")
    stage.pods("zonal", 3, "500m", affinity=apart("zonal", ZONE))
    stage.pods("zonal-late", 1, labels={"app": "zonal"}, affinity=apart("zonal", ZONE))
    stage.pods("shy", 9, "500m", affinity=apart("shy", HOSTNAME, weight=100))


def spread_hard(stage: Stage) -> None:
    """Hard constraints decide: by zone, then by node, with the capacity that there is.

    The zones have capacity for different numbers, and the numbers divide by the zones.
    """
    zones(stage, 1, 2, 4)

    stage.pods("even", 9, topologySpreadConstraints=[spread("even", ZONE)])
    stage.pods("wide", 7, "500m", topologySpreadConstraints=[spread("wide", HOSTNAME)])
    stage.pods("stuck", 3, "750m", topologySpreadConstraints=[spread("stuck", ZONE)])
    stage.pods("least", 3, "500m", topologySpreadConstraints=[spread("least", ZONE, minDomains=4)])
    stage.pods("rack", 2, topologySpreadConstraints=[spread("rack", "example.com/rack")])
    stage.pods("free", 6, "500m")


def spread_soft(stage: Stage) -> None:
    """Soft constraints decide: they are scores, and are ignored where resources are missing."""
    zones(stage, 2, 2, 2)
    stage.running("seed", stage.of("a"), 1, "1", labels={"app": "even"})

    soft = [spread("even", ZONE, whenUnsatisfiable="ScheduleAnyway")]
    stage.pods("even", 4, topologySpreadConstraints=soft)
    both = [
        spread("both", ZONE, 2, whenUnsatisfiable="ScheduleAnyway"),
        spread("both", HOSTNAME, 1, whenUnsatisfiable="DoNotSchedule"),
    ]
    stage.pods("both", 6, "500m", topologySpreadConstraints=both)
    stage.pods("both-late", 6, "500m", labels={"app": "both"}, topologySpreadConstraints=both)


def spread_default(stage: Stage) -> None:
    """The default constraints decide: pods of a Service are spread, others only by resources."""
    zones(stage, 1, 2, 3, cpu="16")
    stage.make(
        "/api/v1/{ns}/services",
        {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [PORT]}},
    )

    stage.pods("web", 12, "1")
    stage.pods("other", 12, "1")


PORT = {"port": 80}


def together(app: str, key: str, weight: int = 0) -> Json:
    """Return an affinity to the pods of an app, a preference if there is a weight."""
    return {"podAffinity": _term(app, key, weight)}


def apart(app: str, key: str, weight: int = 0) -> Json:
    """Return an anti-affinity to the pods of an app, a preference if there is a weight."""
    return {"podAntiAffinity": _term(app, key, weight)}


def _term(app: str, key: str, weight: int) -> Json:
    term: Json = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    if weight:
        weighted = {"weight": weight, "podAffinityTerm": term}
        return {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def spread(app: str, key: str, skew: int = 1, **fields: object) -> Json:
    """Return a spread constraint over the pods of an app, a hard one by default."""
    return {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
        **fields,
    }
