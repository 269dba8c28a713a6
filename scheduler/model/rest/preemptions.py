"""Documents about preemptions and about policies."""

from collections.abc import Mapping

import msgspec

from scheduler.model.rest.common import CriterionView, Document, Impact, PodView

__all__ = [
    "BoundView",
    "BudgetUse",
    "BudgetView",
    "CandidateView",
    "DeviceView",
    "PoliciesDocument",
    "PolicyVeto",
    "PolicyView",
    "PreemptionDevices",
    "PreemptionView",
    "PreemptionsDocument",
    "Replacement",
    "UndeallocatedClaim",
    "VictimView",
]


class CandidateView(Document, frozen=True):
    """A node on which a preemption would help."""

    node: str
    #: By criterion: numbers, and times as in RFC 3339. A value that is unknown is left out.
    values: Mapping[str, int | str] = {}
    #: The criterion by which it lost to the chosen one; empty for the chosen one.
    lost_by: str = ""


class Replacement(Document, frozen=True):
    """What became of the work of a victim: a newer pod of the same owner."""

    pod: PodView
    #: Empty if it is on no node.
    node: str = ""
    #: Why it is pending, or that this scheduler does not know it any more.
    message: str = ""


class VictimView(Document, frozen=True):
    """A pod that is evicted for a preemptor."""

    pod: PodView
    #: For how long it has run, or had run when it was evicted.
    ran_seconds: float = 0.0
    #: planned; evicting, terminating or gone as one that is evicted; or spared, also if it ended
    #: otherwise.
    state: str = "planned"
    #: Whether its eviction violates a disruption budget, and which ones.
    violates_pdb: bool = False
    budgets: tuple[str, ...] = ()
    #: When its eviction was requested; empty if it was not.
    evicted_at: str = ""
    #: Whether its eviction was wasted: the preemptor did not use the resources that it freed.
    wasted: bool = False
    replacement: Replacement | None = None


class PolicyVeto(Document, frozen=True):
    """A policy that forbids victims, or a whole preemption."""

    policy: str
    rule: str
    message: str
    #: How many nodes or victims it rules out.
    count: int = 0


class DeviceView(Document, frozen=True):
    """A device that a preemptor waits for, and the claim of a victim that has it, or had it."""

    driver: str
    pool: str
    device: str
    #: The namespace and the name of the claim; empty if no claim of a victim had the device when
    #: the preemption was decided, or if the caller may not see it.
    namespace: str = ""
    claim: str = ""
    #: A pod that the claim was reserved for, and how many more.
    pod: str = ""
    more_pods: int = 0

    @property
    def full_name(self) -> str:
        """The driver, the pool and the device, as people write them."""
        return f"{self.driver}/{self.pool}/{self.device}"


class UndeallocatedClaim(Document, frozen=True):
    """A claim that keeps its devices although its pods are gone."""

    namespace: str
    name: str
    #: A pod that it is still reserved for; empty if there is none.
    pod: str = ""


class PreemptionDevices(Document, frozen=True):
    """The devices that a preemptor waits for."""

    #: At most 16.
    items: tuple[DeviceView, ...] = ()
    #: How many more there are, with those that the caller may not see.
    more: int = 0
    #: When the last victim was gone; empty before, and when the preemption is over.
    victims_gone_at: str = ""
    #: Claims of victims that are gone, which are not deallocated yet; at most 16, and how many
    #: more there are, with those that the caller may not see.
    claims: tuple[UndeallocatedClaim, ...] = ()
    more_claims: int = 0


