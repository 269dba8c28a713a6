"""A plan with two preemptors on two nodes goes on only as long as both placements hold."""

import pytest

from scheduler.core.eviction.state import USE_WITHIN
from scheduler.core.eviction.transitions import TERMINATION_MARGIN
from scheduler.core.preemption.policy.charge import Charge
from scheduler.model.effects import Evict, Nominate, SaveLedger
from scheduler.queue.phases import QueuePhase
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.evictions import FREE, begin
from tests.support.stories import play

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
    begin(cluster, "h1@n1=a", "h2@n2=b", charge=charge)
    return cluster


def phases(cluster: Cluster, *names: str) -> None:
    assert [plan.phase.value for plan in cluster.machine.preemptions.state] == list(names)


def tried_again(cluster: Cluster, *names: str) -> None:
    waiting = (QueuePhase.ACTIVE, QueuePhase.BACKOFF)
    assert [name for name in names if cluster.phase(name) not in waiting] == []


def no_plan(cluster: Cluster) -> None:
    assert cluster.machine.preemptions.state.plans == {}


def evicted_for(cluster: Cluster, *words: str) -> None:
    """Check the victims of all plans, by preemptor; all plans are open."""
    state = cluster.machine.preemptions.state
    assert {*state.plans} == {plan.number for plan in state}
    assert sorted(
        f"{each.preemptor.metadata.name}={uid.partition('/')[2]}"
        for plan in state
        for each, uids in plan.by_placement(plan.progress.evicted.keys())
        for uid in uids
    ) == sorted(words)


def counted(cluster: Cluster, *names: str) -> None:
    cluster.machine.preemptions.check()
    find = cluster.machine.ledger.find_victim
    assert [name for name in "ab" if find(cluster.ref(name).uid) is not None] == list(names)


