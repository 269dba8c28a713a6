"""The content of the configuration, flag and status pages."""

import platform
from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler import __version__
from scheduler.config import load
from scheduler.config.settings import Settings
from scheduler.core.machine import Machine
from scheduler.kube.leader_election import LeaderElector
from scheduler.model import times
from scheduler.model.times import Seconds
from scheduler.observe.pages.routes import ZPage

__all__ = ["configz", "flagz", "statusz"]

#: The name of the component on both pages, and the header of their text.
NAME: Final = "preemptive-scheduler"
HEADER: Final = """\

{name} {page}
Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
guarantees and is for debugging purposes only.
"""

#: Fields of the configuration whose content is redacted.
_SECRET: Final = frozenset({"keyData"})


def configz(settings: Settings) -> dict[str, Any]:
    """Return the configuration in force, without private keys.

    Source: kube-scheduler v1.36.3 cmd/kube-scheduler/app.Setup, component-base configz.
    """
    return {"componentconfig": _redacted(load.dump(settings))}


def flagz(flags: Mapping[str, str]) -> ZPage:
    """Return the flags of the command line with the values in force.

    Args:
        flags: The values by name, without dashes, as Go writes them.

    Source: apiserver v0.36.3 pkg/server/flagz.
    """
    lines = (f"{name}={value}\n" for name, value in sorted(flags.items()))
    text = HEADER.format(name=NAME, page="flagz") + "".join(lines)
    return ZPage("Flagz", NAME, text, {"flags": dict(flags)})


def statusz(
    machine: Machine,
    elector: LeaderElector | None,
    started: Seconds,
    now: Seconds,
    paths: Iterable[str],
) -> ZPage:
    """Return versions, uptime and the scheduler's numbers.

    Args:
        machine: The machine whose numbers are shown.
        elector: The leader elector; `None` where every instance leads.
        started: Seconds since the epoch.
        now: On the same clock.
        paths: The paths of all pages.

    Source: apiserver v0.36.3 pkg/server/statusz.
    Differs: the text also has the scheduler's numbers. `goVersion` of the object names the version
    of Python: the field is required, and there is no Go.
    """
    folders = sorted({f"/{path.split('/')[1]}" for path in paths} - {"/statusz"})
    rows = {
        "Started": times.stamp(started),
        "Up": _duration(now - started),
        "Python version": platform.python_version(),
        "Binary version": __version__,
        "Decides as": f"kube-scheduler {machine.reference.version}",
        **_numbers(machine, elector),
        "Paths": " ".join(folders),
    }
    lines = (f"{name}: {value}\n" for name, value in rows.items())
    fields = {
        "startTime": times.stamp(started),
        "uptimeSeconds": max(0, int(now - started)),
        "goVersion": f"python{platform.python_version()}",
        "binaryVersion": __version__,
        "paths": folders,
    }
    text = HEADER.format(name=NAME, page="statusz") + "\n" + "".join(lines)
    return ZPage("Statusz", NAME, text, fields)


def _numbers(machine: Machine, elector: LeaderElector | None) -> dict[str, object]:
    numbers = machine.sizes()
    return {
        "Leader": _leader(elector),
        "Nodes": numbers.nodes,
        "Pods on nodes": f"{numbers.pods} ({numbers.assumed} assumed)",
        "Pods waiting": ", ".join(f"{queue} {count}" for queue, count in numbers.queue.items()),
        "Nominations": numbers.nominations,
        "Preemptions under way": numbers.preempting,
    }


def _leader(elector: LeaderElector | None) -> str:
    if elector is None:
        return "yes, without an election"
    return "yes" if elector.is_leader else f"no, {elector.holder or 'no replica'} leads"


def _duration(seconds: Seconds) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} hr {minutes:02} min {rest:02} sec"


def _redacted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: "REDACTED" if key in _SECRET and field else _redacted(field)
            for key, field in value.items()
        }
    if isinstance(value, list):
        return [_redacted(item) for item in value]
    return value