class PreemptionView(Document, frozen=True):
    """One preemption, under way or past."""

    id: str
    revision: int
    preemptor: PodView
    node: str
    #: A value of the table of phases: nominating, recording, evicting, awaiting, deallocating (the
    #: victims are gone, and their claims keep the devices), done, and so on.
    phase: str
    decided_at: str
    #: One sentence for people: for whom pods are evicted, where, and what came of it.
    verdict: str = ""
    impact: Impact = "none"
    #: Empty while it is under way.
    ended_at: str = ""
    #: bound, elsewhere, failed, given up or gone; empty while it is under way. unknown if the
    #: leader that carried it out ended first.
    outcome: str = ""
    problem: str = ""
    victims: tuple[VictimView, ...] = ()
    #: How many more victims there are, which the caller may not see.
    hidden_victims: int = 0
    #: How many of all victims violate a disruption budget.
    pdb_violations: int = 0
    #: Null where it frees no devices for the preemptor.
    devices: PreemptionDevices | None = None
    #: The criteria of the candidates in the order of comparison, then what else decided.
    criteria: tuple[CriterionView, ...] = ()
    #: At most 20, the best ones first; the first is the chosen one.
    candidates: tuple[CandidateView, ...] = ()
    candidates_total: int = 0
    #: The criterion by which the chosen candidate won against the second; empty if it was alone.
    criterion: str = ""
    #: Amount times the seconds that the victims had run: `pods`, `cpu`, `memory`. Only of victims
    #: that the caller may see.
    cost: Mapping[str, float] = {}
    #: What policies in mode Audit would have refused when it was decided, without numbers.
    would_refuse: tuple[PolicyVeto, ...] = ()


class PreemptionsDocument(Document, frozen=True):
    """`GET /api/v1/preemptions?state=active|past&limit=&continue=`. Supports `watch=1&revision=N`.

    Newest first: the last 1,000 that ended within 24 hours, also those of earlier leaders.
    """

    #: A time and not a count, which would tell how many hidden preemptions change.
    revision: int
    items: tuple[PreemptionView, ...] = ()
    #: Preemptions of which the caller may see neither preemptor nor victim. Changes have none.
    hidden: int = 0
    continue_: str = msgspec.field(default="", name="continue")
    remaining: int = 0


class BudgetUse(Document, frozen=True):
    """What is spent of a budget for one key: a namespace, an owner or a node."""

    key: str
    spent: int


class BudgetView(Document, frozen=True):
    """A budget of victims over a window of time."""

    #: cluster, namespace, owner, node or preemptor.
    scope: str
    limit: int
    window_seconds: float
    #: The largest amount spent for any key.
    spent: int = 0
    #: The ten keys with the most; hidden ones are left out.
    top: tuple[BudgetUse, ...] = ()
    #: What it allows, in words.
    text: str = ""


class PolicyView(Document, frozen=True):
    """A preemption policy, as it is in force."""

    name: str
    generation: int = 0
    accepted: bool = True
    #: Why it was refused; an older generation may be in force then.
    message: str = ""
    generation_in_force: int = 0
    #: Enforce, or Audit: then it refuses nothing.
    mode: str = "Enforce"
    #: Whether it stops all preemption, and why.
    stops: bool = False
    stop_reason: str = ""
    #: Whom it limits and whom it protects, then a line for each rule but the budgets, in words.
    rules: tuple[str, ...] = ()
    budgets: tuple[BudgetView, ...] = ()
    #: How often each rule has refused a preemption since the process started.
    refusals: Mapping[str, int] = {}
    #: How often it would have, had the mode not been Audit.
    would_refuse: Mapping[str, int] = {}
    #: When it last refused a preemption, or would have, its mode then, and the preemptor.
    last_refusal: str = ""
    last_refusal_mode: str = ""
    last_refused: PodView | None = None
    #: When the newest generation was accepted, and what it has changed, one field in each line;
    #: empty if no other one is kept, or if the newest is refused.
    changed_at: str = ""
    changes: tuple[str, ...] = ()
    #: The generation that `kubectl preemptive policies undo` returns to; 0 if none is kept.
    previous_generation: int = 0


class BoundView(Document, frozen=True):
    """A limit of wasted evictions within an hour, which no policy can lift."""

    #: preemptor, owner, namespace, node or cluster.
    scope: str
    limit: int
    window_seconds: float
    spent: int = 0
    top: tuple[BudgetUse, ...] = ()
    #: How many keys are at their limit, so that preemption is stopped for them.
    stopped: int = 0


class PoliciesDocument(Document, frozen=True):
    """`GET /api/v1/policies`. Supports `watch=1`."""

    revision: int
    items: tuple[PolicyView, ...] = ()
    bounds: tuple[BoundView, ...] = ()
