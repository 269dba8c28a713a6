"""What the scheduler of the demonstration serves, and what it logs."""

import warnings
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import urllib3

from deploy.tools.demo import address
from scheduler.model import times
from scheduler.model.rest.cluster import NodesDocument, PendingPodsDocument, Summary
from scheduler.model.rest.common import Document
from scheduler.model.rest.preemptions import PreemptionsDocument
from scheduler.model.times import Seconds
from scheduler.terminal.top import TopSnapshot

__all__ = ["NOTHING", "Log", "LogLine", "Pages"]

Json: TypeAlias = dict[str, Any]
D = TypeVar("D", bound=Document)

#: Before the scheduler serves.
NOTHING: Final = TopSnapshot(Summary("", "", leader=True, revision=0, queue={}))


class Pages:
    """The documents of a scheduler on this machine."""

    def __init__(self, port: int) -> None:
        self._url = f"{address.url(port)}/api/v1"
        self._pool = urllib3.PoolManager(cert_reqs="CERT_NONE", retries=False, timeout=5.0)

    def snapshot(self) -> TopSnapshot | None:
        """Return what the scheduler serves now; `None` while it does not."""
        try:
            nodes = self._get("nodes", NodesDocument).items
            pending = self._get("pods", PendingPodsDocument).items
            preemptions = self._get("preemptions", PreemptionsDocument).items
            summary = self._get("summary", Summary)
        except (urllib3.exceptions.HTTPError, msgspec.MsgspecError):
            return None
        return TopSnapshot(summary, nodes, pending, preemptions)

    def _get(self, path: str, document: type[D]) -> D:
        with warnings.catch_warnings():
            # Its certificate is its own, and the connection stays on this machine.
            warnings.simplefilter("ignore", urllib3.exceptions.InsecureRequestWarning)
            answer = self._pool.request("GET", f"{self._url}/{path}")
        return msgspec.json.decode(answer.data, type=document)


class LogLine(msgspec.Struct, frozen=True):
    """What the scheduler has done."""

    at: Seconds
    #: placed, preempts, evicted, waits, failed or restarts.
    verb: str
    text: str


class Log:
    """The log of the scheduler, which has JSON lines; read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._last: dict[str, LogLine] = {}

    def news(self) -> list[LogLine]:
        """Return what was done since the last call; what a pod has repeated is left out."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        found = []
        for line in filter(None, map(_line, whole.split(b"\n"))):
            pod = line.text.partition(" ")[0].rstrip(":")
            last = self._last.get(pod)
            if last is None or (last.verb, last.text) != (line.verb, line.text):
                self._last[pod] = line
                found.append(line)
        return found

    def last(self) -> tuple[str, str]:
        """Return the last event, and its problem; a line that is no event is a problem."""
        text = (self._path.read_text(errors="replace").splitlines() or [""])[-1]
        try:
            record = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.MsgspecError:
            return "", text
        return str(record.get("event", "")), str(record.get("problem") or record.get("message", ""))


def _line(text: bytes) -> LogLine | None:
    """Return what a line of the log tells; `None` if it is of no interest here."""
    try:
        record = msgspec.json.decode(text)
        at = times.parse(record["ts"])
        event = record["event"]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return None
    pod, node, message = (record.get(name, "") for name in ("pod", "node", "message"))
    victims = ", ".join(map(_name, record.get("victims", ())))
    told = {
        "pod_bound": ("placed", f"{_name(pod)} on {node}"),
        "pod_unschedulable": ("waits", f"{_name(pod)}: {message}"),
        "preemption_planned": ("preempts", f"{_name(pod)} on {node}, evicting {victims}"),
        "victim_evicted": ("evicted", f"{_name(pod)} for {_name(record.get('preemptor', ''))}"),
        "attempt_failed": ("failed", f"{_name(pod)}: {message}"),
        "bind_failed": ("failed", f"{_name(pod)}: {message}"),
    }.get(event)
    return None if told is None or at is None else LogLine(at, *told)


def _name(key: str) -> str:
    """Return the name of a pod: the example has one namespace."""
    return key.rpartition("/")[2]
