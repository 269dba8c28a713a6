"""How often something may happen, and which peer is next."""

import pytest

from scheduler.observe.server.rates import FairTurns, Rate, RateLimit, RatesByPeer


def test_a_rate_allows_a_burst_and_then_so_many_a_second():
    rate = Rate(RateLimit(per_second=10, burst=3), 0.0)

    assert [rate.take(0.0) for _ in range(4)] == [True, True, True, False]
    assert rate.wait(0.0) == pytest.approx(0.1)
    assert not rate.take(0.05)
    assert rate.take(0.11)
    assert [rate.take(100.0) for _ in range(4)] == [True, True, True, False]


def test_a_place_in_the_future_can_be_reserved():
    rate = Rate(RateLimit(per_second=10, burst=1), 0.0)

    assert [rate.reserve(0.0) for _ in range(3)] == pytest.approx([0.0, 0.1, 0.2])


def test_a_stopped_clock_adds_no_tokens():
    rate = Rate(RateLimit(per_second=10, burst=1), 5.0)
    rate.take(5.0)

    assert not rate.take(4.0)
    assert not rate.take(4.05)


def test_peers_have_separate_rates_and_the_oldest_is_dropped():
    rates = RatesByPeer(RateLimit(per_second=1, burst=1), peers=2)
    assert rates.of("a", 0.0).take(0.0)
    assert not rates.of("a", 0.0).take(0.0)
    assert rates.of("b", 0.0).take(0.0)

    rates.of("c", 0.0)

    assert len(rates) == 2
    assert rates.of("a", 0.0).take(0.0), "it was forgotten, so it is new"


def turns(whole: float = 10, burst: float = 1, each: float = 100) -> FairTurns[str]:
    return FairTurns(RateLimit(whole, burst), RateLimit(each, each), 0.0)


def drawn(line: FairTurns[str], now: float) -> list[str]:
    return list(iter(lambda: line.take_next(now) or "", ""))


def test_the_time_until_the_next_ticket_is_reported():
    line = turns(whole=10)
    line.add("a", "one", 0.0)
    line.add("a", "two", 0.0)

    assert drawn(line, 0.0) == ["one"]
    assert line.pause(0.0) == pytest.approx(0.1)
    assert drawn(line, 0.1001) == ["two"]


def test_a_peer_has_a_rate_of_its_own():
    line = turns(whole=100, burst=100, each=1)
    for i in range(3):
        line.add("greedy", f"greedy-{i}", 0.0)
    line.add("other", "other-0", 0.0)

    assert drawn(line, 0.0) == ["greedy-0", "other-0"]
    assert line.pause(0.0) == pytest.approx(1.0)


def test_a_peer_that_waited_longest_comes_before_a_flood_of_new_peers():
    line = turns(whole=10, burst=1)
    line.add("kubelet", "probe-0", 0.0)
    assert drawn(line, 0.0) == ["probe-0"]
    for i in range(300):
        line.add(f"stranger-{i}", f"stranger-{i}", 9.0)

    line.add("kubelet", "probe-1", 10.0)

    assert drawn(line, 10.0) == ["probe-1"]


def test_a_peer_that_floods_comes_after_an_occasional_one():
    line = turns(whole=10, burst=1)
    for i in range(50):
        line.add("greedy", f"greedy-{i}", 0.0)
    assert drawn(line, 0.0) == ["greedy-0"]

    line.add("other", "other-0", 0.05)

    assert [drawn(line, now) for now in (0.101, 0.202, 0.303)] == [
        ["greedy-1"],
        ["other-0"],
        ["greedy-2"],
    ]
