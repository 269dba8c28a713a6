"""The ledger: entries count once, within windows, and across restarts."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.policies import BudgetScope
from scheduler.state.preemption.ledger import (
    MAX_BYTES,
    MAX_COUNTS,
    MAX_ENTRIES,
    UNCERTAIN_FOR,
    EvictionEntry,
    Ledger,
    LedgerError,
)
from scheduler.state.preemption.ledger import PreemptionEntry as PreemptedOnce
from scheduler.state.preemption.ledger_entries import counted_for, merged

GOLD = frozenset({"gold"})


def victim(uid: str, at: float = 0.0, **changes: object) -> EvictionEntry:
    given = {"namespace": "default", "owner": "ReplicaSet/default/web", "node": "n1"}
    return EvictionEntry(at, uid, **{**given, "policies": GOLD, **changes})


def ledger(*entries: EvictionEntry | PreemptedOnce) -> Ledger:
    made = Ledger()
    for each in entries:
        if isinstance(each, EvictionEntry):
            made.count_victim(each)
        else:
            made.count_preemption(each)
    return made


SCOPES = [
    (BudgetScope.CLUSTER, "", ""),
    (BudgetScope.NAMESPACE, "default", "other"),
    (BudgetScope.OWNER, "ReplicaSet/default/web", "ReplicaSet/default/db"),
    (BudgetScope.NODE, "n1", "n2"),
]


@pytest.mark.parametrize(("scope", "here", "elsewhere"), SCOPES)
def test_victims_count_in_their_scope_and_window(scope, here, elsewhere):
    made = ledger(victim("a", 1.0), victim("b", 3.0), victim("c", 2.0))

    assert made.victims("gold", scope, here, 0.0) == [1.0, 2.0, 3.0]
    assert made.victims("gold", scope, here, 1.0) == [2.0, 3.0]
    assert made.victims("silver", scope, here, 0.0) == []
    if elsewhere:
        assert made.victims("gold", scope, elsewhere, 0.0) == []


def test_a_victim_counts_once():
    made = Ledger()

    assert made.count_victim(victim("a"))
    revision = made.revision
    assert not made.count_victim(victim("a", 5.0))
    assert made.revision == revision
    assert made.victims("gold", BudgetScope.CLUSTER, "", -1.0) == [0.0]


def test_a_victim_that_no_policy_counts_is_not_kept():
    made = Ledger()

    assert not made.count_victim(victim("a", policies=frozenset()))
    assert (len(made), made.revision) == (0, 0)


def test_a_victim_counts_from_the_moment_at_which_its_eviction_is_certain():
    made = ledger(victim("a", 1.0), victim("b", 2.0), victim("c", 1.0))

    made.restamp("a", 9.0)

    assert made.victims("gold", BudgetScope.NODE, "n1", 0.0) == [1.0, 2.0, 9.0]
    made.restamp("unknown", 99.0)
    assert made.victims("gold", BudgetScope.NODE, "n1", 9.0) == []


def test_a_victim_that_was_not_evicted_can_be_uncounted():
    made = ledger(victim("a"), victim("b"))

    made.take_back("a")

    assert made.victims("gold", BudgetScope.NODE, "n1", -1.0) == [0.0]
    assert made.count_victim(victim("a"))


def held(at: float = 0.0, window: float = 10.0) -> Ledger:
    made = Ledger()
    made.set_windows({"gold": 100.0}, window)
    made.hold(victim("a", at), "one")
    return made


def counts(made: Ledger, since: float, policy: str = "gold") -> list[float]:
    return made.victims(policy, BudgetScope.NODE, "n1", since)


@pytest.mark.parametrize("moments", [(9.9, 10.0, 35.0), (35.0,), (9.99, 29.999, 34.0, 35.0)])
def test_a_victim_that_is_held_stays_in_every_window(moments):
    made = held()

    for now in moments:
        made.renew(now)
        made.prune(now)
        assert len(counts(made, now - 10.0)) == 1

    # However often it was renewed, so that a replay decides the same.
    assert counts(made, 0.0) == [30.0]


def test_many_victims_that_are_held_move_a_few_times_in_a_window():
    made, moved = held(), set()
    for number in range(100):
        made.hold(victim(f"u{number}", number / 10), f"p{number}")

    for moment in range(1000, 2000):
        now = moment / 100
        made.renew(now)
        moved.add(made.version)
        assert len(counts(made, now - 10.0)) == 101

    assert len(moved) <= 10


def test_a_victim_that_was_not_evicted_counts_until_the_last_plan_releases_it():
    made = held()
    made.hold(victim("a", 1.0, policies=frozenset({"silver"})), "two")

    assert not made.release("a", "one")
    assert len(counts(made, -1.0)) == len(counts(made, -1.0, "silver")) == 1
    assert made.release("a", "two")
    assert not made.release("a", "two")

    assert counts(made, -1.0) == []
    made.check({})


@pytest.mark.parametrize("known", [Ledger.restamp, Ledger.doubt])
def test_a_victim_that_may_have_been_evicted_counts_when_it_is_released(known):
    made = held()

    known(made, "a", 5.0)
    assert not made.release("a", "one")

    made.renew(90.0)
    assert counts(made, 0.0) == [5.0 if known is Ledger.restamp else 5.0 + UNCERTAIN_FOR]


def test_what_is_held_has_no_age_in_the_text():
    made, again = held(), Ledger()
    made.hold_preemption(PreemptedOnce(0.0, "p", "Job/default/j", GOLD))
    made.count_victim(victim("b", 40.0))

    again.merge(made.text(50.0), 1000.0)

    assert counts(again, 0.0) == [990.0, 1000.0]
    assert again.preemptions("gold", "Job/default/j", 0.0) == [1000.0]
    assert again.take_unsettled() == ["a"]
    assert again.take_unsettled() == []


def test_what_is_held_is_not_merged():
    made = held()
    made.set_windows({})
    for number in range(MAX_ENTRIES + 1):
        made.count_victim(victim(f"u{number}", float(number)))

    assert made.find_victim("a") == victim("a")
    assert len(counts(made, -1.0)) == MAX_ENTRIES + 2
    made.check({"one": {"a"}})


def test_what_many_policies_count_for_plans_merges_nothing_else():
    made, names = held(), frozenset(f"p{number}" for number in range(8))
    made.set_windows({})
    made.count_victim(victim("b", 1.0))

    for number in range(MAX_COUNTS // len(names) + 1):
        made.hold(victim(f"u{number}", policies=names), "two")

    assert made.find_victim("b") == victim("b", 1.0)


def test_a_preemption_that_is_held_counts_from_its_end():
    made = held()
    made.hold_preemption(PreemptedOnce(0.0, "p", "Job/default/j", GOLD))

    made.renew(35.0)
    assert len(made.preemptions("gold", "Job/default/j", 25.0)) == 1
    assert not made.release_preemption("p", 36.0, evicted=True)
    assert made.preemptions("gold", "Job/default/j", 0.0) == [36.0]

    made.hold_preemption(PreemptedOnce(40.0, "p", "Job/default/j", GOLD))
    assert made.release_preemption("p", 41.0, evicted=False)
    assert made.preemptions("gold", "Job/default/j", 0.0) == [36.0]


def test_preemptions_count_for_the_owner_of_the_preemptor():
    made = ledger(PreemptedOnce(1.0, "p", "Job/default/j", GOLD))
    made.count_preemption(PreemptedOnce(1.0, "p", "Job/default/j", GOLD))
    made.count_preemption(PreemptedOnce(2.0, "p", "Job/default/j", GOLD))

    assert made.preemptions("gold", "Job/default/j", 0.0) == [1.0, 2.0]
    assert made.preemptions("gold", "Job/default/k", 0.0) == []
    made.take_back_preemption("p", 1.0)
    assert made.preemptions("gold", "Job/default/j", 0.0) == [2.0]


def test_entries_older_than_all_windows_are_dropped():
    made = ledger(victim("a", 1.0), victim("b", 50.0), PreemptedOnce(1.0, "p", "o", GOLD))
    made.horizon = 60.0

    made.prune(100.0)

    assert made.victims("gold", BudgetScope.CLUSTER, "", 0.0) == [50.0]
    assert made.preemptions("gold", "o", 0.0) == []


def test_before_any_policy_is_known_nothing_is_dropped():
    made = ledger(victim("a", 1.0))

    made.prune(1e9)

    assert made.victims("gold", BudgetScope.CLUSTER, "", 0.0) == [1.0]


# Saving


ENTRIES = st.lists(
    st.one_of(
        st.builds(
            EvictionEntry,
            at=st.floats(0, 1e9),
            uid=st.text(min_size=1, max_size=4),
            namespace=st.sampled_from("ab"),
            owner=st.sampled_from("cd"),
            node=st.sampled_from("ef"),
            policies=st.frozensets(st.sampled_from(["gold", "silver"]), min_size=1),
        ),
        st.builds(
            PreemptedOnce,
            at=st.floats(0, 1e9),
            uid=st.text(min_size=1, max_size=4),
            owner=st.sampled_from("cd"),
            policies=st.frozensets(st.sampled_from(["gold", "silver"]), min_size=1),
        ),
    ),
    max_size=12,
)


def seen(made: Ledger) -> object:
    return [
        *(
            made.victims(policy, scope, key, -1.0)
            for policy in ("gold", "silver")
            for scope in BudgetScope
            for key in "abcdef"
        ),
        *(made.preemptions(policy, key, -1.0) for policy in ("gold", "silver") for key in "cd"),
        sorted((each.key, each.times, each.lost, each.last) for each in made.backoff),
    ]


@given(ENTRIES, ENTRIES)
def test_a_saved_ledger_is_merged_and_counts_once(before, after):
    written = ledger(*before)
    written.record_failure("p", "e", ["c"], 7.0, lost=True)
    text = written.text(0.0)

    again = Ledger()
    again.merge(text)
    assert seen(again) == seen(written)
    again.merge(text)
    assert seen(again) == seen(written)
    assert again.revision == 0

    both = ledger(*before, *after)
    both.record_failure("p", "e", ["c"], 7.0, lost=True)
    later = ledger(*before, *after)
    later.merge(text)
    assert seen(later) == seen(both)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", "truncated"),
        ("[]", "Expected `object`"),
        ('{"version":2}', "version 2 is not known, only 1"),
        ('{"version":true}', "version True is not known"),
        ('{"names":["a"]}', "missing required field"),
        ('{"a":' + "[" * 100_000, "recursion"),
        (" " * 2_000_001, "2000001 characters are too many"),
    ],
)
def test_a_text_that_is_no_ledger_changes_nothing(text, want):
    made = ledger(victim("a"))

    with pytest.raises(LedgerError, match=want.replace("[", r"\[")):
        made.merge(text)

    assert made.victims("gold", BudgetScope.CLUSTER, "", -1.0) == [0.0]


# Bounds


def test_too_many_entries_are_merged_and_count_no_earlier():
    made = Ledger()
    for number in range(MAX_ENTRIES + 1):
        made.count_victim(victim(f"u{number}", float(number)))

    moments = made.victims("gold", BudgetScope.NODE, "n1", -1.0)

    assert len(made) < MAX_ENTRIES
    assert len(moments) == MAX_ENTRIES + 1
    assert all(moment >= number for number, moment in enumerate(moments))


def test_too_many_keys_are_merged_and_each_counts_as_many_as_any_of_them():
    made = Ledger()
    for number in range(MAX_ENTRIES + 1):
        made.count_victim(victim(f"u{number}", float(number), node=f"n{number // 2}"))

    assert len(made) < MAX_ENTRIES
    assert len(made.victims("gold", BudgetScope.NODE, "n0", -1.0)) == 2
    assert len(made.victims("gold", BudgetScope.NODE, "never", -1.0)) == 2
    assert made.victims("gold", BudgetScope.CLUSTER, "", -1.0)[-1] == float(MAX_ENTRIES)
    assert len(made.victims("gold", BudgetScope.CLUSTER, "", -1.0)) == MAX_ENTRIES + 1


MERGED = st.lists(
    st.builds(
        EvictionEntry,
        at=st.integers(0, 20).map(float),
        uid=st.just(""),
        namespace=st.sampled_from(["a", "b", "*"]),
        owner=st.sampled_from(["c", "d", "*"]),
        node=st.sampled_from(["e", "f", "*"]),
        policies=st.frozensets(st.sampled_from(["gold", "silver"]), min_size=1),
        count=st.integers(1, 5),
    ),
    max_size=12,
)


@given(MERGED, st.booleans())
def test_merging_never_lets_more_through(entries, hard):
    entries = sorted(entries, key=lambda each: each.at)

    fewer = merged(entries, hard=hard)

    for policy in ("gold", "silver"):
        for scope, keys in ((BudgetScope.CLUSTER, "*"), (BudgetScope.NAMESPACE, "abx"),
                            (BudgetScope.OWNER, "cdx"), (BudgetScope.NODE, "efx")):  # fmt: skip
            for key, since in itertools.product(keys, (-1, 5, 19)):
                counting = {(policy, scope, key), (policy, scope, "*")}
                before, after = (
                    sum(
                        each.count
                        for each in listed if each.at > since
                        for place in counted_for(each) if place in counting
                    )
                    for listed in (entries, fewer)
                )  # fmt: skip
                assert after >= before
                if scope is BudgetScope.CLUSTER and since < 0:
                    assert after == before


def test_entries_older_than_the_windows_of_their_policies_are_dropped():
    made = ledger(
        victim("a", 50.0, policies=frozenset({"short", "long"})),
        victim("b", 50.0, policies=frozenset({"short"})),
        victim("c", 50.0, policies=frozenset({"unknown"})),
    )
    made.set_windows({"short": 10.0, "long": 100.0, "changed": 0.0})

    made.prune(100.0)

    assert len(made) == 2
    assert made.victims("short", BudgetScope.CLUSTER, "", 0.0) == []
    assert made.victims("long", BudgetScope.CLUSTER, "", 0.0) == [50.0]
    assert made.victims("unknown", BudgetScope.CLUSTER, "", 0.0) == [50.0]


def test_many_policies_are_merged_sooner():
    names = frozenset(f"p{number}" for number in range(64))
    made = Ledger()
    for number in range(MAX_COUNTS // 64 + 1):
        made.count_victim(victim(f"u{number}", float(number), policies=names))

    assert len(made) < MAX_COUNTS // 64
    assert len(made.victims("p0", BudgetScope.CLUSTER, "", -1.0)) == MAX_COUNTS // 64 + 1


def test_the_longest_names_fit_into_a_config_map():
    made = Ledger()
    for number in range(MAX_ENTRIES):
        long = f"{number:04}" + "x" * 249
        made.count_victim(
            victim(
                f"{number:036}", float(number), namespace=long[:63],
                owner=f"ReplicaSet/{long[:63]}/{long}", node=long,
            )
        )  # fmt: skip

    text = made.text(0.0)

    assert len(text) <= MAX_BYTES
    again = Ledger()
    again.merge(text)
    assert len(again.victims("gold", BudgetScope.CLUSTER, "", -1.0)) == MAX_ENTRIES
    assert len(again.victims("gold", BudgetScope.NAMESPACE, "anywhere", -1.0)) > 0
