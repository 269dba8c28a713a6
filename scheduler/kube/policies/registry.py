"""The registry of policies: which are in force, and the status that each should have.

Objects come from two sources: from kopf as they change, and from the periodic list. The newer one
counts. When a generation is refused, the accepted one stays in force; `status.accepted` contains
it, so that a restart changes nothing.

No object stops the scheduler. Any exception while an object is parsed refuses this object, with the
exception as the reason. A policy that stops all preemption does so whatever else is wrong with it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from scheduler.config import policies
from scheduler.config.policies import PolicyError
from scheduler.kube.policies import accepted_generations
from scheduler.kube.policies.accepted_generations import AcceptedGeneration
from scheduler.model.events import Event, PolicyGone, PolicyObserved
from scheduler.model.messages import count
from scheduler.model.policies import PolicyChange, PolicyFigures, PolicyState, PreemptionPolicy
from scheduler.model.times import Seconds

__all__ = [
    "ACCEPTED",
    "GROUP",
    "MAX_POLICIES",
    "PATH",
    "RESOURCE",
    "STOPPED",
    "VERSION",
    "Due",
    "Json",
    "ParsedPolicy",
    "PolicyList",
    "PolicyRegistry",
    "parse_policy",
    "version",
]

Json = dict[str, Any]

GROUP: Final = "preemptive-scheduler.io"
VERSION: Final = "v1alpha1"
RESOURCE: Final = "preemptionpolicies"
PATH: Final = f"/apis/{GROUP}/{VERSION}/{RESOURCE}"

ACCEPTED: Final = "Accepted"
#: The condition of a policy that stops all preemption: whether no eviction is sent any more.
STOPPED: Final = "Stopped"
#: How many conditions the definition allows.
MAX_CONDITIONS: Final = 8
#: Of a condition's message, which lists all problems of a policy, rarely more than a few.
MAX_MESSAGE: Final = 4096
#: Of the JSON of a spec: the status repeats it, and etcd stores no object of more than 1.5 MiB.
MAX_SPEC_BYTES: Final = 512 * 1024
#: Each preemption is checked against all policies, so their number bounds its cost.
MAX_POLICIES: Final = 64
#: Digits of a 64 bit number; etcd does not count further.
MAX_VERSION: Final = 20


@dataclass(frozen=True, slots=True)
class ParsedPolicy:
    """The result of parsing an object."""

    name: str
    uid: str
    generation: int
    #: `metadata.resourceVersion`, which API servers count upwards.
    version: int
    #: `metadata.creationTimestamp`, which sorts as text.
    created: str
    #: The policy of its spec; `None` where that is refused, for the reason in `problem`.
    policy: PreemptionPolicy | None
    problem: str
    #: Why it stops all preemption, perhaps empty; `None` where it does not. It counts even where
    #: the rest of the spec is refused.
    stop: str | None
    #: The policy that was accepted last, from the status.
    former: PreemptionPolicy | None
    spec: Json
    status: Json


@dataclass(frozen=True, slots=True)
class PolicyList:
    """A list of all objects."""

    version: int
    policies: tuple[ParsedPolicy, ...]


class Due(NamedTuple):
    """A status that has to be written."""

    uid: str
    status: Json
    #: Whether acceptance has changed.
    is_news: bool


def parse_policy(body: Mapping[str, Any]) -> ParsedPolicy:
    """Parse an object, and the policy that was accepted before, from its status; raises nothing."""
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
        stop=policies.stop_reason(spec.get("stop"), spec.get("stopReason")),
        former=former,
        spec=spec if policy is not None else _mapping(accepted.get("spec")),
        status=status,
    )


def version(metadata: Mapping[str, Any]) -> int:
    """Return the resource version as a number; 0 where it is not one."""
    text = _text(metadata.get("resourceVersion"))
    counts = len(text) <= MAX_VERSION and text.isascii() and text.isdigit()
    return int(text) if counts else 0


def _read(body: Mapping[str, Any]) -> tuple[PreemptionPolicy | None, str]:
    """Return the policy of an object, or why it is refused."""
    try:
        policy = policies.read(body)
        size = len(msgspec.json.encode(body.get("spec")))
    except PolicyError as error:
        return None, str(error)
    except Exception as error:  # noqa: BLE001 - no object may stop the scheduler
        return None, f"the policy cannot be read: {type(error).__name__}: {error}"
    if size > MAX_SPEC_BYTES:
        return None, f"spec: Too long: may not be more than {MAX_SPEC_BYTES} bytes"
    return policy, ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Json:
    return dict(value) if isinstance(value, Mapping) else {}


@dataclass(slots=True)
class _Entry:
    """One policy, in its last known state."""

    seen: ParsedPolicy
    #: The policy in force and its spec; `None` where none was ever accepted.
    policy: PreemptionPolicy | None
    spec: Json
    #: The generations that were accepted last, newest first.
    generations: tuple[AcceptedGeneration, ...] = ()
    change: PolicyChange = field(default_factory=PolicyChange)
    #: Whether this process has written them; then it does not take those of others.
    has_written: bool = False
    #: The value of each condition and its transition time, until the status contains them.
    turned: dict[str, tuple[str, str]] = field(default_factory=dict)
    #: The status that this process wrote last, and the resulting version.
    written: Json = field(default_factory=dict)
    written_version: int = 0


class PolicyRegistry:
    """All policies. Owned by the scheduler's event loop."""

    def __init__(self, wall: Callable[[], Seconds]) -> None:
        self._wall = wall
        self._entries: dict[str, _Entry] = {}
        #: The policies that the machine has, by name.
        self._published: dict[str, PreemptionPolicy] = {}
        #: Names of the policies beyond the limit.
        self._beyond: frozenset[str] = frozenset()
        #: The newest resource version that was seen, and that of the newest list.
        self._newest = 0
        self._listed = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def newest(self) -> int:
        """The newest resource version that was seen. A list that is requested now is not older."""
        return self._newest

    # Policies in force

    def take(self, parsed: ParsedPolicy) -> list[Event]:
        """Record a state of a policy; return the events for the machine."""
        entry = self._entries.get(parsed.name)
        if parsed.version < (self._listed if entry is None else entry.seen.version):
            return []
        if entry is not None and (parsed.uid, parsed.version) == (
            entry.seen.uid,
            entry.seen.version,
        ):
            return []
        self._newest = max(self._newest, parsed.version)
        self._observe(parsed)
        return self._changes()

    def _observe(self, parsed: ParsedPolicy) -> None:
        entry = self._entries.get(parsed.name)
        before = 0 if entry is None else entry.seen.version
        if entry is None or entry.seen.uid != parsed.uid:
            entry = self._entries[parsed.name] = _Entry(parsed, parsed.former, parsed.spec)
        entry.seen = parsed
        if parsed.version >= entry.written_version and _core(parsed.status) != _core(entry.written):
            entry.written = {}  # another client has written
        if not entry.has_written and parsed.version != before:
            written = accepted_generations.read(parsed.status)
            newest = written[0].generation if written else 0
            newer = (each for each in entry.generations if each.generation > newest)
            entry.generations = (*newer, *written)
        if parsed.policy is not None:
            entry.policy, entry.spec = parsed.policy, parsed.spec
            entry.generations = accepted_generations.with_generation(
                entry.generations, parsed.generation, parsed.spec, _stamp(self._wall())
            )
        entry.change = _last_change(parsed, entry.generations)

    def take_gone(self, name: str, uid: str, at: int) -> list[Event]:
        """Record that a policy was deleted; one of that name with another uid is kept."""
        self._newest = max(self._newest, at)
        entry = self._entries.get(name)
        if entry is None or entry.seen.uid != uid:
            return []
        del self._entries[name]
        return self._changes()

    def take_list(self, listed: PolicyList, asked_at: int) -> list[Event]:
        """Record all policies at once.

        Args:
            listed: The answer of the server.
            asked_at: The value of `newest` when the list was requested. An API server answers with
                its newest state, so an older one means that its history was replaced: etcd was
                restored from a backup. Then the list is used. A list that is only older than
                changes that arrived after its request is ignored.
        """
        if listed.version < asked_at:
            self._newest = 0
            for entry in self._entries.values():
                entry.written_version = 0
        if listed.version < self._newest:
            return []
        self._newest = self._listed = listed.version
        listed_names = {policy.name for policy in listed.policies}
        for name in [name for name in self._entries if name not in listed_names]:
            del self._entries[name]
        for policy in listed.policies:
            self._observe(policy)
        return self._changes()

    def clear(self) -> list[Event]:
        """Remove all policies, because the CRD is missing."""
        self._newest = self._listed = 0
        self._entries.clear()
        return self._changes()

    def _changes(self) -> list[Event]:
        """Return the events that bring the machine to the policies in force."""
        limited = [name for name, entry in self._entries.items() if entry.seen.stop is None]
        if len(limited) > MAX_POLICIES:
            by_age = sorted(limited, key=lambda name: (self._entries[name].seen.created, name))
            self._beyond = frozenset(by_age[MAX_POLICIES:])
        elif self._beyond:
            self._beyond = frozenset()
        wanted = {
            name: policy
            for name, entry in self._entries.items()
            if name not in self._beyond and (policy := _in_force(entry)) is not None
        }
        events: list[Event] = [
            PolicyGone(name)
            for name, known in self._published.items()
            if name not in wanted or wanted[name].uid != known.uid
        ]
        events += [
            PolicyObserved(policy)
            for name, policy in wanted.items()
            if self._published.get(name) != policy
        ]
        self._published = wanted
        return events

    @property
    def stops(self) -> bool:
        """Whether a policy stops all preemption."""
        return any(policy.stop is not None for policy in self._published.values())

    def refused(self) -> dict[str, str]:
        """Return the reason why the newest generation of a policy is refused, by name."""
        problems = ((name, self._problem(entry)) for name, entry in self._entries.items())
        return {name: problem for name, problem in problems if problem}

    def states(self) -> list[PolicyState]:
        """Return the state of each policy, in name order."""
        return [
            PolicyState(
                name,
                entry.seen.generation,
                self._problem(entry)[:MAX_MESSAGE],
                self._published.get(name),
                entry.change,
            )
            for name, entry in sorted(self._entries.items())
        ]

    def count_by_state(self) -> dict[str, int]:
        """Return the number of policies, by the generation that is in force.

        `current`: its newest generation; `behind`: an older one, because the newest is refused;
        `none`: no generation of it.
        """
        counts = {"current": 0, "behind": 0, "none": 0}
        for name, entry in self._entries.items():
            kept = name in self._published
            counts[("behind" if entry.seen.problem else "current") if kept else "none"] += 1
        return counts

    def _problem(self, entry: _Entry) -> str:
        if entry.seen.problem or entry.seen.name not in self._beyond:
            return entry.seen.problem
        return (
            f"there are {len(self._entries)} policies, and at most the {MAX_POLICIES} oldest of "
            "them can be in force"
        )

    # Statuses

    def due(self, figures: Mapping[str, PolicyFigures], evicting: int) -> dict[str, Due]:
        """Return the status of each policy that has to be written, by name.

        Args:
            figures: Statistics of the policies in force, by name.
            evicting: How many evictions are under way.

        A status is compared with the one that this process wrote last, as long as no other client
        has changed the acceptance: where two installations write the status of one policy, neither
        writes because of the other's figures.
        """
        due: dict[str, Due] = {}
        # Statuses are written one by one, and somebody waits for that of a stop.
        for name, entry in sorted(
            self._entries.items(), key=lambda each: each[1].seen.stop is None
        ):
            status = self._status(entry, figures.get(name), evicting)
            before = entry.written or entry.seen.status
            if status != before:
                due[name] = Due(entry.seen.uid, status, _core(status) != _core(before))
        return due

    def wrote(self, name: str, uid: str, status: Json, at: int) -> None:
        """Record that a status was written, and the resulting version."""
        entry = self._entries.get(name)
        if entry is not None and entry.seen.uid == uid:
            entry.written, entry.written_version, entry.has_written = status, at, True

    def _status(self, entry: _Entry, figures: PolicyFigures | None, evicting: int) -> Json:
        seen = entry.seen
        ours = [self._condition(entry, ACCEPTED, self._acceptance(entry))]
        if seen.stop is not None:
            ours.append(self._condition(entry, STOPPED, _stopping(evicting)))
        others = [c for c in _conditions(seen.status) if c.get("type") not in (ACCEPTED, STOPPED)]
        status: Json = {
            "observedGeneration": seen.generation,
            "conditions": [*ours, *others][:MAX_CONDITIONS],
        }
        if seen.name in self._published and entry.policy is not None:
            status["accepted"] = {"generation": entry.policy.generation, "spec": entry.spec}
            status["history"] = list(map(structs.asdict, entry.generations))
            status["victims"] = figures.victims if figures is not None else 0
        if figures is not None and figures.refusals:
            status["refusals"] = dict(figures.refusals)
        if figures is not None and figures.would_refuse:
            status["wouldRefuse"] = dict(figures.would_refuse)
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

    def _acceptance(self, entry: _Entry) -> Json:
        if problem := self._problem(entry):
            message = f"{self._kept(entry)}: {problem}"[:MAX_MESSAGE]
            return {"status": "False", "reason": "Refused", "message": message}
        return {"status": "True", "reason": "Accepted", "message": "the rules are in force"}

    def _condition(self, entry: _Entry, kind: str, value: Json) -> Json:
        seen, turned = entry.seen, entry.turned
        known = next((c for c in _conditions(seen.status) if c.get("type") == kind), {})
        if known.get("status") == value["status"]:
            since = known.get("lastTransitionTime")
        else:
            if turned.get(kind, ("", ""))[0] != value["status"]:
                turned[kind] = (value["status"], _stamp(self._wall()))
            since = turned[kind][1]
        return {
            "type": kind,
            **value,
            "observedGeneration": seen.generation,
            "lastTransitionTime": since,
        }

    def _kept(self, entry: _Entry) -> str:
        if entry.seen.stop is not None:
            return "the stop is in force"
        kept = self._published.get(entry.seen.name)
        return (
            "nothing is in force" if kept is None else f"generation {kept.generation} is in force"
        )


