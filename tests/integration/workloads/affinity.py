"""Workloads about other pods: affinity and spreading."""

from tests.integration.stage import Stage

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def zones(stage: Stage, *counts: int, cpu: str = "4") -> None:
    """Create zones a, b, ... with so many nodes each."""
    for letter, count in zip("abc", counts, strict=False):
        stage.nodes(letter, count, cpu, labels={ZONE: letter})


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
