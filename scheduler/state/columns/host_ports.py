"""Host ports in use, by node row.

Sets without counts, as in upstream: if two pods have the same port (both were bound by force), the
first one that is removed frees it.
"""

from collections.abc import Iterable

from scheduler.state.columns.pod_footprints import HostPort, WantedPorts

__all__ = ["PortUse"]


class PortUse:
    """The host ports in use, by row and by port."""

    __slots__ = ("_by_port", "_by_row")

    def __init__(self) -> None:
        self._by_row: dict[int, set[HostPort]] = {}
        self._by_port: dict[int, dict[int, set[HostPort]]] = {}

    def on(self, row: int) -> set[HostPort]:
        """Return the ports in use on a row; a copy."""
        return set(self._by_row.get(row, ()))

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """Record ports as used on a row."""
        for port in ports:
            self._by_row.setdefault(row, set()).add(port)
            self._by_port.setdefault(port.port, {}).setdefault(row, set()).add(port)

    def remove(self, row: int, ports: Iterable[HostPort]) -> None:
        """Free ports on a row."""
        for port in ports:
            used = self._by_row.get(row)
            if used is None or port not in used:
                continue
            used.discard(port)
            rows = self._by_port[port.port]
            rows[row].discard(port)
            if not rows[row]:
                del rows[row]
            if not rows:
                del self._by_port[port.port]
            if not used:
                del self._by_row[row]

    def restore(self, row: int, ports: set[HostPort]) -> None:
        """Make some ports the only ones in use on a row."""
        used = self.on(row)
        self.remove(row, used - ports)
        self.add(row, ports - used)

    def conflicting_rows(self, wanted: WantedPorts) -> set[int]:
        """Return the rows on which at least one of the wanted ports conflicts."""
        numbers = wanted.numbers & self._by_port.keys()
        rows = {row for number in numbers for row in self._by_port[number]}
        return {row for row in rows if wanted.conflict(self._by_row[row])}
