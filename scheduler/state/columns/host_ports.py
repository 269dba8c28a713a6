"""Host ports in use, by node row.

A set without counts, as upstream keeps it: where two pods hold the same port (someone forced
them), the first to leave frees it.
"""

from collections.abc import Iterable

from scheduler.state.columns.pod_shapes import HostPort, WantedPorts

__all__ = ["PortUse"]


class PortUse:
    """Which rows use which host ports, found by port."""

    __slots__ = ("_by_port", "_by_row")

    def __init__(self) -> None:
        self._by_row: dict[int, set[HostPort]] = {}
        self._by_port: dict[int, dict[int, set[HostPort]]] = {}

    def on(self, row: int) -> set[HostPort]:
        """Return the ports in use on a row; a copy."""
        return set(self._by_row.get(row, ()))

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        """Take ports on a row."""
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

    def conflicting_rows(self, wanted: WantedPorts) -> set[int]:
        """Return the rows on which at least one of these ports cannot be had."""
        numbers = wanted.numbers & self._by_port.keys()
        rows = {row for number in numbers for row in self._by_port[number]}
        return {row for row in rows if wanted.conflict(self._by_row[row])}
