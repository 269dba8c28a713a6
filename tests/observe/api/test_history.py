"""What is remembered is bounded, and follows the plans of preemptions."""

from scheduler.model.effects import Evict, Nominate
from scheduler.model.rest.common import PodView
from scheduler.observe.api import history
from scheduler.observe.api.past_preemption import PastVictim
from tests.support.api_documents import Documents
from tests.support.builders import node, pod
from tests.support.evictions import begin
from tests.support.stories import play


def crowded(nodes: int) -> Documents:
    return Documents(
        *(node(f"n{i}").cpu("4") for i in range(nodes)),
        *(pod(f"low{i}").on(f"n{i}").cpu("4").priority(1) for i in range(nodes)),
    )


async def test_the_oldest_preemptions_that_ended_are_dropped(monkeypatch):
    monkeypatch.setattr(history, "MAX_PREEMPTIONS", 2)
    docs = crowded(4)
    for i in range(4):
        docs.cluster.schedule(pod(f"high{i}").cpu("4").priority(9))
        docs.cluster.finish_terminating()
        docs.cluster.wait(2)
        docs.cluster.drain()

    found = await docs.get("preemptions")

    assert [each["preemptor"]["name"] for each in found["items"]] == ["high3", "high2"]


async def test_preemptions_are_listed_for_a_day():
    docs = crowded(1)
    docs.cluster.schedule(pod("high").cpu("4").priority(9))
    docs.cluster.finish_terminating()
    docs.cluster.wait(2)
    docs.cluster.drain()
    assert len((await docs.get("preemptions"))["items"]) == 1

    docs.cluster.wait(history.MAX_LISTED_AGE + 1)

    assert (await docs.get("preemptions"))["items"] == []


async def test_without_readers_everything_is_brought_up_to_date_by_and_by():
    docs = crowded(1)
    docs.cluster.schedule(pod("high").cpu("4").priority(9))
    docs.cluster.finish_terminating()
    docs.cluster.wait(2)
    docs.cluster.drain()

    for _ in range(3):
        docs.history.tick(docs.cluster.now)

    (past,) = docs.history.newest(docs.cluster.now)
    assert (past.outcome, past.plan) == ("bound", None)
    docs.history.tick(docs.cluster.now + 1000)
    assert past.settled


async def test_each_phase_is_shown():
    docs = crowded(1)
    docs.cluster.hold(Nominate, Evict)
    docs.cluster.schedule(pod("high").cpu("4").priority(9))
    seen = []
    for _ in range(2):
        (only,) = (await docs.get("preemptions"))["items"]
        seen.append((only["phase"], only["victims"][0].get("state", "planned")))
        docs.cluster.done()
    (only,) = (await docs.get("preemptions"))["items"]
    seen.append((only["phase"], only["victims"][0]["state"]))

    assert seen == [
        ("nominating", "planned"),
        ("evicting", "evicting"),
        ("awaiting", "terminating"),
    ]


async def test_a_refused_nomination_is_a_failure_with_a_reason():
    docs = crowded(1)
    docs.cluster.hold(Nominate)
    docs.cluster.schedule(pod("high").cpu("4").priority(9))
    docs.cluster.fail()

    (only,) = (await docs.get("preemptions", state="past"))["items"]

    assert only["outcome"] == "failed"
    assert only["problem"].startswith("nominating node n0")
    assert only["victims"][0]["state"] == "spared"
    assert "cost" not in only


async def test_the_preemption_of_an_earlier_leader_is_shown():
    docs = crowded(1)
    docs.cluster.hold(Evict)
    docs.cluster.schedule(pod("high").cpu("4").priority(9))
    docs.cluster.restart()
    remembered = history.History(docs.cluster.machine, docs.cluster.now)
    docs.cluster.history = remembered
    docs.cluster.drain()

    remembered.tick(docs.cluster.now)

    (past,) = remembered.newest(docs.cluster.now)
    assert past.preemptor.name == "high"
    assert past.comparison is None


def test_the_parts_of_a_divided_plan_are_followed():
    docs = crowded(2)
    cluster = docs.cluster
    # The attempt decides for one pod; its plan is for both.
    attempt = play("node n0 cpu=4; pod low0@n0 cpu=4; hold Nominate; schedule h1 cpu=4 priority=9")
    cluster.add(*(pod(name).cpu("4").priority(9) for name in ("h1", "h2")))
    begin(cluster, "h1@n0=low0", "h2@n1=low1")
    remembered = history.History(cluster.machine, cluster.now)
    remembered.attempted(attempt.attempts[-1], cluster.now)

    cluster.delete("h1")

    found = remembered.newest(cluster.now)
    assert {past.node: past.phase.value for past in found} == {"n0": "vacated", "n1": "withdrawn"}


def victim(name: str, controller: str, decided_at: float) -> PastVictim:
    made = PastVictim(PodView(namespace="default", name=name, uid=name), violates_pdb=False)
    made.controller, made.decided_at = controller, decided_at
    return made


def test_an_owner_that_has_victims_again_and_again_keeps_no_others_waiting():
    remembered = crowded(1).history
    remembered._await_replacement(victim("b0", "busy", 0.0))
    remembered._await_replacement(victim("q0", "quiet", 0.0))

    for at in range(600, 6000, 600):
        remembered._await_replacement(victim(f"b{at}", "busy", float(at)))
        remembered._drop_old(float(at))

    # Fifteen minutes are enough for a controller to make another pod.
    assert {name: len(found) for (_, name), found in remembered.awaited.items()} == {"busy": 2}


def test_the_victims_that_wait_are_bounded_for_each_owner():
    remembered = crowded(1).history
    for number in range(3000):
        remembered._await_replacement(victim(f"v{number}", "busy", 0.0))

    assert len(remembered.awaited["default", "busy"]) == 1000
