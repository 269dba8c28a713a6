"""Codes for values with a limited life."""

from scheduler.state.columns.refcounted_interner import RefcountedInterner


def made() -> RefcountedInterner[str]:
    return RefcountedInterner("")


def take(pool: RefcountedInterner[str], value: str) -> int:
    return pool.acquire(value.encode(), lambda: value)


def test_codes_are_reused_so_that_memory_is_bounded() -> None:
    pool = made()
    kept = take(pool, "kept")

    for number in range(10_000):
        pool.release(take(pool, f"passing-{number}"))

    assert len(pool) < 3000
    assert pool.epoch > 0
    assert pool.values[kept] == "kept"
    pool.check()


def test_a_reused_code_is_new_again() -> None:
    pool = made()
    pool.release(take(pool, "first"))
    while pool.epoch == 0:
        pool.release(take(pool, f"passing-{pool.serial}"))
    before = {code: pool.values[code] for code in range(len(pool))}
    seen = pool.serial

    code = take(pool, "another")

    assert before[code] != "another"
    assert pool.assigned_since(seen).tolist() == [code]


def test_values_keep_their_meaning_until_the_next_epoch() -> None:
    pool = made()
    code = take(pool, "gone")
    pool.release(code)

    for number in range(1000):
        take(pool, f"other-{number}")

    assert pool.epoch == 0
    assert pool.values[code] == "gone"
