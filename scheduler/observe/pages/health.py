"""Health checks and their reports, in the format of Kubernetes.

A check is a function that returns what is wrong, or `None`. Each of `/healthz`, `/livez` and
`/readyz` has checks of its own; all of them have `ping`, which passes if the server responds.

Source: apiserver v0.36.3 pkg/server/healthz.
Differs: a report can give the reason of a failed check (`reasons`): it concerns this process alone,
and operators who wait for a roll-out need it. Without `reasons` it is withheld, as upstream.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = ["Check", "HealthChecks", "HealthReport"]

#: Returns what is wrong in a few words, or `None`.
Check: TypeAlias = Callable[[], str | None]

_PING: Final[Mapping[str, Check]] = {"ping": lambda: None}


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The response to a probe."""

    healthy: bool
    text: str


class HealthChecks:
    """The checks of one path.

    Args:
        name: The path without its slash, as `readyz`.
        checks: By name, in the order in which they are reported.
        reasons: Whether a report gives the reason of a failed check.
    """

    def __init__(self, name: str, checks: Mapping[str, Check], *, reasons: bool = False) -> None:
        self.name = name
        self._checks = {**_PING, **checks}
        self._reasons = reasons

    def report(self, *, verbose: bool = False, excluded: Collection[str] = ()) -> HealthReport:
        """Run all checks; if one fails, the report lists every check."""
        lines: list[str] = []
        failed = False
        for name, check in self._checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok\n")
            elif (reason := check()) is None:
                lines.append(f"[+]{name} ok\n")
            else:
                failed = True
                lines.append(
                    f"[-]{name} failed: {reason if self._reasons else 'reason withheld'}\n"
                )
        unknown = sorted(set(excluded) - self._checks.keys())
        if unknown:
            quoted = ",".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}\n")
        if failed:
            return HealthReport(healthy=False, text=f"{''.join(lines)}{self.name} check failed\n")
        text = f"{''.join(lines)}{self.name} check passed\n" if verbose else "ok"
        return HealthReport(healthy=True, text=text)

    def single(self, name: str) -> HealthReport | None:
        """Run one check; `None` if there is none of that name."""
        check = self._checks.get(name)
        if check is None:
            return None
        reason = check()
        if reason is None:
            return HealthReport(healthy=True, text="ok")
        return HealthReport(healthy=False, text=f"internal server error: {reason}\n")
