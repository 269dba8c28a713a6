"""Which effect is sent next."""

import heapq
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube.write.effect_queue import EffectQueue, Lane, QueuedEffect
from scheduler.model.effects import (
    Ask,
    Bind,
    BindClaims,
    BindVolumes,
    ClaimRef,
    ClearNomination,
    DeallocateClaim,
    DeleteClaim,
    Effect,
    Evict,
    Nominate,
    PodRef,
    RecordEvent,
    ReleaseClaims,
    SetCondition,
)


def ref(uid: str) -> PodRef:
    return PodRef("default", uid, uid)


def bind(uid: str, node: str = "n1") -> Bind:
    return Bind(ref(uid), node, "s")


def bind_claims(uid: str) -> BindClaims:
    return BindClaims(ref(uid), "n1", ())


def release(uid: str) -> ReleaseClaims:
    return ReleaseClaims(ref(uid), ())


def condition(uid: str, message: str = "", *, clear: bool = False) -> SetCondition:
    return SetCondition(ref(uid), "Unschedulable", message, 1, clear_nomination=clear)


def nominate(uid: str) -> Nominate:
    return Nominate(ref(uid), "n1", "", 1)


def evict(uid: str) -> Evict:
    return Evict(ref(uid), "n1", ref("preemptor"), "s", 1)


def announce(uid: str) -> RecordEvent:
    return RecordEvent(ref(uid), "Normal", "Scheduled", "Binding", "", "s")


def about(effect: Effect) -> str:
    """Return the pod whose order an effect keeps; none for an Event."""
    match effect:
        case RecordEvent():
            return ""
        case Evict():
            return effect.victim.uid
        case _:
            return effect.pod.uid


def taken(queue: EffectQueue) -> list[Effect]:
    """Take out everything there is a place for."""
    effects = []
    while entry := queue.take():
        effects.append(entry.effect)
    return effects


def take(queue: EffectQueue) -> QueuedEffect:
    entry = queue.take()
    assert entry is not None
    return entry


def test_the_more_important_lane_is_sent_first():
    queue = EffectQueue(64, lambda: 0.0)
    for effect in (announce("a"), condition("b"), evict("c"), nominate("d"), bind("e")):
        queue.add(effect)

    assert taken(queue) == [bind("e"), evict("c"), nominate("d"), condition("b"), announce("a")]


def test_an_important_lane_finds_places_though_others_are_full():
    queue = EffectQueue(64, lambda: 0.0)
    for number in range(100):
        queue.add(condition(f"c{number}"))
        queue.add(announce(f"a{number}"))
    taken(queue)

    for number in range(100):
        queue.add(bind(f"b{number}"))
    assert len(taken(queue)) == 32


CLAIM = ClaimRef("default", "c", "u")


@pytest.mark.parametrize(
    "last",
    [bind("z"), release("z"), DeallocateClaim(ref("z"), CLAIM), DeleteClaim(ref("z"), CLAIM)],
)
def test_what_binds_a_pod_or_frees_something_overtakes_what_must_be_written_before(last):
    queue = EffectQueue(64, lambda: 0.0)
    first = [bind_claims("a"), BindVolumes(ref("b"), "n1", (), ())]
    for effect in (*first, last):
        queue.add(effect)

    assert queue.length(Lane.BIND) == 3
    assert taken(queue) == [last, *first]


def test_bindings_leave_every_fourth_turn_to_what_must_be_written_before_others():
    queue = EffectQueue(64, lambda: 0.0)
    for number in range(3):
        queue.add(bind_claims(f"c{number}"))
    for number in range(9):
        queue.add(bind(f"b{number}"))

    kinds = "".join("b" if isinstance(each, Bind) else "c" for each in taken(queue))
    assert kinds == "bbbcbbbcbbbc"


def burst(pods: int, decided_per_second: float, answered_per_second: float) -> list[float]:
    """Return when the pods of a burst are bound: three requests for the claims, one binds."""
    places = 64
    queue = EffectQueue(places, lambda: 0.0)
    due: list[tuple[float, int, QueuedEffect | None]] = [
        (number / decided_per_second, number, None) for number in range(pods)
    ]
    bound = []
    while due:
        now, number, entry = heapq.heappop(due)
        if entry is None:
            queue.add(bind_claims(f"p{number}"))
        else:
            queue.done(entry)
            if isinstance(entry.effect, BindClaims):
                queue.add(bind(entry.effect.pod.uid))
            else:
                bound.append(now)
        while entry := queue.take():
            requests = 3 if isinstance(entry.effect, BindClaims) else 1
            number += pods
            heapq.heappush(due, (now + requests * places / answered_per_second, number, entry))
    return bound


