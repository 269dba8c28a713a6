"""What the configuration and status pages say."""

import platform
from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler import __version__
from scheduler.config import load
from scheduler.config.settings import Settings
from scheduler.core.machine import Machine
from scheduler.kube.lease import Lease
from scheduler.model import times
from scheduler.model.times import Seconds

__all__ = ["configz", "statusz"]

#: Source: apiserver v0.36.3 pkg/server/statusz, headerFmt.
HEADER: Final = """\

preemptive-scheduler statusz
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
guarantees and is for debugging purposes only.

"""

#: Fields of the configuration whose content nobody may read.
_SECRET: Final = frozenset({"keyData"})


def configz(settings: Settings) -> dict[str, Any]:
    """Return the configuration in force, without private keys.

    Source: kube-scheduler v1.36.3 cmd/kube-scheduler/app.Setup, component-base configz.
    """
    return {"componentconfig": _redacted(load.dump(settings))}


def statusz(
    machine: Machine, lease: Lease | None, started: Seconds, now: Seconds, paths: Iterable[str]
) -> str:
    """Return what runs since when, and how much it has to do, as text.

    Args:
        machine: Whose numbers are told.
        lease: By which it leads; `None` where every instance does.
        started: Seconds since the epoch.
        now: The same line.
        paths: The pages that there are.
    """
    numbers = machine.numbers()
    rows = {
        "Started": times.stamp(started),
        "Up": _duration(now - started),
        "Python version": platform.python_version(),
        "Binary version": __version__,
        "Leader": _leader(lease),
        "Nodes": numbers.nodes,
        "Pods on nodes": f"{numbers.pods} ({numbers.assumed} assumed)",
        "Pods waiting": ", ".join(f"{queue} {count}" for queue, count in numbers.queue.items()),
        "Nominations": numbers.nominations,
        "Preemptions under way": numbers.preempting,
        "Paths": " ".join(sorted(paths)),
    }
    return HEADER + "".join(f"{name}: {value}\n" for name, value in rows.items())


def _leader(lease: Lease | None) -> str:
    if lease is None:
        return "yes, without an election"
    return "yes" if lease.is_leader else f"no, {lease.holder or 'nobody'} leads"


def _duration(seconds: Seconds) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} hr {minutes:02} min {rest:02} sec"


def _redacted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: "REDACTED" if key in _SECRET and each else _redacted(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_redacted(each) for each in value]
    return value
