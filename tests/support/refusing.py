"""A cluster for tests whose API server refuses effects, and has a clock of its own."""

from collections.abc import Callable

from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.effects import Effect
from scheduler.model.events import EffectFailed, Failure, FailureKind
from scheduler.model.policies import DisruptionBudgets, PodSelection, PreemptionPolicy
from tests.support.builders import PodBuilder
from tests.support.cluster import Cluster

GRACE = 30
#: Victims with priority 0 or less are never evicted against a disruption budget.
STRICT = PreemptionPolicy(
    "strict",
    generation=1,
    disruption_budgets=DisruptionBudgets.STRICT,
    victims=PodSelection(max_priority=0),
)


class Refusing(Cluster):
    """A cluster whose API server refuses effects, and has a clock of its own."""

    refuses: Callable[[Effect], FailureKind | None] = staticmethod(lambda _: None)
    #: How far the clock of the scheduler is ahead, in seconds.
    ahead = 0.0

    def _execute(self, effect):
        kind = self.refuses(effect)
        if kind is None or isinstance(effect, self._holding):
            super()._execute(effect)
        else:
            self.observe(EffectFailed(effect, Failure(kind, "refused by the API server")))

    def _evicted(self, pod: Pod) -> Pod:
        stamp = times.stamp(self.now - self.ahead + GRACE)
        marked = PodBuilder(super()._evicted(pod))
        return marked.meta(deletion_timestamp=stamp, deletion_grace_period_seconds=GRACE).build()
