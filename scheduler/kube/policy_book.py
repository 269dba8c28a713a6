"""Which policies are in force, and what each one's status should say.

Objects come in from two sides: from kopf as they change, and from the list that is asked for now
and then. Whichever is newer counts. A generation that is refused leaves the accepted one in force;
`status.accepted` holds it, so that a restart changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from scheduler.config import policies
from scheduler.config.policies import PolicyError
from scheduler.model.events import Event, PolicyGone, PolicyObserved
from scheduler.model.policies import PolicyFigures, PreemptionPolicy
from scheduler.model.times import Seconds

__all__ = [
    "GROUP",
    "PATH",
    "RESOURCE",
    "VERSION",
    "Book",
    "Json",
    "Judged",
    "Listed",
    "judge",
    "version",
]

Json = dict[str, Any]

GROUP: Final = "preemptive-scheduler.io"
VERSION: Final = "v1alpha1"
RESOURCE: Final = "preemptionpolicies"
PATH: Final = f"/apis/{GROUP}/{VERSION}/{RESOURCE}"

ACCEPTED: Final = "Accepted"
#: Of a condition's message; it holds all problems of a policy, which are rarely more than a few.
LONGEST_MESSAGE: Final = 4096


@dataclass(frozen=True, slots=True)
class Judged:
    """An object that was read."""

    name: str
    uid: str
    generation: int
    #: `metadata.resourceVersion`, which API servers count upwards.
    version: int
    #: The policy of its spec; `None` where that is refused, and `problem` says why.
    policy: PreemptionPolicy | None
    problem: str
    #: The policy that was accepted last, as the status tells.
    former: PreemptionPolicy | None
    spec: Json
    status: Json


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects at one moment."""

    version: int
    policies: tuple[Judged, ...]


def judge(body: Mapping[str, Any]) -> Judged:
    """Read an object, and what its status says was accepted before."""
    metadata = _mapping(body.get("metadata"))
    spec, status = _mapping(body.get("spec")), _mapping(body.get("status"))
    policy, problem = _read(body)
    accepted = _mapping(status.get("accepted"))
    identity = {**metadata, "generation": accepted.get("generation")}
    former, _ = _read({"metadata": identity, "spec": accepted["spec"]}) if accepted else (None, "")
    generation = metadata.get("generation")
    return Judged(
        name=str(metadata.get("name") or ""),
        uid=str(metadata.get("uid") or ""),
        generation=generation if isinstance(generation, int) else 0,
        version=version(metadata),
        policy=policy,
        problem=problem,
        former=former,
        spec=spec if policy is not None else _mapping(accepted.get("spec")),
        status=status,
    )


