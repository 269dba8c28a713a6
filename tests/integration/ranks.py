"""PriorityClasses by number, so that a workload can say in which order its pods are tried."""

from deploy.tools.controlplane.api import ApiClient
from tests.integration.objects import Json

#: Ranks are priorities: the first group of pods that is created has the highest one.
HIGHEST = 60

#: As `rank-40`, but its pods preempt no pod.
PATIENT = 40


def make_ranks(api: ApiClient) -> None:
    """Create a PriorityClass for each rank."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    ranks = [_class(f"rank-{value}", value) for value in range(1, HIGHEST + 1)]
    api.post_all(path, [*ranks, _class("patient", PATIENT, "Never")])


def _class(name: str, value: int, policy: str = "PreemptLowerPriority") -> Json:
    return {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
