"""Plans for one node that wait for pods which another plan evicts."""

from scheduler.core.eviction.transitions import TERMINATION_MARGIN
from scheduler.model.effects import Evict, Nominate
from scheduler.model.events import FailureKind
from tests.support.builders import PodBuilder, node, pod
from tests.support.refusing import STRICT, Refusing

#: The node is full. Only the eviction of `other` gives `higher` its port, and that of all pods of
#: low priority gives `lower` its capacity; when `other` is deleted, one of them may stay.
HIGHER = pod("higher").cpu("1").port(80).priority(9)
LOWER = pod("lower").cpu("5").priority(2)


def low(name: str, cpu: str, priority: int = 0) -> PodBuilder:
    return pod(name).on("n1").cpu(cpu).priority(priority)


def both_planned() -> Refusing:
    """Return a cluster in which both preemptors have a plan, and no nomination is answered."""
    cluster = Refusing(
        node("n1").cpu("7"),
        low("guarded", "2"), low("second", "2", 1), low("spare", "1", 1),
        low("other", "2", 5).port(80),
        STRICT,
    )  # fmt: skip
    cluster.hold(Nominate, Evict)
    cluster.schedule(LOWER)
    cluster.schedule(HIGHER)
    return cluster


def of(cluster: Refusing, kind: type, name: str):
    """Return the delayed effect about a pod."""
    return next(
        each for each in cluster.held
        if isinstance(each, kind)
        and (each.victim if isinstance(each, Evict) else each.pod).name == name
    )  # fmt: skip


def test_a_pod_of_higher_priority_that_only_another_plan_evicts_is_waited_for():
    cluster = both_planned()
    cluster.done(of(cluster, Nominate, "lower"))
    assert cluster.evicted() == ["guarded"]

    cluster.done(of(cluster, Evict, "guarded"))

    assert cluster.evicted() == ["guarded", "second"]


def test_a_plan_is_cancelled_when_the_plan_that_it_waits_for_has_failed():
    cluster = both_planned()
    cluster.done(of(cluster, Nominate, "lower"))
    for name in ("guarded", "second"):
        cluster.done(of(cluster, Evict, name))
    cluster.fail(of(cluster, Nominate, "higher"), FailureKind.FORBIDDEN)
    cluster.delete("higher")

    cluster.wait(TERMINATION_MARGIN + 1)
    cluster.drain()
    cluster.done(of(cluster, Nominate, "lower"))

    assert [each.victim.name for each in cluster.held] == ["spare"]