def test_extenders_have_places_of_their_own():
    queue = EffectQueue(64, lambda: 0.0)
    for number in range(100):
        queue.add(Ask(ref(f"a{number}"), number, "1", ()))
        queue.add(Bind(ref(f"b{number}"), "n1", "s", 0))

    assert len(taken(queue)) == 64
    for number in range(100):
        queue.add(bind(f"c{number}"))
    assert len(taken(queue)) == 48
    assert queue.length(Lane.EXTEND) == 136


def test_effects_of_one_pod_are_sent_in_the_order_in_which_they_were_added():
    queue = EffectQueue(64, lambda: 0.0)
    effects = [condition("a"), nominate("a"), evict("a")]
    for effect in effects:
        queue.add(effect)

    for effect in effects:
        entry = take(queue)
        assert entry.effect == effect
        assert queue.take() is None
        queue.done(entry)
    assert queue.sent == 0


@pytest.mark.parametrize(
    ("old_clears", "new_clears"), [(True, False), (False, True), (False, False)]
)
def test_a_newer_condition_replaces_an_unsent_one(old_clears, new_clears):
    queue = EffectQueue(64, lambda: 0.0)
    old = condition("a", "old", clear=old_clears)
    new = condition("a", "new", clear=new_clears)
    queue.add(old)

    assert queue.add(new) == [old]
    entry = take(queue)
    assert entry.effect == new
    assert entry.clear_nomination == (old_clears or new_clears)


def test_a_condition_that_is_being_written_is_not_replaced():
    queue = EffectQueue(64, lambda: 0.0)
    queue.add(condition("a", "old"))
    take(queue)

    assert queue.add(condition("a", "new")) == []
    assert queue.length(Lane.CONDITION) == 1


def test_a_condition_is_not_moved_across_a_nomination():
    queue = EffectQueue(64, lambda: 0.0)
    queue.add(condition("a", "old"))
    queue.add(nominate("a"))

    assert queue.add(condition("a", "new")) == []


def test_a_binding_makes_unsent_conditions_and_nominations_pointless():
    queue = EffectQueue(64, lambda: 0.0)
    for effect in (condition("a"), nominate("a"), ClearNomination(ref("a"))):
        queue.add(effect)

    moot = queue.add(bind("a"))

    assert moot == [condition("a"), nominate("a"), ClearNomination(ref("a"))]
    assert taken(queue) == [bind("a")]
    assert queue.length(Lane.CONDITION) == queue.length(Lane.PREEMPT) == 0


def test_a_binding_waits_for_the_condition_being_written_and_ends_its_retries():
    queue = EffectQueue(64, lambda: 0.0)
    queue.add(condition("a"))
    entry = take(queue)

    assert queue.add(bind("a")) == []
    assert entry.obsolete
    assert queue.take() is None
    queue.done(entry)
    assert taken(queue) == [bind("a")]


def test_all_unsent_effects_can_be_removed():
    queue = EffectQueue(64, lambda: 0.0)
    queue.add(condition("a"))
    sent = take(queue)
    for effect in (nominate("a"), announce("a"), bind("b")):
        queue.add(effect)

    assert Counter(queue.clear()) == Counter([nominate("a"), announce("a"), bind("b")])
    assert queue.take() is None
    queue.done(sent)
    assert queue.sent == 0


EFFECTS = st.builds(
    lambda make, uid: make(uid),
    st.sampled_from([bind, bind_claims, release, condition, nominate, evict, announce]),
    st.sampled_from(["a", "b", "c"]),
)


@given(st.lists(st.one_of(EFFECTS, st.just("take"), st.just("done"))), st.integers(4, 9))
def test_every_effect_is_taken_once_and_in_the_order_of_its_pod(steps, places):
    queue = EffectQueue(places, lambda: 0.0)
    came: list[Effect] = []
    went: list[Effect] = []
    moot: list[Effect] = []
    sent: list[QueuedEffect] = []

    def end(entry: QueuedEffect) -> None:
        went.append(entry.effect)
        queue.done(entry)

    for step in steps:
        if step == "take":
            sent += filter(None, [queue.take()])
        elif step == "done":
            if sent:
                end(sent.pop(0))
        else:
            came.append(step)
            moot += queue.add(step)
        on_their_way = [entry.effect for entry in sent if not isinstance(entry.effect, RecordEvent)]
        pods = [each.victim if isinstance(each, Evict) else each.pod for each in on_their_way]
        assert len(pods) == len(set(pods))
        assert queue.sent == len(sent) <= places
    while sent or any(queue.length(lane) for lane in Lane):
        sent += filter(None, [queue.take()])
        end(sent.pop(0))

    assert Counter(went) + Counter(moot) == Counter(came)
    for uid in ("a", "b", "c"):
        wanted = iter([each for each in came if about(each) == uid])
        assert all(each in wanted for each in went if about(each) == uid)


def test_too_few_places_are_refused():
    with pytest.raises(ValueError, match="at least 4"):
        EffectQueue(3, lambda: 0.0)
