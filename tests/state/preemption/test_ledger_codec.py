"""Any text is safe to read: damage has no effect on other entries, and everything has a bound."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.policies import BudgetScope
from scheduler.state.preemption.ledger import (
    MAX_BYTES,
    EvictionEntry,
    Ledger,
    LedgerError,
    PreemptionEntry,
)
from scheduler.state.preemption.wasted_evictions import WasteScope

NOW = 1_000_000.0
CLUSTER = BudgetScope.CLUSTER


def text(**lists: object) -> str:
    return json.dumps({"version": 1, "names": ["ns", "Job/ns/j", "n1", "gold"], **lists})


def recalled(**lists: object) -> Ledger:
    made = Ledger()
    made.merge(text(**lists), NOW)
    return made


def spent(made: Ledger, scope: BudgetScope = CLUSTER, key: str = "") -> list[float]:
    return made.victims("gold", scope, key, -1.0)


SOUND = [5.0, "sound", 0, 1, 2, [3], 1]


@pytest.mark.parametrize(
    "damaged",
    [
        None, 7, "x", {}, [], [1.0], [*SOUND, 1], ["5", *SOUND[1:]],
        [-1.0, *SOUND[1:]], [True, *SOUND[1:]], [5.0, "u", 0, 1, 2, [], 1],
        [5.0, "u", 0, 1, 2, [99], 1], [5.0, "u", 0, 1, 2, 3, 1], [5.0, "u", 0, 1, 2, [3], "1"],
        [5.0, "u", 0, 1, 2, [3], 1.5],
    ],
)  # fmt: skip
def test_a_damaged_entry_is_dropped_without_effect_on_others(damaged):
    made = Ledger()

    assert made.merge(text(evictions=[damaged, SOUND]), NOW) == 1
    assert spent(made) == [5.0]


def test_a_number_out_of_range_has_no_effect_on_others():
    written = text(evictions=[["much", *SOUND[1:]], SOUND]).replace('"much"', "1e999")
    made = Ledger()

    assert made.merge(written, NOW) == 1
    assert spent(made) == [5.0]


def test_a_field_that_is_no_list_has_no_effect_on_others():
    assert spent(recalled(evictions=[SOUND], preemptions=7, fruitless="x", wasted={})) == [5.0]


@pytest.mark.parametrize("place", [-1, 99, "0", None, True, 4])
def test_a_victim_whose_name_is_damaged_counts_for_every_name(place):
    made = Ledger()
    made.merge(
        json.dumps({
            "version": 1, "names": ["ns", "Job/ns/j", "n1", "gold", 7],
            "evictions": [[5.0, "u", place, 1, 2, [3], 1]],
        }),
        NOW,
    )  # fmt: skip

    assert spent(made, BudgetScope.NAMESPACE, "anywhere") == [5.0]
    assert spent(made, BudgetScope.NODE, "n1") == [5.0]
    assert spent(made, BudgetScope.NODE, "n2") == []


@pytest.mark.parametrize("count", [10**10, 10**30])
def test_a_count_has_a_bound(count):
    assert len(spent(recalled(evictions=[[5.0, "u", 0, 1, 2, [3], count]]))) == 10_000


@pytest.mark.parametrize("count", [0, -5])
def test_a_victim_counts_at_least_once(count):
    assert spent(recalled(evictions=[[5.0, "u", 0, 1, 2, [3], count]])) == [5.0]


@pytest.mark.parametrize("at", [NOW + 1, 1e15, 10**30, 10**400])
def test_a_moment_after_now_is_replaced_by_now(at):
    made = recalled(
        evictions=[[at, "u", 0, 1, 2, [3], 1]],
        preemptions=[[at, "p", 1, [3], 1]],
        fruitless=[[1, 2, 1, 9, 9, at]],
        wasted=[[at, "p", 1, 2, 9]],
        pauses=[[1, 2, 1, at]],
    )

    assert spent(made) == [NOW]
    assert made.preemptions("gold", "Job/ns/j", 0.0) == [NOW]
    assert [each.last for each in made.backoff] == [NOW]
    wasted, pauses = made.wasted_evictions.written()
    assert [each.at for each in wasted] == [NOW]
    assert [each.last for each in pauses] == [NOW]


def test_an_entry_of_the_future_counts_once():
    written = text(preemptions=[[NOW + 99, "p", 1, [3], 1]])
    made = Ledger()

    made.merge(written, NOW)
    made.merge(written, NOW + 10)

    assert made.preemptions("gold", "Job/ns/j", 0.0) == [NOW]


def test_a_merged_entry_counts_once():
    written = text(evictions=[[5.0, "", 0, 1, 2, [3], 7]], preemptions=[[5.0, "", 1, [3], 7]])
    made = Ledger()

    made.merge(written, NOW)
    made.merge(written, NOW)

    assert len(spent(made)) == 7
    assert len(made.preemptions("gold", "Job/ns/j", 0.0)) == 7


def test_a_merged_text_changes_the_version_and_not_the_revision():
    made = Ledger()

    made.merge(text(evictions=[SOUND]), NOW)
    version = made.version
    assert version > 0
    made.merge(text(evictions=[SOUND]), NOW)
    assert (made.version, made.revision) == (version, 0)


def test_a_name_of_any_length_is_cut():
    made = Ledger()
    made.merge(
        json.dumps({
            "version": 1, "names": ["x" * 500_000, "n1", "\u0000" * 1000],
            "fruitless": [[0, 1, 2, 2, 1, NOW]],
        }),
        NOW,
    )  # fmt: skip

    assert len(made.text(NOW)) < 1000
    assert len(made.backoff) == 1


def test_wasted_evictions_survive_a_restart():
    made = Ledger()
    for ago in (2, 1, 0):
        made.record_waste("u", "Job/ns/j", "n1", 2, NOW - ago)

    again = Ledger()
    again.merge(made.text(NOW), NOW)

    pause = again.wasted_evictions.allowed("u", "Job/ns/j", "n2", 1, NOW)
    assert pause is not None
    assert (pause.scope, pause.until) == (WasteScope.POD, NOW - 2 + 3600.0)
    assert again.wasted_evictions.written() == made.wasted_evictions.written()


# The text of any ledger has a bound


@settings(max_examples=10, deadline=None)
@given(
    st.integers(0, 1500),
    st.sampled_from(["o", "o" * 250, "\u0000" * 90, "x" * 400_000, '"' * 300]),
    st.integers(0, 1500),
)
def test_the_text_of_any_ledger_has_a_bound(loops, name, victims):
    made = Ledger()
    for number in range(min(loops, 9) if len(name) > 1000 else loops):
        owner = f"Job/ns/{number}{name}"
        made.record_failure(owner, f"{number}{name}", [f"{owner}v"], float(number), lost=True)
        made.record_waste(f"u{number}", owner, f"{number}{name}", 1, float(number))
    for number in range(min(victims, 9) if len(name) > 1000 else victims):
        place = f"{number}{name}"
        made.count_victim(
            EvictionEntry(float(number), place, place, place, place, frozenset({place[:9]}))
        )

    assert len(made.text(0.0).encode()) <= MAX_BYTES


# Fuzz

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
LISTS = ("names", "evictions", "preemptions", "fruitless", "wasted", "pauses", "version")


def survives(written: str) -> None:
    """Merge a text; the ledger works afterwards, and all pauses end."""
    made = Ledger()
    made.count_victim(EvictionEntry(5.0, "mine", "ns", "Job/ns/j", "n1", frozenset({"gold"})))
    try:
        made.merge(written, NOW)
    except LedgerError:
        assert len(made) == 1
    made.merge(made.text(NOW), NOW)

    assert spent(made)
    made.set_windows({"gold": 3600.0})
    made.prune(NOW + 3600.0 + 2 * 86_400.0)
    assert len(made) == 0
    assert made.wasted_evictions.allowed("p", "Job/ns/j", "n1", 1, NOW + 3600.0) is None or any(
        each.until > NOW + 3600.0 for each in made.wasted_evictions.written()[1]
    )


@settings(deadline=None, max_examples=60)
@given(st.text())
def test_any_text_is_safe(written):
    survives(written)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.sampled_from(LISTS), JSON))
def test_any_object_is_safe(found):
    survives(json.dumps({"version": 1, **found}))


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(LISTS[1:-1]),
        st.lists(
            st.lists(st.integers(-1, 5) | JSON | st.just([3]), min_size=4, max_size=8), max_size=4
        ),
    )
)
def test_any_entry_is_safe(lists):
    survives(text(**lists))


def valid() -> bytes:
    made = Ledger()
    for number in range(4):
        made.count_victim(
            EvictionEntry(float(number), f"u{number}", "ns", "Job/ns/j", "n1", frozenset({"gold"}))
        )
        made.count_preemption(PreemptionEntry(float(number), "p", "Job/ns/j", frozenset({"gold"})))
        made.record_failure("Job/ns/j", "n1", ["Job/ns/k"], float(number), lost=True)
        made.record_waste("p", "Job/ns/j", "n1", 1, float(number))
    return made.text(0.0).encode()


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 10_000), st.binary(max_size=6), st.integers(0, 9))
def test_any_mutation_of_a_text_is_safe(place, put, cut):
    whole = valid()
    place %= len(whole)

    survives((whole[:place] + put + whole[place + cut :]).decode(errors="replace"))


def test_a_long_hostile_text_becomes_few_entries():
    names = [f"p{number}" for number in range(1000)]
    entry = [5.0, "", 0, 1, 2, list(range(1000)), 10**10]
    written = json.dumps({"version": 1, "names": names, "evictions": [entry] * 190})
    assert len(written) < 1_048_576

    made = Ledger()
    made.merge(written, NOW)

    assert len(made) < 400
    assert len(made.text(NOW)) <= MAX_BYTES


@pytest.mark.parametrize("at", [-1, -(10**400), -0.5])
def test_a_moment_before_the_epoch_is_invalid(at):
    made = recalled(wasted=[[at, "p", 1, 2, 9]], preemptions=[[at, "p", 1, [3], 1]])

    assert len(made) == 0


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
def test_entries_of_another_clock_keep_their_age(ahead):
    made = Ledger()
    made.record_waste("u", "Job/ns/j", "n1", 2, NOW + ahead - 60)
    written = made.text(NOW + ahead)
    again = Ledger()

    again.merge(written, NOW)

    assert [each.at for each in again.wasted_evictions.written()[0]] == [NOW - 60]
