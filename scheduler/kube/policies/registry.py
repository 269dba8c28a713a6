"""Which policies are in force, and what each one's status should say.

Objects come in from two sides: from kopf as they change, and from the list that is asked for now
and then. Whichever is newer counts. A generation that is refused leaves the accepted one in force;
`status.accepted` holds it, so that a restart changes nothing.

No object stops the scheduler. Whatever reading one raises refuses this object, and says why.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from scheduler.config import policies
from scheduler.config.policies import PolicyError
from scheduler.model.events import Event, PolicyGone, PolicyObserved
from scheduler.model.policies import PolicyFigures, PreemptionPolicy
from scheduler.model.times import Seconds

__all__ = [
    "ACCEPTED",
    "GROUP",
    "MOST_POLICIES",
    "PATH",
    "RESOURCE",
    "VERSION",
    "Due",
    "Json",
    "Listed",
    "ParsedPolicy",
    "PolicyRegistry",
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
#: Each preemption is judged by all policies, so their number bounds its cost.
MOST_POLICIES: Final = 64
#: Digits of a 64 bit number; etcd counts no further.
LONGEST_VERSION: Final = 20


@dataclass(frozen=True, slots=True)
class ParsedPolicy:
    """An object that was read."""

    name: str
    uid: str
    generation: int
    #: `metadata.resourceVersion`, which API servers count upwards.
    version: int
    #: `metadata.creationTimestamp`, whose order is that of the text.
    created: str
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
    policies: tuple[ParsedPolicy, ...]


class Due(NamedTuple):
    """A status that has to be written."""

    uid: str
    status: Json
    #: Whether it says something new about what is accepted.
    is_news: bool


def judge(body: Mapping[str, Any]) -> ParsedPolicy:
    """Read an object, and what its status says was accepted before; raises nothing."""
    metadata = _mapping(body.get("metadata"))
    spec, status = _mapping(body.get("spec")), _mapping(body.get("status"))
    policy, problem = _read(body)
    accepted = _mapping(status.get("accepted"))
    former = None
    if "spec" in accepted:
        identity = {**metadata, "generation": accepted.get("generation")}
        former, _ = _read({"metadata": identity, "spec": accepted["spec"]})
    generation = metadata.get("generation")
    return ParsedPolicy(
        name=_text(metadata.get("name")),
        uid=_text(metadata.get("uid")),
        generation=generation if isinstance(generation, int) else 0,
        version=version(metadata),
        created=_text(metadata.get("creationTimestamp")),
        policy=policy,
        problem=problem,
        former=former,
        spec=spec if policy is not None else _mapping(accepted.get("spec")),
        status=status,
    )


def version(metadata: Mapping[str, Any]) -> int:
    """Return the resource version as a number; 0 where it is none."""
    text = _text(metadata.get("resourceVersion"))
    counts = len(text) <= LONGEST_VERSION and text.isascii() and text.isdigit()
    return int(text) if counts else 0


def _read(body: Mapping[str, Any]) -> tuple[PreemptionPolicy | None, str]:
    """Return the policy of an object, or why it is refused."""
    try:
        return policies.read(body), ""
    except PolicyError as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001 - an object must not be able to stop the scheduler
        return None, f"the policy cannot be read: {type(error).__name__}: {error}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Json:
    return dict(value) if isinstance(value, Mapping) else {}


@dataclass(slots=True)
class _Entry:
    """One policy, as it was last seen."""

    seen: ParsedPolicy
    #: What is in force, and the spec that it came from; `None` where nothing ever was accepted.
    policy: PreemptionPolicy | None
    spec: Json
    #: The condition's value and since when it has it, until the status says so.
    turned: tuple[str, str] = ("", "")
    #: What this process wrote last, and the version that came of it.
    written: Json = field(default_factory=dict)
    written_version: int = 0


class PolicyRegistry:
    """Knows every policy. Owned by the scheduler's event loop."""

    def __init__(self, wall: Callable[[], Seconds]) -> None:
        self._wall = wall
        self._entries: dict[str, _Entry] = {}
        #: What was told as in force, by name.
        self._told: dict[str, PreemptionPolicy] = {}
        #: Names of the policies that are too many.
        self._beyond: frozenset[str] = frozenset()
        #: The newest resource version that was seen, and that of the newest list.
        self._newest = 0
        self._listed = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def newest(self) -> int:
        """The newest resource version that was seen. A list that is asked for now is not older."""
        return self._newest

    # What is in force

    def take(self, judged: ParsedPolicy) -> list[Event]:
        """Take note of a state of a policy; return what the machine has to hear."""
        entry = self._entries.get(judged.name)
        if judged.version < (self._listed if entry is None else entry.seen.version):
            return []
        if entry is not None and (judged.uid, judged.version) == (
            entry.seen.uid,
            entry.seen.version,
        ):
            return []
        self._newest = max(self._newest, judged.version)
        self._observe(judged)
        return self._news()

    def _observe(self, judged: ParsedPolicy) -> None:
        entry = self._entries.get(judged.name)
        if entry is None or entry.seen.uid != judged.uid:
            entry = self._entries[judged.name] = _Entry(judged, judged.former, judged.spec)
        entry.seen = judged
        if judged.version >= entry.written_version and _core(judged.status) != _core(entry.written):
            entry.written = {}  # somebody else has written
        if judged.policy is not None:
            entry.policy, entry.spec = judged.policy, judged.spec

    def take_gone(self, name: str, uid: str, at: int) -> list[Event]:
        """Take note that a policy was deleted; one of that name with another uid is not meant."""
        self._newest = max(self._newest, at)
        entry = self._entries.get(name)
        if entry is None or entry.seen.uid != uid:
            return []
        del self._entries[name]
        return self._news()

    def take_list(self, listed: Listed, asked_at: int) -> list[Event]:
        """Record all policies at once.

        Args:
            listed: What the server answered.
            asked_at: What `newest` was when the server was asked. An API server answers with its
                newest state, so an older one means that its history was replaced: etcd was
                restored from a backup. Then the list counts. A list that is only older than what
                was heard while it was on its way says nothing.
        """
        if listed.version < asked_at:
            self._newest = 0
            for entry in self._entries.values():
                entry.written_version = 0
        if listed.version < self._newest:
            return []
        self._newest = self._listed = listed.version
        there = {each.name for each in listed.policies}
        for name in [name for name in self._entries if name not in there]:
            del self._entries[name]
        for each in listed.policies:
            self._observe(each)
        return self._news()

    def clear(self) -> list[Event]:
        """Take note that there can be no policies."""
        self._newest = self._listed = 0
        self._entries.clear()
        return self._news()

    def _news(self) -> list[Event]:
        """Return what the machine has to hear so that it has what is in force."""
        if len(self._entries) > MOST_POLICIES:
            by_age = sorted(
                self._entries, key=lambda name: (self._entries[name].seen.created, name)
            )
            self._beyond = frozenset(by_age[MOST_POLICIES:])
        elif self._beyond:
            self._beyond = frozenset()
        wanted = {
            name: entry.policy
            for name, entry in self._entries.items()
            if entry.policy is not None and name not in self._beyond
        }
        events: list[Event] = [
            PolicyGone(name)
            for name, told in self._told.items()
            if name not in wanted or wanted[name].uid != told.uid
        ]
        events += [
            PolicyObserved(policy)
            for name, policy in wanted.items()
            if self._told.get(name) != policy
        ]
        self._told = wanted
        return events

    def refused(self) -> dict[str, str]:
        """Return why the newest generation of each refused policy is refused, by name."""
        problems = ((name, self._problem(entry)) for name, entry in self._entries.items())
        return {name: problem for name, problem in problems if problem}

    def standing(self) -> dict[str, int]:
        """Return how many policies there are, by what is in force of each.

        `current`: its newest generation; `behind`: an older one, because the newest is refused;
        `none`: no generation of it.
        """
        counts = {"current": 0, "behind": 0, "none": 0}
        for name, entry in self._entries.items():
            kept = name in self._told
            counts[("behind" if entry.seen.problem else "current") if kept else "none"] += 1
        return counts

    def _problem(self, entry: _Entry) -> str:
        if entry.seen.problem or entry.seen.name not in self._beyond:
            return entry.seen.problem
        return (
            f"there are {len(self._entries)} policies, and at most the {MOST_POLICIES} oldest of "
            "them can be in force"
        )

    # What the status should say

    def due(self, figures: Mapping[str, PolicyFigures]) -> dict[str, Due]:
        """Return the status of each policy that has to be written, by name.

        A status is compared with what this process wrote itself, as long as no other client changed
        what matters: where two installations tell of one policy, neither takes the other's figures
        for a reason to write.
        """
        found: dict[str, Due] = {}
        for name, entry in self._entries.items():
            status = self._status(entry, figures.get(name))
            before = entry.written or entry.seen.status
            if status != before:
                found[name] = Due(entry.seen.uid, status, _core(status) != _core(before))
        return found

    def wrote(self, name: str, uid: str, status: Json, at: int) -> None:
        """Take note that a status was written, and of the version that came of it."""
        entry = self._entries.get(name)
        if entry is not None and entry.seen.uid == uid:
            entry.written, entry.written_version = status, at

    def _status(self, entry: _Entry, figures: PolicyFigures | None) -> Json:
        seen = entry.seen
        condition = self._condition(entry)
        others = [each for each in _conditions(seen.status) if each.get("type") != ACCEPTED]
        status: Json = {
            "observedGeneration": seen.generation,
            "conditions": [condition, *others],
        }
        if seen.name in self._told and entry.policy is not None:
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
        if problem := self._problem(entry):
            message = f"{self._kept(entry)}: {problem}"[:LONGEST_MESSAGE]
            said = {"status": "False", "reason": "Refused", "message": message}
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

    def _kept(self, entry: _Entry) -> str:
        kept = self._told.get(entry.seen.name)
        return (
            "nothing is in force" if kept is None else f"generation {kept.generation} is in force"
        )


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
