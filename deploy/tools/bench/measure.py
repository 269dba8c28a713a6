"""What processes and the API server say about themselves."""

import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import Final

from deploy.tools.controlplane.api import ApiClient

__all__ = [
    "TURNS",
    "api_calls",
    "cpu_seconds",
    "loop_seconds",
    "machine_seconds",
    "peak_rss_bytes",
    "stolen_seconds",
    "writes",
]

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_REQUESTS: Final = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')

#: Turns of the loop that tells how fast the machine is at the moment: about a millisecond.
TURNS: Final = 20_000

#: Verbs that change something.
WRITES: Final = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used with all its threads, in steps of 10 ms."""
    return parse_cpu_seconds(Path(f"/proc/{pid}/stat").read_text())


def parse_cpu_seconds(stat: str) -> float:
    """Return the CPU time in the text of /proc/<pid>/stat: its fields 14 and 15.

    The second field is the name of the command, which may hold anything.
    """
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def machine_seconds() -> float:
    """Return the CPU time that all processes have used, and that the machine's host has taken."""
    return parse_machine_seconds(Path("/proc/stat").read_text())


def parse_machine_seconds(stat: str) -> float:
    """Return the busy time in the text of /proc/stat: all but idle, waiting, and guests' shares."""
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_SECOND


def stolen_seconds() -> float:
    """Return the CPU time that the machine's host has given to others."""
    return parse_stolen_seconds(Path("/proc/stat").read_text())


def parse_stolen_seconds(stat: str) -> float:
    """Return the stolen time in the text of /proc/stat, the eighth figure of its first line."""
    return int(stat.split()[8]) / _TICKS_PER_SECOND


def loop_seconds() -> float:
    """Return the CPU time of a fixed loop now: processors that are shared vary in speed."""
    began, total = time.thread_time(), 0
    for turn in range(TURNS):
        total += turn
    return time.thread_time() - began


def peak_rss_bytes(pid: int) -> int:
    """Return the most memory that a process has held."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def api_calls(api: ApiClient) -> Counter[str]:
    """Return how many requests the API server has answered, as `VERB resource/subresource code`."""
    return parse_api_calls(api.request("GET", "/metrics", timeout=60.0).decode())


def parse_api_calls(metrics: str) -> Counter[str]:
    """Return the requests in a text of metrics."""
    calls: Counter[str] = Counter()
    for labels, value in _REQUESTS.findall(metrics):
        found = dict(_LABEL.findall(labels))
        resource = "/".join(filter(None, (found["resource"], found["subresource"])))
        calls[f"{found['verb']} {resource} {found['code']}"] += int(float(value))
    return calls


def writes(calls: Counter[str]) -> int:
    """Return how many of the requests were to change something."""
    return sum(count for call, count in calls.items() if call.split()[0] in WRITES)
