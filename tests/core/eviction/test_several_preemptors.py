"""A plan with two preemptors on two nodes goes on only as long as both placements hold."""

import pytest

from scheduler.core.eviction.plan import Placement, PreemptionPlan
from scheduler.core.eviction.state import USE_WITHIN
from scheduler.core.eviction.transitions import TERMINATION_MARGIN
from scheduler.core.preemption.policy.charge import Charge
from scheduler.model.effects import Evict, Nominate, SaveLedger
from scheduler.queue.phases import QueuePhase
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.stories import play

FREE = Charge()
COUNTED = Charge(victims={f"uid:default/{name}": frozenset({"gold"}) for name in "ab"})


def joint(*holding: type, charge: Charge = FREE) -> Cluster:
    """Return a cluster in which a plan for `h1` on n1 and `h2` on n2 has begun."""
    cluster = Cluster(
        *(node(name).cpu("4") for name in ("n1", "n2")),
        pod("a").on("n1").cpu("4"),
        pod("b").on("n2").cpu("4"),
        *(pod(name).cpu("4").priority(9) for name in ("h1", "h2")),
    )
    cluster.hold(*holding)
    machine, now = cluster.machine, cluster.now
    placements = []
    for where, name in (("n1", "a"), ("n2", "b")):
        queued = machine.queue.pop(now)
        assert queued is not None
        machine.queue.begin_preemption(queued, frozenset({"NodeResourcesFit"}), now)
        victim = machine.cluster.find_pod(cluster.ref(name).uid)
        assert victim is not None
        placements.append(Placement.of(queued.pod, where, (victim,), machine.cluster))
    number = machine.preemptions.state.next_number()
    plan = PreemptionPlan.decided(number, tuple(placements), charge, now)
    machine.preemptions.carry_out(plan, "no node fits", now)
    cluster.wait(0)
    return cluster


def phases(cluster: Cluster, *names: str) -> None:
    assert [plan.phase.value for plan in cluster.machine.preemptions.state] == list(names)


def tried_again(cluster: Cluster, *names: str) -> None:
    waiting = (QueuePhase.ACTIVE, QueuePhase.BACKOFF)
    assert [name for name in names if cluster.phase(name) not in waiting] == []


def no_plan(cluster: Cluster, number: str) -> None:
    assert int(number) not in cluster.machine.preemptions.state.plans


def counted(cluster: Cluster, *names: str) -> None:
    find = cluster.machine.ledger.find_victim
    assert [name for name in "ab" if find(cluster.ref(name).uid) is not None] == list(names)


GIVEN_UP = "cleared h1 h2; nominated; tried-again h1 h2"
LATER = f"wait {USE_WITHIN + 1}"
#: (id, what is held, the charge of the plan, the story)
STORIES = [
    (
        "both are bound when both victims are gone", (), FREE,
        f"""evicted a b; phases awaiting; delete a; wait 3; drain h1=n1; phases awaiting
        delete b; wait 3; drain h2=n2; phases; no-plan 1; {LATER}; wasted""",
    ),
    (
        "no victim is evicted before both nominations are accepted", (Nominate,), FREE,
        "done; evicted; done; evicted a b",
    ),
    (
        "no victim is evicted where the second nomination is refused", (Nominate,), FREE,
        "done; fail; evicted; cleared h1; nominated; phases; tried-again h1 h2",
    ),
    (
        "no victim is evicted where the first nomination is refused", (Nominate,), FREE,
        "fail; cleared; done; evicted; cleared h2; nominated; phases; tried-again h1 h2",
    ),
    (
        "no victim is evicted where the ledger is not written", (SaveLedger,), COUNTED,
        f"evicted; fail; evicted; {GIVEN_UP}",
    ),
    (
        "the victims of both are counted before the first is evicted", (SaveLedger,), COUNTED,
        "counted a b; evicted; done; evicted a b",
    ),
    *(
        (
            f"both give up where {refused} is not evicted", (Evict,), FREE,
            f"fail {refused}; phases failing; done {other}; {GIVEN_UP}; phases withdrawn",
        )
        for refused, other in ("ab", "ba")
    ),
    (
        "both give up where a victim that was evicted runs on", (Evict,), FREE,
        f"done a; fail b GONE; {GIVEN_UP}",
    ),
    (
        "a stop ends the plan when both evictions are answered", (Evict,), FREE,
        f"stop; done; phases stopping; done; {GIVEN_UP}",
    ),
    *(
        (
            f"without one preemptor the other is tried again: {waste}", holding, FREE,
            f"""delete h1; phases; nominated; cleared h2; tried-again h2
            {answers} {LATER}; wasted {waste}; no-plan 1""",
        )
        for holding, answers, waste in (
            ((Nominate,), "done; done;", ""),
            ((Evict,), "done; done;", "preemptor_gone=2"),
            ((), "", "preemptor_gone=2"),
        )
    ),
    (
        "without one node both are tried again", (), FREE,
        f"delete-node n1; phases; {GIVEN_UP}; wasted node_gone=2",
    ),
    (
        "a node that goes while victims are evicted stops the plan", (Evict,), FREE,
        f"delete-node n2; phases stopping; done; done; {GIVEN_UP}",
    ),
    (
        "both nodes are given up where one victim hangs", (), FREE,
        f"delete a; wait {TERMINATION_MARGIN + 1}; {GIVEN_UP}; wasted victim_hangs=2",
    ),
    (
        "the other loses its nomination where pods of others take the room of one", (), FREE,
        """delete a; pod foreign@n1 cpu=4 priority=99 scheduler=other; wait 3; step
        no-plan 1; cleared h2; wasted room_lost=2""",
    ),
    (
        "the other loses its nomination where one is bound elsewhere", (), FREE,
        "node n3 cpu=4; change h1 on=n3; phases; cleared h2; tried-again h2",
    ),
]  # fmt: skip
MORE = {
    "phases": phases,
    "tried-again": tried_again,
    "no-plan": no_plan,
    "counted": counted,
    "stop": lambda cluster: cluster.machine.preemptions.stop_all(cluster.now),
}


@pytest.mark.parametrize(
    ("holding", "charge", "story"), [each[1:] for each in STORIES], ids=[s[0] for s in STORIES]
)
def test_two_preemptors_of_one_plan(holding, charge, story):
    play(story, joint(*holding, charge=charge), **MORE)
