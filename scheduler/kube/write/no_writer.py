"""What shadow mode has instead of a writer: it cannot write, as it has no client."""

from scheduler.kube.write.effect_queue import Lane
from scheduler.model.effects import Effect

__all__ = ["NoWriter"]


class NoWriter:
    """Has the figures and the end of a writer, and sends nothing."""

    sent = 0
    evicting = 0

    def lengths(self) -> dict[str, int]:
        """Return how many effects wait in each lane: none."""
        return {lane.label: 0 for lane in Lane}

    def submit(self, _effect: Effect) -> None:
        """Drop an effect; it has no outcome."""

    async def drain(self, _seconds: float) -> None:
        """End; there is nothing to wait for."""