def version(metadata: Mapping[str, Any]) -> int:
    """Return the resource version as a number; 0 where it is none."""
    text = str(metadata.get("resourceVersion") or "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _read(body: Mapping[str, Any]) -> tuple[PreemptionPolicy | None, str]:
    try:
        return policies.read(body), ""
    except PolicyError as error:
        return None, str(error)


def _mapping(value: object) -> Json:
    return dict(value) if isinstance(value, Mapping) else {}


@dataclass(slots=True)
class _Entry:
    """One policy, as it was last seen."""

    seen: Judged
    #: What is in force, and the spec that it came from; `None` where nothing ever was accepted.
    policy: PreemptionPolicy | None
    spec: Json
    #: The condition's value and since when it has it, until the status says so.
    turned: tuple[str, str] = ("", "")
    #: What this process wrote last, and the version that came of it.
    written: Json = field(default_factory=dict)
    written_version: int = 0


class Book:
    """Knows every policy. Owned by the scheduler's event loop."""

    def __init__(self, wall: Callable[[], Seconds]) -> None:
        self._wall = wall
        self._entries: dict[str, _Entry] = {}
        #: The newest resource version that was seen, and that of the newest list.
        self._newest = 0
        self._listed = 0

    def __len__(self) -> int:
        return len(self._entries)

    # What is in force

    def take(self, judged: Judged) -> list[Event]:
        """Take note of a state of a policy; return what the machine has to hear."""
        entry = self._entries.get(judged.name)
        if judged.version < (self._listed if entry is None else entry.seen.version):
            return []
        self._newest = max(self._newest, judged.version)
        return self._observe(judged)

    def _observe(self, judged: Judged) -> list[Event]:
        entry = self._entries.get(judged.name)
        events: list[Event] = []
        if entry is not None and entry.seen.uid != judged.uid:
            events += self._forget(judged.name)
            entry = None
        before = entry.policy if entry is not None else None
        if entry is None:
            entry = self._entries[judged.name] = _Entry(judged, judged.former, judged.spec)
        entry.seen = judged
        if judged.version >= entry.written_version and _core(judged.status) != _core(entry.written):
            entry.written = {}  # somebody else has written
        if judged.policy is not None:
            entry.policy, entry.spec = judged.policy, judged.spec
        if entry.policy is not None and entry.policy != before:
            events.append(PolicyObserved(entry.policy))
        return events

    def take_gone(self, name: str, uid: str, at: int) -> list[Event]:
        """Take note that a policy was deleted; one of that name with another uid is not meant."""
        self._newest = max(self._newest, at)
        entry = self._entries.get(name)
        return self._forget(name) if entry is not None and entry.seen.uid == uid else []

    def take_list(self, listed: Listed) -> list[Event]:
        """Take note of all policies at once; a list older than what is known says nothing."""
        if listed.version < self._newest:
            return []
        self._newest = self._listed = listed.version
        there = {each.name for each in listed.policies}
        gone = [name for name in self._entries if name not in there]
        events = [event for name in gone for event in self._forget(name)]
        return events + [event for each in listed.policies for event in self._observe(each)]

    def clear(self) -> list[Event]:
        """Take note that there can be no policies."""
        self._newest = self._listed = 0
        return [event for name in list(self._entries) for event in self._forget(name)]

    def _forget(self, name: str) -> list[Event]:
        entry = self._entries.pop(name)
        return [PolicyGone(name)] if entry.policy is not None else []

    def refused(self) -> dict[str, str]:
        """Return why the newest generation of each refused policy is refused, by name."""
        entries = self._entries.items()
        return {name: entry.seen.problem for name, entry in entries if entry.seen.problem}

    def standing(self) -> dict[str, int]:
        """Return how many policies there are by what is in force of each.

        `current`: its newest generation; `behind`: an older one, because the newest is refused;
        `none`: no generation.
        """
        counts = {"current": 0, "behind": 0, "none": 0}
        for entry in self._entries.values():
            refused = "none" if entry.policy is None else "behind"
            counts[refused if entry.seen.problem else "current"] += 1
        return counts

    # What the status should say

    def due(self, figures: Mapping[str, PolicyFigures]) -> dict[str, tuple[str, Json]]:
        """Return the status of each policy that has to be written: its uid and all of it."""
        found: dict[str, tuple[str, Json]] = {}
        for name, entry in self._entries.items():
            status = self._status(entry, figures.get(name))
            if self._differs(entry, status):
                found[name] = (entry.seen.uid, status)
        return found

    def wrote(self, name: str, uid: str, status: Json, at: int) -> None:
        """Take note that a status was written, and of the version that came of it."""
        entry = self._entries.get(name)
        if entry is not None and entry.seen.uid == uid:
            entry.written, entry.written_version = status, at

    def _differs(self, entry: _Entry, status: Json) -> bool:
        """Tell whether a status must be written.

        It is compared with what this process wrote itself, as long as nobody changed what matters:
        where two installations tell of one policy, neither takes the other's figures for a reason
        to write.
        """
        return status != (entry.written or entry.seen.status)

    def _status(self, entry: _Entry, figures: PolicyFigures | None) -> Json:
        seen = entry.seen
        condition = self._condition(entry)
        others = [each for each in _conditions(seen.status) if each.get("type") != ACCEPTED]
        status: Json = {
            "observedGeneration": seen.generation,
            "conditions": [condition, *others],
        }
        if entry.policy is not None:
            status["accepted"] = {"generation": entry.policy.generation, "spec": entry.spec}
            status["victims"] = figures.victims if figures is not None else 0
        if figures is not None and figures.refusals:
            status["refusals"] = dict(figures.refusals)
        if figures is not None and figures.last_victim is not None:
            last = figures.last_victim
            status["lastVictim"] = {
                "namespace": last.namespace,
                "name": last.name,
                "node": last.node,
                "preemptor": last.preemptor,
                "time": _stamp(last.moment),
            }
        else:
            known = seen.status.get("lastVictim")
            status |= {"lastVictim": known} if known else {}
        return status

    def _condition(self, entry: _Entry) -> Json:
        seen = entry.seen
        if seen.problem:
            said = {"status": "False", "reason": "Refused", "message": _refusal(entry)}
        else:
            said = {"status": "True", "reason": "Accepted", "message": "the rules are in force"}
        known = next((c for c in _conditions(seen.status) if c.get("type") == ACCEPTED), {})
        if known.get("status") == said["status"]:
            since = known.get("lastTransitionTime")
        else:
            if entry.turned[0] != said["status"]:
                entry.turned = (said["status"], _stamp(self._wall()))
            since = entry.turned[1]
        return {
            "type": ACCEPTED,
            **said,
            "observedGeneration": seen.generation,
            "lastTransitionTime": since,
        }


def _refusal(entry: _Entry) -> str:
    kept = entry.policy
    then = "nothing is in force" if kept is None else f"generation {kept.generation} is in force"
    return f"{then}: {entry.seen.problem}"[:LONGEST_MESSAGE]


def _core(status: Mapping[str, Any]) -> object:
    """Return what a status says about acceptance, without since when."""
    said = ("type", "status", "reason", "message", "observedGeneration")
    conditions = [[each.get(key) for key in said] for each in _conditions(status)]
    return status.get("observedGeneration"), status.get("accepted"), conditions


def _conditions(status: Mapping[str, Any]) -> list[Json]:
    found = status.get("conditions")
    return [_mapping(each) for each in found] if isinstance(found, list | tuple) else []


def _stamp(now: Seconds) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
