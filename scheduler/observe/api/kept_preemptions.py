"""How preemptions are written down for the next leader, and how they are checked when read.

{"version": 1, "items": [{"id": "6a1-7", "node": "n1", "preemptor": {...}, ...}, ...]}
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, field

from scheduler.core.eviction.phases import PreemptionPhase
from scheduler.core.preemption.evaluate.objective import LABELS
from scheduler.model.comparisons import MAX_COMPARED, ComparedCandidate, Comparison
from scheduler.model.rest.common import TIME, OwnerView, PodView
from scheduler.model.rest.preemptions import DeviceView, PolicyVeto, PreemptionDevices
from scheduler.model.times import LATEST, Seconds
from scheduler.observe.api.kept_fields import (
    ENCODER,
    MAX_AHEAD,
    MAX_TEXT,
    VERSION,
    Count,
    Kept,
    Moment,
    Name,
    Namespace,
    Priority,
    Text,
    Uid,
    Word,
    compressed,
    read,
)
from scheduler.observe.api.past_preemption import INTERRUPTED, PastPreemption, PastVictim
from scheduler.observe.api.preempted_devices import MAX_DEVICES
from scheduler.observe.api.refusals import MAX_ROWS
from scheduler.state.cluster import Cluster

__all__ = [
    "KeptPreemption",
    "KeptRefusals",
    "Unpacked",
    "decoded",
    "encoded",
    "kept",
    "packed",
    "restored",
    "unpacked",
]

_MAX_ITEMS: Final = 50_000
#: How many victims of a preemption are kept. No node has so many pods.
_MAX_VICTIMS: Final = 1_000
_MAX_REQUESTS: Final = 64
#: How many candidates of a comparison are written down: names of nodes take most of the space.
_CANDIDATES: Final = 5
_MAX_REFUSALS: Final = 16
_MAX_BUDGETS: Final = 16

_Mode = Annotated[str, Meta(pattern=r"^(Enforce|Audit)\Z")]
_Budget = Annotated[str, Meta(max_length=320)]
_Amount = Annotated[int, Meta(ge=0, le=2**53)]
#: A part of the name of a device.
_Part = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[!-~]+\Z")]
_Value = Annotated[float, Meta(ge=-(2**53), le=2**53)]


class _Pod(Kept):
    namespace: Namespace
    name: Name
    uid: Uid
    kind: Word = ""
    owner: Word = ""
    priority: Priority = 0
    requests: Annotated[dict[Word, _Amount], Meta(max_length=_MAX_REQUESTS)] = field(
        default_factory=dict
    )

    @classmethod
    def of(cls, view: PodView) -> "_Pod":
        """Return what is kept of a pod."""
        owner = view.owner
        requests = [*view.requests.items()][:_MAX_REQUESTS]
        return cls(
            view.namespace,
            view.name,
            view.uid,
            "" if owner is None else owner.kind[:253],
            "" if owner is None else owner.name[:253],
            view.priority,
            {name: amount for name, amount in requests if len(name) <= 253 and amount <= 2**53},
        )

    def view(self) -> PodView:
        """Return the view of the pod."""
        owner = OwnerView(self.kind, self.owner) if self.kind else None
        return PodView(
            namespace=self.namespace,
            name=self.name,
            uid=self.uid,
            owner=owner,
            priority=self.priority,
            requests=self.requests,
        )


class _Victim(Kept):
    pod: _Pod
    state: Annotated[str, Meta(pattern=r"^(planned|evicting|terminating|gone|spared)\Z")] = "gone"
    since: Moment | None = None
    evicted_at: Moment | None = None
    violates_pdb: bool = False
    wasted: bool = False
    #: Disruption budgets, as namespace/name.
    budgets: Annotated[list[_Budget], Meta(max_length=_MAX_BUDGETS)] = field(default_factory=list)
    replacement: _Pod | None = None


class _Device(Kept, array_like=True):
    driver: _Part
    pool: _Part
    device: _Part
    namespace: Namespace | None = None
    claim: Name | None = None
    pod: Name | None = None
    more_pods: Count = 0

    def view(self) -> DeviceView:
        """Return the view of the device."""
        named = (self.namespace or "", self.claim or "", self.pod or "")
        return DeviceView(self.driver, self.pool, self.device, *named, self.more_pods)


class _Candidate(Kept, array_like=True):
    node: Name
    values: Annotated[list[_Value | None], Meta(max_length=16)]
    lost_by: Word = ""


class _Comparison(Kept):
    criteria: Annotated[list[Word], Meta(max_length=16)]
    candidates: Annotated[list[_Candidate], Meta(min_length=1, max_length=MAX_COMPARED)]
    total: Count


class _Refusal(Kept, array_like=True):
    policy: Word
    rule: Word
    message: Word


class KeptPreemption(Kept):
    """One preemption, as it is written down."""

    id: Annotated[str, Meta(max_length=32, pattern=r"^[0-9a-f]+-[0-9]+\Z")]
    node: Name
    preemptor: _Pod
    decided_at: Moment
    ended_at: Moment | None = None
    phase: PreemptionPhase = PreemptionPhase.DONE
    outcome: Annotated[str, Meta(max_length=20, pattern=r"^[a-z ]*\Z")] = ""
    problem: Text = ""
    victims: Annotated[list[_Victim], Meta(max_length=_MAX_VICTIMS)] = field(default_factory=list)
    devices: Annotated[list[_Device], Meta(max_length=MAX_DEVICES)] = field(default_factory=list)
    more_devices: Count = 0
    comparison: _Comparison | None = None
    would_refuse: Annotated[list[_Refusal], Meta(max_length=_MAX_REFUSALS)] = field(
        default_factory=list
    )


class _File(msgspec.Struct):
    version: int
    items: list[msgspec.Raw]
    refusals: msgspec.Raw = msgspec.Raw(b"{}")


class KeptRefusals(Kept):
    """What policies have refused: begin of the span of time, policy, mode and number."""

    since: Moment = LATEST
    rows: Annotated[list[tuple[Moment, Word, _Mode, Count]], Meta(max_length=MAX_ROWS)] = field(
        default_factory=list
    )


class Unpacked(NamedTuple):
    """What is in a text."""

    items: Sequence[msgspec.Raw]
    refusals: KeptRefusals


_ITEM: Final = msgspec.json.Decoder(KeptPreemption)
_FILE: Final = msgspec.json.Decoder(_File)
_REFUSALS: Final = msgspec.json.Decoder(KeptRefusals)


# Writing ------------------------------------------------------------------------------------------


def encoded(past: PastPreemption) -> bytes:
    """Return a preemption as it is written down; it must have been brought up to date."""
    return ENCODER.encode(kept(past))


def kept(past: PastPreemption) -> KeptPreemption:
    """Return what is written down of a preemption."""
    return KeptPreemption(
        id=past.name,
        node=past.node,
        preemptor=_Pod.of(past.preemptor),
        decided_at=round(past.decided_at, 3),
        ended_at=past.ended_at,
        phase=past.phase,
        outcome=past.outcome,
        problem=past.problem[:MAX_TEXT],
        victims=[_kept_victim(each) for each in past.victims[:_MAX_VICTIMS]],
        devices=[] if past.devices is None else [*map(_kept_device, past.devices.items)],
        more_devices=0 if past.devices is None else past.devices.more,
        comparison=None if past.comparison is None else _kept_comparison(past.comparison),
        would_refuse=[
            _Refusal(each.policy, each.rule, each.message[:253])
            for each in past.would_refuse[:_MAX_REFUSALS]
        ],
    )


def _kept_victim(victim: PastVictim) -> _Victim:
    return _Victim(
        pod=_Pod.of(victim.pod),
        state=victim.state,
        since=victim.since,
        evicted_at=victim.evicted_at,
        violates_pdb=victim.violates_pdb,
        wasted=victim.in_vain,
        budgets=[*victim.budgets[:_MAX_BUDGETS]],
        replacement=None if victim.replacement is None else _Pod.of(victim.replacement),
    )


def _kept_device(view: DeviceView) -> _Device:
    named = (view.namespace or None, view.claim or None, view.pod or None)
    return _Device(view.driver, view.pool, view.device, *named, view.more_pods)


def _kept_comparison(found: Comparison) -> _Comparison:
    return _Comparison(
        [label.name for label in found.criteria],
        [
            _Candidate(each.node, [*each.values], "" if each.lost_by is None else each.lost_by.name)
            for each in found.candidates[:_CANDIDATES]
        ],
        found.total,
    )


def packed(items: Iterable[bytes], refusals: KeptRefusals | None = None) -> bytes:
    """Return the compressed text with some encoded preemptions. It may be called in any thread."""
    rest = ENCODER.encode(refusals or KeptRefusals())
    text = b'{"version":%d,"items":[%s],"refusals":%s}' % (VERSION, b",".join(items), rest)
    return compressed(text)


# Reading ------------------------------------------------------------------------------------------


def unpacked(content: bytes) -> Unpacked:
    """Return the encoded preemptions of a compressed text, and the refusals if they are valid.

    It may be called in any thread.

    Raises:
        KeptError: It is not one, or of another version.
    """
    found = read(content, _FILE)
    try:
        refusals = _REFUSALS.decode(found.refusals)
    except (ValueError, RecursionError):
        refusals = KeptRefusals()
    return Unpacked(found.items[-_MAX_ITEMS:], refusals)


def decoded(item: msgspec.Raw, now: Seconds, oldest: Seconds) -> KeptPreemption | None:
    """Return an encoded preemption if it is valid, and between the oldest one and now."""
    try:
        found = _ITEM.decode(item)
    except (ValueError, RecursionError):
        return None
    ended = found.decided_at if found.ended_at is None else found.ended_at
    uids = {victim.pod.uid for victim in found.victims}
    is_sound = found.decided_at <= ended <= now + MAX_AHEAD and len(uids) == len(found.victims)
    return found if is_sound and ended > oldest else None


def restored(found: KeptPreemption, number: int, cluster: Cluster, now: Seconds) -> PastPreemption:
    """Return a preemption that was read, under a number, up to date.

    One that had not ended when it was written down counts as ended, with the outcome `unknown`: its
    process has ended.
    """
    past = PastPreemption.read(
        number, found.id, found.preemptor.view(), found.node, min(found.decided_at, now)
    )
    past.phase, past.problem = found.phase, found.problem
    past.outcome = INTERRUPTED if found.ended_at is None else found.outcome
    past.ended_at = min(found.decided_at if found.ended_at is None else found.ended_at, now)
    past.victims = [_restored_victim(each, now) for each in found.victims]
    past.comparison = _restored_comparison(found.comparison)
    if found.devices:
        items = tuple(each.view() for each in found.devices)
        past.devices = PreemptionDevices(items, found.more_devices)
    past.would_refuse = tuple(
        PolicyVeto(each.policy, each.rule, each.message) for each in found.would_refuse
    )
    past.update(cluster, now)
    return past


def _restored_victim(found: _Victim, now: Seconds) -> PastVictim:
    victim = PastVictim(found.pod.view(), violates_pdb=found.violates_pdb)
    victim.state, victim.since = found.state, found.since
    victim.in_vain = victim.waste_is_told = found.wasted
    victim.budgets = tuple(found.budgets)
    if found.evicted_at is not None:
        victim.evicted_at = min(found.evicted_at, now)
    if found.replacement is not None:
        victim.replacement = found.replacement.view()
    return victim


def _restored_comparison(found: _Comparison | None) -> Comparison | None:
    """Return a comparison; `None` where there is none, or one by criteria that are not known."""
    if found is None:
        return None
    lost = (each.lost_by for each in found.candidates if each.lost_by)
    if not LABELS.keys() >= {*found.criteria, *lost}:
        return None
    criteria = tuple(LABELS[name] for name in found.criteria)
    for each in found.candidates:
        for label, value in zip(criteria, each.values, strict=False):
            if label.measure == TIME and value is not None and not 0 <= value <= LATEST:
                return None
    candidates = tuple(
        ComparedCandidate(
            each.node, tuple(each.values), LABELS[each.lost_by] if each.lost_by else None
        )
        for each in found.candidates
    )
    return Comparison(criteria, candidates, found.total)
