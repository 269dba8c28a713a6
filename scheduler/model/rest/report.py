"""The document about what preemption cost in a span of time."""

from collections.abc import Mapping

from scheduler.model.rest.common import Document, Impact, OwnerView

__all__ = ["NamespaceReport", "PolicyReport", "PreemptorReport", "ReportDocument"]


class NamespaceReport(Document, frozen=True):
    """What a namespace lost, and what was lost for it."""

    #: Empty for all namespaces that the caller may not see, of which there are only counts.
    namespace: str = ""
    #: Its pods that were evicted, and how many of these evictions were wasted.
    victims: int = 0
    wasted_victims: int = 0
    #: Amount times the seconds that they had run: `pods`, `cpu`, `memory`.
    cost: Mapping[str, float] = {}
    wasted_cost: Mapping[str, float] = {}
    #: Its pods for which others were evicted, how many were evicted, and what that cost.
    preemptors: int = 0
    evicted: int = 0
    caused_cost: Mapping[str, float] = {}


class PreemptorReport(Document, frozen=True):
    """What was evicted for the pods of one owner."""

    namespace: str
    #: The owner; of a pod without one, the pod.
    owner: OwnerView
    #: How many of its pods preempted.
    preemptors: int = 0
    victims: int = 0
    wasted_victims: int = 0
    cost: Mapping[str, float] = {}


class PolicyReport(Document, frozen=True):
    """What a preemption policy prevented."""

    policy: str
    #: The mode: `Enforce`; or `Audit`, if it only would have.
    mode: str
    #: Attempts in which it refused evictions, on some nodes or on all. A pod that is tried again
    #: counts each time.
    attempts: int = 0


class ReportDocument(Document, frozen=True):
    """`GET /api/v1/report?since=&until=`: what preemption cost, by who lost and who gained.

    Evictions count by when they took place. Wasted are those that did not help their preemptor.
    """

    #: The answer in one sentence.
    verdict: str
    impact: Impact
    now: str
    #: The span: `since` belongs to it, `until` does not.
    since: str
    until: str
    #: When the history begins. What was before is not known.
    known_since: str
    #: What a reader must know of the figures, one sentence each.
    notes: tuple[str, ...] = ()
    #: Pods for which others were evicted, and pods that were evicted for them.
    preemptors: int = 0
    victims: int = 0
    wasted_victims: int = 0
    #: Evictions that violated a disruption budget.
    pdb_violations: int = 0
    #: Amount times the seconds that the victims had run: `pods`, `cpu`, `memory`. Only of victims
    #: that the caller may see.
    cost: Mapping[str, float] = {}
    wasted_cost: Mapping[str, float] = {}
    #: Those that lost most come first.
    namespaces: tuple[NamespaceReport, ...] = ()
    #: The 20 owners for whose pods most work was lost.
    top_preemptors: tuple[PreemptorReport, ...] = ()
    #: By policy and mode, since `known_refusals_since` only.
    policies: tuple[PolicyReport, ...] = ()
    known_refusals_since: str = ""
    #: Preemptions, at any time, of which the caller may see neither preemptor nor victim; they do
    #: not count in anything else.
    hidden: int = 0
