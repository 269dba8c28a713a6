"""The container images on nodes.

Source: kube-scheduler v1.36.3 backend/cache.addNodeImageStates. Differs: the number of nodes that
have an image is always up to date; upstream's snapshot keeps the number of the time at which a node
was last copied.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.model.api.objects import ContainerImage, Node

__all__ = ["ImageState", "Images"]


@dataclass(slots=True)
class ImageState:
    """The size of an image, and the rows that have it, for one image name."""

    #: Bytes, as the first node with the image reported.
    size: int
    rows: set[int] = field(default_factory=set)


class Images:
    """All image names of all nodes."""

    __slots__ = ("_images", "_states", "version")

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}
        #: Of each row that has some, the images of its node.
        self._images: dict[int, list[ContainerImage]] = {}
        #: Grows with every change.
        self.version = 0

    def get(self, name: str) -> ImageState | None:
        """Return the state of an image name, if any node has it."""
        return self._states.get(name)

    def write(self, row: int, node: Node | None) -> None:
        """Replace the images of a row; `None` for a deleted node."""
        images = node.status.images if node is not None else []
        known = self._images.pop(row, [])
        if images:
            self._images[row] = images
        if images == known:
            return
        before, names = _names(known), _names(images)
        if names == before:
            return
        self.version += 1
        for name in before - names:
            state = self._states[name]
            state.rows.discard(row)
            if not state.rows:
                del self._states[name]
        for image in images:
            for name in image.names:
                state = self._states.setdefault(name, ImageState(image.size_bytes))
                state.rows.add(row)


def _names(images: Iterable[ContainerImage]) -> set[str]:
    return {name for image in images for name in image.names}