def _last_change(seen: ParsedPolicy, kept: Sequence[AcceptedGeneration]) -> PolicyChange:
    """Return what the newest generation has changed, without names of namespaces."""
    spec = None if seen.policy is None else seen.spec
    former = accepted_generations.before(kept, seen.generation, spec)
    if former is None or spec is None:
        return PolicyChange(former=0 if former is None else former.generation)
    lines = accepted_generations.changes(former.spec, spec, hides_namespaces=True)
    at = kept[0].time if kept[0].generation == seen.generation else ""
    return PolicyChange(at, tuple(lines), former.generation)


def _in_force(entry: _Entry) -> PreemptionPolicy | None:
    """Return the rules that were accepted, with the stop that the newest generation asks for.

    The stop counts whatever became of the rules: it is to work when all else is wrong.
    """
    seen, policy = entry.seen, entry.policy
    if seen.stop is not None:
        policy = policy or PreemptionPolicy(seen.name, seen.uid)
        return replace(policy, generation=seen.generation, stop=seen.stop)
    return policy and replace(policy, stop=None)


def _stopping(evicting: int) -> Json:
    """Return the condition of a stop: whether no eviction is sent any more."""
    if evicting:
        message = f"{count(evicting, 'eviction')} that had begun before must end first"
        return {"status": "False", "reason": "EvictionsEnd", "message": message}
    message = "no pod is evicted by preemption, and pods are scheduled without it"
    return {"status": "True", "reason": "Stopped", "message": message}


def _core(status: Mapping[str, Any]) -> object:
    """Return the part of a status about acceptance, without transition times."""
    fields = ("type", "status", "reason", "message", "observedGeneration")
    conditions = [[c.get(key) for key in fields] for c in _conditions(status)]
    return status.get("observedGeneration"), status.get("accepted"), conditions


def _conditions(status: Mapping[str, Any]) -> list[Json]:
    conditions = status.get("conditions")
    return [_mapping(c) for c in conditions] if isinstance(conditions, list | tuple) else []


def _stamp(now: Seconds) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
