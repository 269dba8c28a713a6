"""The record of a run: what was measured, raw; kept as one file, so that a benchmark can go on."""

import contextlib
import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from deploy.tools.bench.cases import Size
from deploy.tools.bench.contenders import ROOT
from deploy.tools.controlplane import binaries

__all__ = ["FOLDER", "Environment", "Result", "Store", "environment"]

#: Where records are kept.
FOLDER: Final = ROOT / "build" / "bench"


class Environment(msgspec.Struct, frozen=True):
    """The machine and the versions."""

    cores: int
    cpu: str
    kernel: str
    python: str
    kubernetes: str
    etcd: str


class Window(msgspec.Struct, frozen=True):
    """CPU seconds of a process."""

    #: From its start to the first write.
    start: float
    #: From the first write to the last, events included.
    work: float


class Result(msgspec.Struct, kw_only=True):
    """One run. Times are in seconds since the scheduler was started."""

    workload: str
    size: str
    contender: str
    run: int
    #: Of the contender, the workload and its size: another one makes the record stale.
    fingerprint: str
    environment: Environment
    #: Of the last minute, before the scheduler was started.
    load_average: float
    #: CPU time of a fixed loop from the first write to the last, the median of ten a second.
    loop_seconds: float
    #: CPU time that the machine's host has given to others meanwhile.
    stolen_seconds: float
    #: Number of measured pods.
    pods: int
    #: Why the run does not count; empty if it does.
    problems: list[str]
    #: When each measured pod was seen with its node, ascending.
    bound: list[float]
    #: When the first write was seen.
    first_write: float
    #: When the last event had been written.
    finished: float
    #: CPU of the scheduler, kube-apiserver, etcd, the benchmark, and the whole machine.
    cpu: dict[str, Window]
    peak_rss_bytes: int
    #: Requests that the API server answered, without the benchmark's own writes: number by
    #: `VERB resource/subresource code`.
    calls: dict[str, int]
    #: Requests that changed something.
    writes: int
    #: Events that exist at the end.
    events: int
    #: Pods that were deleted, not counting those that the benchmark itself deleted.
    deleted: int
    #: How often the watch was cut off, and went on where it had been: times are then a little late.
    cuts: int

    def version(self) -> str:
        """Return the fingerprint of the code and configuration of the contender."""
        return self.fingerprint.rpartition("-")[2]

    def counts(self) -> bool:
        """Return whether the run may be reported."""
        return not self.problems


class Store:
    """The records of one size, below a folder: <workload>/<contender>-<run>.json."""

    def __init__(self, size: Size, folder: Path = FOLDER) -> None:
        self.size: Size = size
        self.folder = folder / size

    def find(self, workload: str, contender: str, run: int, fingerprint: str) -> Result | None:
        """Return the record of a run if there is one that is not stale and counts."""
        try:
            content = self._path(workload, contender, run).read_bytes()
            found = msgspec.json.decode(content, type=Result)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return found if found.fingerprint == fingerprint and found.counts() else None

    def keep(self, result: Result) -> Path:
        """Write a record, in one go: an interrupted benchmark leaves no half of one."""
        path = self._path(result.workload, result.contender, result.run)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1))
        draft.replace(path)
        return path

    def log_path(self, workload: str, contender: str, run: int) -> Path:
        """Return where the log of a run that does not count is kept."""
        return self._path(workload, contender, run).with_suffix(".log")

    def all(self) -> Iterator[Result]:
        """Yield every record, those that do not count as well; not those of an older form."""
        for path in sorted(self.folder.glob("*/*.json")):
            with contextlib.suppress(msgspec.DecodeError):
                yield msgspec.json.decode(path.read_bytes(), type=Result)

    def _path(self, workload: str, contender: str, run: int) -> Path:
        return self.folder / workload / f"{contender}-{run}.json"


def environment() -> Environment:
    """Return what this machine and the binaries are."""
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return Environment(
        cores=len(os.sched_getaffinity(0)),
        cpu=found[1] if found else platform.machine(),
        kernel=platform.release(),
        python=_python(),
        kubernetes=binaries.pinned_version("kube-apiserver"),
        etcd=binaries.pinned_version("etcd"),
    )


def _python() -> str:
    """Return the interpreter's version, and whose build it is where the system came with it."""
    version = platform.python_version()
    if sys.base_prefix != "/usr":
        return version
    return f"{version} as built by {platform.freedesktop_os_release()['NAME']}"
