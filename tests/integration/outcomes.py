"""What became of a workload, in a form in which two runs can be compared.

Two nodes are interchangeable if they were made alike, and so are two pods: that is told by their
names, which are equal up to a number at the end. Which one of several interchangeable ones was
taken is left to chance, so runs are compared up to that: the nodes by what is on each of them, the
pods by what became of each of them, both counted by groups. Nothing else is left out, so if every
pod is the only one of its group, and every node too, equal means equal pod by pod.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

#: What is compared.
Summary: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Fate:
    """What became of one pod."""

    #: Its node, or that of its nomination while it waits; empty if there is none.
    node: str = ""
    #: Whether it was evicted.
    evicted: bool = False
    #: Reason and message of its condition PodScheduled while it waits.
    waits: tuple[str, str] | None = None
    #: The reasons of the events that the scheduler wrote about it; of some also the text.
    told: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Outcome:
    """What became of all objects of a workload.

    Attributes:
        nodes: all nodes.
        pods: all pods that there were at any time.
        facts: what else counts, such as the volume of each claim.
    """

    nodes: frozenset[str]
    pods: Mapping[str, Fate]
    facts: Mapping[str, str] = field(default_factory=dict)

    def summary(self) -> Summary:
        """Return what two runs must have in common."""
        return {
            "nodes": _counted(self._on(node) for node in self.nodes),
            "pods": _counted(
                (group(name), group(fate.node), fate.evicted, fate.waits, tuple(sorted(fate.told)))
                for name, fate in self.pods.items()
            ),
            "facts": _counted((group(name), group(fact)) for name, fact in self.facts.items()),
        }

    def totals(self) -> tuple[int, int, int]:
        """Return how many pods have their node, how many wait, and how many were evicted."""
        evicted = sum(fate.evicted for fate in self.pods.values())
        waiting = sum(fate.waits is not None for fate in self.pods.values())
        return len(self.pods) - waiting - evicted, waiting, evicted

    def _on(self, node: str) -> tuple[Any, ...]:
        """Return the group of a node, and how many pods of each kind are, wait or were there."""
        there = Counter(
            (group(name), _manner(fate)) for name, fate in self.pods.items() if fate.node == node
        )
        return group(node), tuple(sorted(there.items()))


def group(name: str) -> str:
    """Return what a name has in common with those that are interchangeable with it."""
    return re.sub(r"-\d+$", "", name)


def _manner(fate: Fate) -> str:
    if fate.evicted:
        return "evicted"
    return "nominated" if fate.waits else "bound"


def _counted(items: Any) -> list[tuple[Any, int]]:
    # Sorted by text: some of the values are None, which has no order.
    return sorted(Counter(items).items(), key=repr)
