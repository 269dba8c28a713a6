"""Workloads about the order in which pods are tried, and about when they are."""

from tests.integration.objects import Json
from tests.integration.stage import Stage

FIRST, SECOND = {"name": "example.com/first"}, {"name": "example.com/second"}


def priority_order(stage: Stage) -> None:
    """The order decides: only the more important pods fit, which were created last.

    A node has capacity for one, so that it does not matter which of them it gets.
    """
    stage.nodes("n", 15, "1")

    for rank in range(1, 28):
        stage.pods(f"rank-{rank:02}-of", 1, rank=rank)


def gates(stage: Stage) -> None:
    """Gates decide: gated pods are not tried; one gate of two is not enough.

    What is not gated is placed first, so those whose gates are lifted get what is left.
    """
    stage.nodes("small", 4, "4")
    stage.nodes("large", 2, "8")

    stage.pods("free", 12, "1")
    stage.pods("gated", 8, "2", schedulingGates=[FIRST])
    stage.pods("twice", 4, "1", schedulingGates=[FIRST, SECOND])
    stage.pods("stays", 3, "1", schedulingGates=[SECOND])


def lift_first_gate(stage: Stage) -> None:
    """Lift one gate of all."""
    lift(stage, FIRST)


def lift_second_gate(stage: Stage) -> None:
    """Lift the other one, but not of those that have only that."""
    lift(stage, SECOND, but="stays")


def lift(stage: Stage, gate: Json, but: str = "-") -> None:
    """Lift a gate of all pods, in the order of their names."""
    path = f"/api/v1/namespaces/{stage.scene.namespace}/pods"
    for pod in stage.api.items(path):
        gates = pod["spec"].get("schedulingGates", [])
        name = pod["metadata"]["name"]
        if gate in gates and not name.startswith(but):
            left = [each for each in gates if each != gate]
            stage.api.patch(f"{path}/{name}", {"spec": {"schedulingGates": left}})


def waking(stage: Stage) -> None:
    """What changes decides: pods wait until a node is there, or tolerable, or labelled."""
    stage.nodes("small", 2, "2")
    stage.nodes("tainted", 2, "8", taints=(TAINT,))

    stage.pods("fits", 4, "1")
    stage.pods("large", 4, "3")
    stage.pods("device", 2, requests={"example.com/gpu": "1"})
    stage.pods("labelled", 2, nodeSelector={"disk": "ssd"})


TAINT = {"key": "maintenance", "value": "", "effect": "NoSchedule"}


def end_maintenance(stage: Stage) -> None:
    """Remove the taint of all nodes."""
    for node in stage.of("tainted"):
        stage.scene.patch_node(node, {"spec": {"taints": None}})


def add_nodes(stage: Stage) -> None:
    """Add what the others wait for.

    The node with the device comes last. One pod still waits for a device after it, and no other
    node wakes that pod: its message counts the nodes of its last attempt.
    """
    stage.nodes("labelled", 1, labels={"disk": "ssd"})
    stage.wait_nodes()
    stage.nodes("device", 1, resources={"example.com/gpu": "1"})
