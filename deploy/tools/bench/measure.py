"""Reads measurements of processes, the machine and the API server."""

import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import Final

from deploy.tools.controlplane.api import ApiClient

__all__ = [
    "ITERATIONS",
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

#: Iterations of the reference loop, which shows the current speed of a processor: about 1 ms.
ITERATIONS: Final = 20_000

#: Verbs of writes.
WRITES: Final = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its threads, in steps of 10 ms."""
    return parse_cpu_seconds(Path(f"/proc/{pid}/stat").read_text())


def parse_cpu_seconds(stat: str) -> float:
    """Return the CPU time in the text of /proc/<pid>/stat: its fields 14 and 15.

    The second field is the name of the command, which may contain anything.
    """
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def machine_seconds() -> float:
    """Return the CPU time of all processes, and the time that the hypervisor has stolen."""
    return parse_machine_seconds(Path("/proc/stat").read_text())


def parse_machine_seconds(stat: str) -> float:
    """Return the busy time in the text of /proc/stat, without idle, iowait and guest time."""
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_SECOND


def stolen_seconds() -> float:
    """Return the CPU time that the hypervisor has stolen."""
    return parse_stolen_seconds(Path("/proc/stat").read_text())


def parse_stolen_seconds(stat: str) -> float:
    """Return the stolen time in the text of /proc/stat, the eighth figure of its first line."""
    return int(stat.split()[8]) / _TICKS_PER_SECOND


def loop_seconds() -> float:
    """Return the CPU time of the reference loop: the speed of shared processors varies."""
    began, total = time.thread_time(), 0
    for number in range(ITERATIONS):
        total += number
    return time.thread_time() - began


def peak_rss_bytes(pid: int) -> int:
    """Return the peak memory of a process."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def api_calls(api: ApiClient) -> Counter[str]:
    """Return the number of requests to the API server by `VERB resource/subresource code`."""
    return parse_api_calls(api.request("GET", "/metrics", timeout=60.0).decode())


def parse_api_calls(metrics: str) -> Counter[str]:
    """Return the number of requests in a text of metrics."""
    calls: Counter[str] = Counter()
    for labels, value in _REQUESTS.findall(metrics):
        found = dict(_LABEL.findall(labels))
        resource = "/".join(filter(None, (found["resource"], found["subresource"])))
        calls[f"{found['verb']} {resource} {found['code']}"] += int(float(value))
    return calls


def writes(calls: Counter[str]) -> int:
    """Return the number of writes among the requests."""
    return sum(count for call, count in calls.items() if call.split()[0] in WRITES)