GIVEN_UP = "cleared h1 h2; nominated; tried-again h1 h2"
LATER = f"wait {USE_WITHIN + 1}"
HANGS = f"wait {TERMINATION_MARGIN + 1}"
#: (id, what is held, the charge of the plan, the story)
STORIES = [
    (
        "both are bound when both victims are gone", (), FREE,
        f"""evicted a b; phases awaiting; delete a; wait 3; drain h1=n1; phases awaiting
        delete b; wait 3; drain h2=n2; phases; no-plan; {LATER}; wasted""",
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
            f"without one preemptor the other is tried again: {waste}, {answers}", holding, FREE,
            f"""delete h1; {answers}; nominated; cleared h2; tried-again h2
            {LATER}; wasted {waste}; delete h2 b; {LATER}; no-plan""",
        )
        for holding, answers, waste in (
            ((Nominate,), "phases stopping; done; done; phases", ""),
            ((Evict,), "phases stopping; done; done; phases withdrawn", "preemptor_gone=1"),
            ((), "phases withdrawn", "preemptor_gone=1"),
        )
    ),
    (
        "each victim stays counted until its own eviction is answered", (Evict,), COUNTED,
        "delete h1; counted a b; fail a; counted b; done b; counted b",
    ),
    (
        "without one node both are tried again", (), FREE,
        f"delete-node n1; phases withdrawn; {GIVEN_UP}; wasted node_gone=1",
    ),
    (
        "a node that goes while victims are evicted stops the plan", (Evict,), FREE,
        f"""delete-node n2; phases stopping; done; done; {GIVEN_UP}
        phases withdrawn; wasted node_gone=1""",
    ),
    (
        "a node that goes after both gave up is that of one", (Evict,), FREE,
        "done a; fail b; delete-node n2; phases withdrawn; wasted",
    ),
    (
        "both nodes are given up where one victim hangs", (), FREE,
        f"delete a; {HANGS}; {GIVEN_UP}; phases withdrawn; wasted victim_hangs=1",
    ),
    *(
        (
            f"a preemptor that is {phase} does not depend on the other: {waste}", (), FREE,
            f"""{hold}; delete a; wait 3; drain h1=n1; is {phase} h1
            {event}; cleared {others}; is {phase} h1
            {done}; placed h1=n1; {LATER}; wasted {waste}""",
        )
        for phase, hold, done in (("gone", "", ""), ("binding", "hold Bind", "done"))
        for event, others, waste in (
            (HANGS, "h2", "victim_hangs=1"),
            ("delete-node n2", "h2", "node_gone=1"),
            ("delete h2; finish", "", "preemptor_gone=1"),
        )
    ),
    (
        "what one has evicted is not wasted where others take the room of the other", (), FREE,
        f"""delete a; pod foreign@n1 cpu=4 priority=99 scheduler=other; wait 3; drain
        cleared h2; wasted room_lost=1
        delete b; wait 11; drain; placed h1=n2; {LATER}; wasted room_lost=1""",
    ),
    (
        "the other loses its nomination where one is bound elsewhere", (), FREE,
        "node n3 cpu=4; change h1 on=n3; phases withdrawn; cleared h2; tried-again h2",
    ),
    (
        "a new plan for one takes over what was evicted for it", (), FREE,
        # Another client clears the nomination of h1 while its victim terminates.
        """change h1 nominated=; wait 11; drain
        evicted-for h1=a h2=b; cleared h2; nominated h1=n1 h2=n2""",
    ),
    (
        "a new plan for both takes over what was evicted for each", (Evict,), FREE,
        # The victim `b` may have been evicted as well.
        """done a; fail b UNAVAILABLE; hold; wait 11; begin h1@n1=a h2@n2=b
        phases awaiting; evicted-for h1=a h2=b; nominated h1=n1 h2=n2""",
    ),
]  # fmt: skip
MORE = {
    "begin": begin,
    "evicted-for": evicted_for,
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


def test_a_plan_waits_for_a_nomination_to_its_own_node_only():
    play(
        """node n1 cpu=4; node n2 cpu=4; pod a@n1 cpu=2; pod x@n1 cpu=2; pod b@n2 cpu=4
        hold Nominate; pod h1 cpu=2 priority=9; pod h2 cpu=4 priority=9; begin h1@n1=a h2@n2=b
        schedule p cpu=2 priority=9; done p; evicted; done h1; evicted a x""",
        **MORE,
    )


def test_two_preemptors_do_not_spare_each_others_victims():
    play(
        """node n1 cpu=6; pod a@n1 cpu=2; pod b@n1 cpu=2; pod c@n1 cpu=2
        hold Nominate; pod h1 cpu=1 priority=9; pod h2 cpu=1 priority=9; begin h1@n1=a h2@n1=b
        delete c; pod d@n1 cpu=2 priority=9 scheduler=other; done; done; evicted a""",
        **MORE,
    )


def test_no_victim_is_evicted_for_two_preemptors():
    with pytest.raises(ValueError, match="one victim for two preemptors"):
        play(
            """node n1 cpu=4; pod a@n1 cpu=4; pod h1 cpu=2 priority=9; pod h2 cpu=2 priority=9
            begin h1@n1=a h2@n1=a""",
            **MORE,
        )


def test_two_plans_of_one_moment_have_different_records():
    cluster = play("delete h1; done; done; begin h2@n2=b", joint(Nominate), **MORE)

    asked = [each for each in cluster.asked(Nominate) if isinstance(each, Nominate)]
    assert len({each.plan for each in asked if each.pod.name == "h2"}) == 2


def test_a_victim_of_a_former_plan_of_one_preemptor_is_evicted_for_the_other():
    cluster = Cluster(
        node("n1").cpu("6"), *(pod(name).on("n1").cpu("2") for name in "abc"),
        pod("h2").cpu("4").priority(9),
    )  # fmt: skip
    cluster.hold(Evict)
    begin(cluster, "h2@n1=a,b", charge=FREE)
    cluster.done()
    cluster.fail()
    phases(cluster, "withdrawn")
    cluster.add(pod("h1").cpu("2").priority(10))
    cluster.wait(100)

    begin(cluster, "h1@n1=b", "h2@n1=c", charge=COUNTED)

    cluster.delete("h2")
    for effect in [*cluster.held]:
        cluster.done(effect)
    cluster.wait(200)
    cluster.machine.check()
    tried_again(cluster, "h1")
