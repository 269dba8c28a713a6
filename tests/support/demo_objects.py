"""Pods and nodes as the API sends them, from the common builders."""

from typing import Any

import msgspec

from tests.support.builders import NodeBuilder, PodBuilder


def raw(builder: PodBuilder | NodeBuilder, priority_class: str = "") -> dict[str, Any]:
    """Return an object as JSON."""
    found: dict[str, Any] = msgspec.to_builtins(builder.build())
    if priority_class:
        found["spec"]["priorityClassName"] = priority_class
    return found


def unschedulable(builder: PodBuilder, message: str) -> PodBuilder:
    """Return a pod that the scheduler has reported as unschedulable."""
    return builder.condition("PodScheduled", "False", "Unschedulable", message)
