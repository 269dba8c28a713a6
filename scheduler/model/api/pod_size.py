"""Detects pod specs that are so large that they would cost too much to schedule."""

from typing import Final

from scheduler.model.api.objects import Pod

__all__ = ["MAX_PARTS", "is_too_large"]

#: The maximum number of containers, volumes and ports of one pod, together. The API server bounds
#: only the size of the object, which allows tens of thousands.
MAX_PARTS: Final = 2000


def is_too_large(pod: Pod) -> bool:
    """Return whether a pod has more than `MAX_PARTS` containers, volumes and ports together.

    Volumes that no rule reads, such as a Secret, do not count.
    """
    spec = pod.spec
    parts = len(spec.containers) + len(spec.init_containers) + len(spec.volumes)
    if parts > MAX_PARTS:
        return True
    containers = (*spec.containers, *spec.init_containers)
    return parts + sum(len(container.ports) for container in containers) > MAX_PARTS
