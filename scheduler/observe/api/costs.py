"""What evictions cost: the requests of the victims, times the seconds that they had run.

The documents and the metrics take it from here.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

__all__ = ["MAX_PAIRS", "OTHER", "Cost", "NamespaceCosts", "lost"]

#: How many pairs of namespaces have series of their own. Tenants can create namespaces, so further
#: pairs count together.
MAX_PAIRS: Final = 200
#: The label of the namespaces of further pairs. No namespace can have this name.
OTHER: Final = "<other>"
_GIB: Final = 2.0**30


class Cost(NamedTuple):
    """The work that was lost by some evictions."""

    victims: int = 0
    #: Pods times seconds, milli-cores times seconds, bytes times seconds.
    pods: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0

    def plus(self, other: "Cost") -> "Cost":
        """Return the sum."""
        return Cost(
            self.victims + other.victims,
            self.pods + other.pods,
            self.cpu + other.cpu,
            self.memory + other.memory,
        )

    def amounts(self) -> dict[str, float]:
        """Return the amounts by resource, as documents have them; those that are 0 are left out."""
        found = {"pods": self.pods, "cpu": self.cpu, "memory": self.memory}
        return {name: round(amount, 1) for name, amount in found.items() if amount}


def lost(requests: Mapping[str, int], seconds: float) -> Cost:
    """Return what the eviction of one pod costs.

    Args:
        requests: Amounts by resource name; milli-cores of `cpu`, bytes of `memory`.
        seconds: For how long it had run.
    """
    cpu, memory = requests.get("cpu", 0), requests.get("memory", 0)
    return Cost(1, seconds, cpu * seconds, memory * seconds)


class NamespaceCosts:
    """What this process has evicted, by namespace of the victim and of the preemptor."""

    def __init__(self) -> None:
        self._lost: dict[tuple[str, str], Cost] = {}
        self._wasted: dict[tuple[str, str], Cost] = {}

    def add(self, victim: str, preemptor: str, cost: Cost, *, wasted: bool = False) -> None:
        """Count an eviction; or, if it was wasted, that it was."""
        sums = self._wasted if wasted else self._lost
        pair = victim, preemptor
        if pair not in sums and len(sums) >= MAX_PAIRS:
            pair = OTHER, OTHER
        sums[pair] = sums.get(pair, Cost()).plus(cost)

    def series(self) -> Mapping[str, Callable[[], dict[tuple[str, str], float]]]:
        """Return what reads the counters, by the names of the metrics."""
        return {
            f"scheduler_preemption_{kind}_{unit}_total": _reader(sums, read)
            for kind, sums in (("lost", self._lost), ("wasted", self._wasted))
            for unit, read in _UNITS.items()
        }


#: The units of the metrics.
_UNITS: Final[Mapping[str, Callable[[Cost], float]]] = {
    "pods": lambda cost: cost.victims,
    "pod_seconds": lambda cost: cost.pods,
    "core_seconds": lambda cost: cost.cpu / 1000,
    "gibibyte_seconds": lambda cost: cost.memory / _GIB,
}


def _reader(
    sums: Mapping[tuple[str, str], Cost], read: Callable[[Cost], float]
) -> Callable[[], dict[tuple[str, str], float]]:
    return lambda: {pair: read(cost) for pair, cost in sums.items()}
