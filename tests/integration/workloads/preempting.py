"""Workloads in which pods are preempted for more important ones.

In each, a preemptor takes so much of a node that no second one fits beside it. So the next one has
to look elsewhere, and the order of the nodes is that of what it costs to free them.
"""

from functools import partial

from tests.integration.objects import Json, budget
from tests.integration.stage import Stage


def preemption(stage: Stage) -> None:
    """The price decides: priorities of the victims first, then their sum, then their number.

    Each kind of node costs something else. One preemptor more than there are nodes to free
    waits, as do the pods that are less important than all that run.
    """
    # Highest priority, sum and number of the victims of a pod that takes three of four cores.
    stage.nodes("cheap", 2)  # 1, 3
    cheap = stage.of("cheap")
    stage.running("cheap", cheap * 3, 1)
    stage.nodes("sum", 2)  # 2, then fewer
    dearer = stage.of("sum")
    stage.running("sum", dearer, 2, "4")
    stage.nodes("number", 2)  # 2, more
    number = stage.of("number")
    stage.running("number", number * 2, 2, "2")
    stage.nodes("dear", 2)
    dear = stage.of("dear")
    stage.running("dear", dear, 30, "3")
    stage.nodes("never", 2)
    never = stage.of("never")
    stage.running("never", never, 58, "3")

    stage.pods("urgent", 9, "3", rank=50)
    stage.pods("too-large", 1, "5", rank=51)
    stage.pods("poor", 4, "2", rank=1)


def preemption_with_budgets(stage: Stage) -> None:
    """Budgets decide: nodes on which none is violated first, then those with the fewest violations.

    Compared is what is left of each budget as well.
    """
    stage.nodes("free", 2)
    free = stage.of("free")
    stage.running("free", free, 20, "4")
    stage.nodes("one", 2)
    one = stage.of("one")
    stage.running("guarded-one", one, 5, "2", labels={"app": "guarded"})
    stage.running("beside", one, 6, "2")
    stage.nodes("two", 2)
    two = stage.of("two")
    stage.running("guarded-two", two * 2, 4, "2", labels={"app": "guarded"})
    stage.nodes("spare", 2)
    spare = stage.of("spare")
    stage.running("spare", spare * 2, 10, "2")
    budgets(stage, guarded=6, spare=0)

    stage.pods("urgent", 7, "4", rank=50)
    stage.pods("poor", 3, "2", rank=1)


def budgets(stage: Stage, **min_available: int) -> None:
    """Create budgets, wait until the controller has counted for them, and compare them at last."""
    path = "/apis/policy/v1/{ns}/poddisruptionbudgets"
    for app, count in min_available.items():
        made = stage.make(path, budget(app, count, app=app))
        stage.api.wait_for(made, lambda found: has_counted(stage, found))
        stage.facts.append(partial(room, stage, app, made))


def has_counted(stage: Stage, found: Json | None) -> bool:
    """Return whether a budget knows of the pods that there are."""
    assert found is not None
    selector = found["spec"]["selector"]["matchLabels"]["app"]
    path = f"/api/v1/namespaces/{stage.scene.namespace}/pods?labelSelector=app%3D{selector}"
    healthy = found.get("status", {}).get("currentHealthy")
    return bool(healthy == len(stage.api.items(path)))


def room(stage: Stage, app: str, path: str) -> dict[str, str]:
    """Return the counts of the budget of an app when it knows of the pods that are left."""
    status = (stage.api.wait_for(path, lambda found: has_counted(stage, found)) or {})["status"]
    fields = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    return {app: " ".join(f"{name}={status[name]}" for name in fields)}


def preemption_by_conflicts(stage: Stage) -> None:
    """Conflicts other than resources decide: ports and pods with anti-affinity."""
    stage.nodes("port", 3, "8")
    port = stage.of("port")
    stage.running("port", port, 1, ports=(8080,))
    stage.running("bystander", port, 1)
    stage.nodes("noisy", 3, "8")
    noisy = stage.of("noisy")
    term = {"labelSelector": {"matchLabels": {"app": "noise"}}, "topologyKey": HOSTNAME}
    away = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    stage.running("noise", noisy, 2)
    stage.running("silence", noisy, 2)

    stage.pods("web", 3, ports=(8080,), nodeSelector={"kind": "port"})
    shy = {"podAntiAffinity": away}
    stage.pods("shy", 4, "5", affinity=shy, nodeSelector={"kind": "noisy"})
    stage.pods("late", 1, ports=(8080,), nodeSelector={"kind": "port"}, rank=1)


HOSTNAME = "kubernetes.io/hostname"
