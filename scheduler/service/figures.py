"""What each policy in force has done, for its status."""

from collections.abc import Mapping

from scheduler.core.machine import Machine
from scheduler.model.policies import PolicyFigures
from scheduler.model.times import Seconds

__all__ = ["figures"]


def figures(machine: Machine, now: Seconds) -> Mapping[str, PolicyFigures]:
    """Return what each policy in force has done, by name; refusals since this process began."""
    return machine.policing.figures(now)
