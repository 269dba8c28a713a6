"""The records of runs: raw measurements, one file per run, so that a benchmark can continue."""

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
from deploy.tools.bench.contenders import ROOT, kube_scheduler_version
from deploy.tools.controlplane import binaries

__all__ = ["FOLDER", "Environment", "Result", "Store", "environment"]

#: The folder of the records.
FOLDER: Final = ROOT / "build" / "bench"


class Environment(msgspec.Struct, frozen=True):
    """The machine and the versions."""

    cores: int
    cpu: str
    kernel: str
    python: str
    kubernetes: str
    etcd: str
    #: The release that runs, and whose decisions this scheduler follows.
    kube_scheduler: str = ""


class Window(msgspec.Struct, frozen=True):
    """CPU seconds of a process."""

    #: From its start to the first write.
    start: float
    #: From the first write to the last, with Events.
    work: float


class Result(msgspec.Struct, kw_only=True):
    """One run. Times are in seconds since the start of the scheduler."""

    workload: str
    size: str
    contender: str
    run: int
    #: Fingerprint of contender, workload and size; a record with another one is stale.
    fingerprint: str
    environment: Environment
    #: Load average of the last minute before the start of the scheduler.
    load_average: float
    #: CPU time of the reference loop, median of samples from the first write to the last.
    loop_seconds: float
    #: CPU time that the hypervisor has stolen meanwhile.
    stolen_seconds: float
    #: Number of measured pods.
    pods: int
    #: The reasons why the run does not count; empty if it does.
    problems: list[str]
    #: When each measured pod was seen bound, ascending.
    bound: list[float]
    #: When the first write was seen.
    first_write: float
    #: When the last event had been written.
    finished: float
    #: CPU time of scheduler, kube-apiserver, etcd, the benchmark, and the whole machine.
    cpu: dict[str, Window]
    peak_rss_bytes: int
    #: Number of requests to the API server by `VERB resource/subresource code`, without the writes
    #: of the benchmark.
    calls: dict[str, int]
    #: Number of writes.
    writes: int
    #: Number of Events at the end.
    events: int
    #: Number of deleted pods, without those that the benchmark deleted.
    deleted: int
    #: How often the watch was interrupted and continued; times are slightly late then.
    cuts: int

    def version(self) -> str:
        """Return the fingerprint of the code and configuration of the contender."""
        return self.fingerprint.rpartition("-")[2]

    def counts(self) -> bool:
        """Return whether the run may be reported."""
        return not self.problems


class Store:
    """The records of one size, as <workload>/<contender>-<run>.json in a folder."""

    def __init__(self, size: Size, folder: Path = FOLDER) -> None:
        self.size: Size = size
        self.folder = folder / size

    def find(self, workload: str, contender: str, run: int, fingerprint: str) -> Result | None:
        """Return the record of a run, if it counts and is not stale."""
        try:
            content = self._path(workload, contender, run).read_bytes()
            found = msgspec.json.decode(content, type=Result)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return found if found.fingerprint == fingerprint and found.counts() else None

    def keep(self, result: Result) -> Path:
        """Write a record atomically."""
        path = self._path(result.workload, result.contender, result.run)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1))
        draft.replace(path)
        return path

    def log_path(self, workload: str, contender: str, run: int) -> Path:
        """Return the path for the log of a run that does not count."""
        return self._path(workload, contender, run).with_suffix(".log")

    def all(self) -> Iterator[Result]:
        """Yield all records, also those that do not count; those of an older format are skipped."""
        for path in sorted(self.folder.glob("*/*.json")):
            with contextlib.suppress(msgspec.DecodeError):
                yield msgspec.json.decode(path.read_bytes(), type=Result)

    def _path(self, workload: str, contender: str, run: int) -> Path:
        return self.folder / workload / f"{contender}-{run}.json"


def environment() -> Environment:
    """Return the properties of this machine and the versions of the binaries."""
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return Environment(
        cores=len(os.sched_getaffinity(0)),
        cpu=found[1] if found else platform.machine(),
        kernel=platform.release(),
        python=_python(),
        kubernetes=binaries.pinned_version("kube-apiserver"),
        etcd=binaries.pinned_version("etcd"),
        kube_scheduler=kube_scheduler_version(),
    )


def _python() -> str:
    """Return the version of the interpreter, and the distribution that built it, if one did."""
    version = platform.python_version()
    if sys.base_prefix != "/usr":
        return version
    return f"{version} as built by {platform.freedesktop_os_release()['NAME']}"
