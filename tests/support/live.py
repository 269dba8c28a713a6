"""The scheduler as a real process: started on a free port, listened to, signalled, always ended.

    with Schedulers(folder, kubeconfig) as schedulers:
        scheduler = schedulers.start(name="t-1")
        scheduler.wait_log("pod_bound", pod="default/a")
        assert scheduler.terminate() == 0

Waiting is done on the log, which is read as it is written, never by looking again and again.
"""

import http.client
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from prometheus_client.parser import text_string_to_metric_families

#: One line of the log.
Record: TypeAlias = dict[str, Any]

COMMAND = Path(sys.executable).with_name("preemptive-scheduler")
ROOT = Path(__file__).parents[2]
LOOPBACK = "127.0.0.1"

#: Runs a command that the kernel kills when the tests end, in whatever way they do.
WITH_US = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
)

#: Where this is set, each start would compile everything again.
UNCOMPILED = "PYTHONDONTWRITEBYTECODE"

#: How long anything may take on a busy machine.
PATIENCE_SECONDS = 30.0

#: Between two probes of /readyz.
PROBE_SECONDS = 0.1

#: How much of a log is shown for a failed test.
PRINTED_LINES = 60

#: How long one may take to end by itself after its test, which keeps the last lines of its log.
CLOSE_SECONDS = 3.0


class Scheduler:
    """One process of `preemptive-scheduler run`.

    Attributes:
        name: the schedulerName of its only profile.
        port: where it serves health and metrics.
        records: the lines of its log so far.
    """

    def __init__(
        self,
        name: str,
        port: int,
        arguments: list[str | Path],
        log: Path,
        command: Sequence[str | Path] = (COMMAND,),
    ) -> None:
        self.name = name
        self.port = port
        self.records: list[Record] = []
        self._log = log
        self._changed = threading.Condition()
        self._ended = False
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", WITH_US, *command, "run", "-v", "2", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={key: value for key, value in os.environ.items() if key != UNCOMPILED},
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait_log(self, event: object, **fields: object) -> Record:
        """Wait until the log has a line with this event and these fields; return the first one.

        Each may be a predicate on the value.
        """
        wanted = {"event": event, **fields}
        found: Record | None = None
        position = 0

        def is_over() -> bool:
            nonlocal found, position
            while found is None and position < len(self.records):
                record = self.records[position]
                position += 1
                if _matches(record, wanted):
                    found = record
            return found is not None or self._ended

        with self._changed:
            self._changed.wait_for(is_over, PATIENCE_SECONDS)
        if found is None:
            raise TimeoutError(f"the log of {self.name} has no line with {wanted}")
        return found

    def logged(self, event: object, **fields: object) -> list[Record]:
        """Return the lines with this event and these fields so far."""
        wanted = {"event": event, **fields}
        return [record for record in self.records if _matches(record, wanted)]

    def wait_end(self) -> int:
        """Wait until the process has ended; return its exit code."""
        code = self._process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return code

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        self._process.kill()
        self.wait_end()

    def terminate(self) -> int:
        """Ask it to end (SIGTERM), wait, and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_end()

    def signal(self, number: int) -> None:
        """Send a signal to this process alone."""
        self._process.send_signal(number)

    def pause(self) -> None:
        """Stop it where it stands; connections stay open, nothing answers."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after a pause."""
        self.signal(signal.SIGCONT)

    def get(self, path: str, token: str = "", certificate: str = "") -> tuple[int, str]:
        """Read a page that it serves: status and text.

        Args:
            path: The path of the page.
            token: The bearer token; empty for none.
            certificate: A file with a client certificate and its key; empty for none.
        """
        status, body = self.fetch(path, token, certificate)
        return status, body.decode()

    def fetch(self, path: str, token: str = "", certificate: str = "") -> tuple[int, bytes]:
        """Read a page as bytes; see `get`."""
        self.wait_log("serving")  # its first requests are sent before that
        connection = connect(self.port, certificate=certificate)
        try:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def wait_ready(self) -> None:
        """Ask /readyz, as a kubelet does, until it says that all is well."""
        pause = threading.Event()
        for _ in range(int(PATIENCE_SECONDS / PROBE_SECONDS)):
            status, text = self.get("/readyz")
            if status == 200:
                return
            pause.wait(PROBE_SECONDS)
        raise TimeoutError(f"{self.name} is not ready: {text}")

    def metric(self, name: str, **labels: str) -> float:
        """Read the sum of all samples of a metric with these labels; 0 if there are none."""
        status, text = self.get("/metrics")
        assert status == 200, text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def close(self) -> None:
        """End it if it runs, in order if it can, and release what belongs to it."""
        if self._process.poll() is None:
            self.resume()
            self.signal(signal.SIGTERM)
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self.wait_end()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def log_text(self) -> str:
        """Return the whole log."""
        return self._log.read_text(errors="replace")

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._log.open("wb") as log:
            for line in self._process.stderr:
                log.write(line)
                log.flush()
                with self._changed:
                    self.records.append(_record(line))
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class Schedulers:
    """Starts schedulers for one test and ends them all.

    Args:
        folder: for configuration files and logs.
        kubeconfig: the default kubeconfig of schedulers.
    """

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self._folder = folder
        self._kubeconfig = kubeconfig
        self._all: list[Scheduler] = []
        #: The schedulerName of those that are started without a name: no other test uses it.
        self.name = f"t-{secrets.token_hex(4)}"

    def __enter__(self) -> "Schedulers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(
        self,
        *arguments: str,
        name: str = "",
        kubeconfig: Path | None = None,
        config: Mapping[str, Any] | None = None,
        ready: bool = True,
        ahead: float | None = None,
    ) -> Scheduler:
        """Start a scheduler.

        Args:
            *arguments: further flags.
            name: its schedulerName; `self.name` if empty.
            kubeconfig: instead of the common one.
            config: fields of its configuration file, over ours: no leader election.
            ready: wait until it has begun to schedule.
            ahead: seconds by which its clock is ahead of this machine's, negative if it is behind.
        """
        name = name or self.name
        stem = f"scheduler-{len(self._all)}"
        file = self._folder / f"{stem}.yaml"
        file.write_text(yaml.safe_dump({**_config(name), **(config or {})}))
        port = free_port()
        serving = ["--bind-address", LOOPBACK, "--secure-port", str(port)]
        reach = ["--config", file, "--kubeconfig", kubeconfig or self._kubeconfig]
        log = self._folder / f"{stem}.log"
        scheduler = Scheduler(name, port, [*reach, *serving, *arguments], log, _command(ahead))
        self._all.append(scheduler)
        if ready:
            scheduler.wait_log("caches_synced")
        return scheduler

    def close(self) -> None:
        """End all, and print the ends of their logs for the report of a failed test."""
        for scheduler in self._all:
            scheduler.close()
            lines = scheduler.log_text().splitlines()[-PRINTED_LINES:]
            sys.stdout.write(f"--- {scheduler.name}, pid {scheduler.pid} ---\n")
            sys.stdout.write("\n".join([*lines, ""]))
        self._all.clear()


