"""One simulation for `what if`, and what came of each pod."""

from dataclasses import dataclass, field, replace

from scheduler.config.settings import Settings
from scheduler.model.decisions import Attempt, Detail, Preempting
from scheduler.model.rest.plans import PlanRequest
from scheduler.model.times import Seconds
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim.manifests import Manifests
from scheduler.sim.planner import Displacement, Planner, PlanOptions

__all__ = ["Simulation", "State"]


@dataclass(frozen=True, slots=True)
class State:
    """A cluster as a scheduler knows it, and how that scheduler decides."""

    manifests: Manifests
    settings: Settings
    now: Seconds
    #: What preemption remembers, as the ledger is saved; empty for nothing.
    ledger: str = ""
    evict_only: bool = False
    #: Whether the live scheduler asks extenders, which this does not.
    has_extenders: bool = False


@dataclass(slots=True)
class Simulation:
    """A simulation that has ended."""

    planner: Planner
    #: The first and the last attempt of each pod, by uid.
    first: dict[str, Attempt] = field(default_factory=dict)
    last: dict[str, Attempt] = field(default_factory=dict)
    #: The pods that have disappeared, or are about to where it was not settled, by uid.
    displaced: dict[str, Displacement] = field(default_factory=dict)
    #: Uids of the pods that controllers have made.
    made: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        state: State,
        manifests: Manifests,
        request: PlanRequest,
        *,
        drains: bool = True,
        detail: Detail = Detail.NONE,
    ) -> "Simulation":
        """Simulate a cluster."""
        settings = replace(state.settings, extenders=())
        backoff = PodBackoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds)
        options = PlanOptions(
            request.scheduler_name,
            now=state.now,
            detail=detail,
            evict_only=state.evict_only,
            adopts=False,
            recreates=True,
            ledger=state.ledger,
        )
        planner = Planner(manifests, registry.profiles(settings), backoff, options)
        run = cls(planner)
        for node in request.drain if drains else ():
            planner.drain(node)
        for attempt in planner.attempts():
            run._take(attempt)
        if request.settle:
            for attempt in planner.settle():
                run._take(attempt)
        run._note_displaced()
        return run

    def _take(self, attempt: Attempt) -> None:
        uid = attempt.pod.uid
        self.first.setdefault(uid, attempt)
        self.last[uid] = attempt

    def _note_displaced(self) -> None:
        self.displaced = {each.pod.uid: each for each in self.planner.displaced}
        for attempt in self.first.values():
            if isinstance(attempt.decision, Preempting):
                for victim in attempt.decision.victims:
                    pod = self.planner.pod(victim.uid)
                    if pod is not None and not self.planner.was_leaving(victim.uid):
                        self.displaced.setdefault(victim.uid, Displacement(pod, None))
        made = (each.replacement for each in self.displaced.values())
        self.made = frozenset(pod.uid for pod in made if pod is not None)

    def node_of(self, uid: str) -> str:
        """Return the node of a pod in the end; empty if it has none, or has disappeared."""
        pod = self.planner.pod(uid)
        return "" if pod is None else pod.spec.node_name