def connect(port: int, timeout: float = 10.0, certificate: str = "") -> http.client.HTTPSConnection:
    """Return a connection to a port of this machine, whose certificate is not verified.

    The authorities of this machine are not read: that takes longer than a whole request.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    if certificate:
        tls.load_cert_chain(certificate)
    return http.client.HTTPSConnection(LOOPBACK, port, timeout=timeout, context=tls)


def free_port() -> int:
    """Return a port that is free now, and that no outgoing connection will be given."""
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    last = int(limits[0]) if int(limits[0]) > 12000 else 1 << 16
    while True:
        port = 11000 + secrets.randbelow(last - 11000)
        with socket.socket() as sock:
            try:
                sock.bind((LOOPBACK, port))
            except OSError:
                continue
            return port


def _command(ahead: float | None) -> Sequence[str | Path]:
    if ahead is None:
        return (COMMAND,)
    return (sys.executable, "-m", "tests.support.skewed", str(ahead))


def _config(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        # Where our ServiceAccount may write down what preemption remembers.
        "leaderElection": {"leaderElect": False, "resourceNamespace": "preemptive-scheduler"},
        "profiles": [{"schedulerName": name}],
    }


def _record(line: bytes) -> Record:
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    return (
        record if isinstance(record, dict) else {"event": "", "text": line.decode(errors="replace")}
    )


def _matches(record: Record, fields: Mapping[str, object]) -> bool:
    return all(_matching(record.get(key), wanted) for key, wanted in fields.items())


def _matching(value: object, wanted: object | Callable[[Any], bool]) -> bool:
    return bool(wanted(value)) if callable(wanted) else value == wanted
