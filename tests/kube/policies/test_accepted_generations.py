"""The generations in the status of a policy: which are kept, and which are not trusted."""

from typing import Any

import pytest

from scheduler.kube.policies import accepted_generations
from scheduler.kube.policies.accepted_generations import MAX_BYTES
from scheduler.kube.policies.registry import MAX_SPEC_BYTES, PolicyRegistry, parse_policy
from scheduler.model.policies import PolicyChange
from tests.kube.fixtures import NOW
from tests.kube.policies.test_registry import BAD, ONE, STAMP, TWO, due, policy


def most(victims: int) -> dict[str, int]:
    return {"maxVictimsPerPreemption": victims}


def large(size: int) -> dict[str, Any]:
    """Return a spec of about so many bytes of JSON."""
    names = [f"{number:060d}" for number in range(size // 63)]
    expressions = [
        {"key": "a", "operator": "In", "values": names[at : at + 256]}
        for at in range(0, len(names), 256)
    ]
    return {"victims": {"podSelector": {"matchExpressions": expressions}}}


def selecting(*namespaces: str) -> dict[str, Any]:
    name = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [*namespaces]}
    return {"victims": {"namespaceSelector": {"matchExpressions": [name]}}}


def history(*specs: tuple[int, Any], time: str = STAMP) -> list[dict[str, Any]]:
    return [{"generation": number, "time": time, "spec": spec} for number, spec in specs]


def told(*specs: dict[str, Any]) -> list[tuple[int, Any]]:
    """Return the generations in the status after a policy had each spec in turn."""
    book = PolicyRegistry(lambda: NOW)
    for number, spec in enumerate(specs, 1):
        book.take(parse_policy(policy(spec, number, number)))
    return [(each["generation"], each["spec"]) for each in due(book)["history"]]


def changed(*specs: dict[str, Any]) -> PolicyChange:
    """Return the last change of a policy that had each spec in turn, one a minute."""
    minutes = iter(range(len(specs)))
    book = PolicyRegistry(lambda: NOW + 60 * next(minutes))
    for number, spec in enumerate(specs, 1):
        book.take(parse_policy(policy(spec, number, number)))
    (state,) = book.states()
    return state.change


@pytest.mark.parametrize(
    ("specs", "change"),
    [
        ((ONE,), PolicyChange()),
        (
            (ONE, {**TWO, "mode": "Audit"}),
            PolicyChange(
                "2026-01-01T00:01:00Z",
                ("maxVictimsPerPreemption: 1 \u2192 2", "mode: Audit is new"),
                1,
            ),
        ),
        # What undoing a refused generation restores is in force still.
        ((ONE, TWO, BAD), PolicyChange(former=2)),
        # Whoever may read the API may not know the names of all namespaces.
        (
            (selecting("shop", "bank"), selecting("shop")),
            PolicyChange("2026-01-01T00:01:00Z", ("victims.namespaceSelector: changed",), 1),
        ),
    ],
    ids=["the first one", "two fields", "refused", "namespaces"],
)
def test_the_last_change_is_told_with_the_generation_before(specs, change):
    assert changed(*specs) == change


def test_the_last_five_are_kept_newest_first():
    assert told(*map(most, range(1, 101))) == [
        (number, most(number)) for number in range(100, 95, -1)
    ]


def test_a_generation_that_is_refused_is_not_among_them():
    assert told(ONE, BAD, TWO) == [(3, TWO), (1, ONE)]
    assert told(ONE, TWO, BAD) == [(2, TWO), (1, ONE)]


def test_they_have_a_limited_size_and_one_that_exceeds_it_is_left_out_alone():
    half = large(MAX_BYTES // 2)

    assert told(ONE, half, TWO, large(2 * MAX_BYTES)) == [(3, TWO), (2, half), (1, ONE)]
    assert told(half, TWO, half, ONE) == [(4, ONE), (3, half), (2, TWO)]


def test_a_policy_whose_status_could_not_repeat_it_is_refused_and_its_stop_is_not():
    book = PolicyRegistry(lambda: NOW)
    book.take(parse_policy(policy(ONE)))
    book.take(parse_policy(policy({**large(2**20), "stop": True}, 2, 2)))

    assert book.refused() == {"p": f"spec: Too long: may not be more than {MAX_SPEC_BYTES} bytes"}
    assert due(book)["accepted"] == {"generation": 1, "spec": ONE}
    assert book.stops


def test_they_survive_a_restart_and_a_change_of_leader():
    first, second = PolicyRegistry(lambda: NOW), PolicyRegistry(lambda: NOW + 60)
    for book in (first, second):
        book.take(parse_policy(policy(ONE)))
    status = due(first)
    first.wrote("p", "u", status, 2)

    second.take(parse_policy(policy(ONE, 1, 2, **status)))
    assert due(second) is None  # the times are those of the first one
    second.take(parse_policy(policy(TWO, 2, 3, **status)))
    second.take(parse_policy(policy(BAD, 3, 4, **status)))

    assert due(second)["history"] == [
        {"generation": 2, "time": "2026-01-01T00:01:00Z", "spec": TWO},
        *history((1, ONE)),
    ]


def test_two_leaders_do_not_write_for_ever_because_of_each_other():
    books = [PolicyRegistry(lambda: NOW), PolicyRegistry(lambda: NOW + 60)]
    writes = list[int]()
    status: dict[str, Any] = {}
    for version in range(1, 20):
        for book in books:
            book.take(parse_policy(policy(ONE, 1, version, **status)))
        for number, book in enumerate(books):
            if (wanted := due(book)) is not None:
                status = wanted
                book.wrote("p", "u", status, version)
                writes.append(number)

    assert len(writes) <= 4


def test_a_policy_that_is_created_again_begins_anew():
    book = PolicyRegistry(lambda: NOW)
    book.take(parse_policy(policy(ONE, 7, 1, uid="first")))

    book.take(parse_policy(policy(TWO, 1, 2, uid="second")))

    assert due(book)["history"] == history((1, TWO))


def test_a_leader_does_not_take_what_a_stranger_has_written():
    book = PolicyRegistry(lambda: NOW)
    book.take(parse_policy(policy(ONE)))
    book.wrote("p", "u", due(book), 2)
    forged = {"conditions": [], "history": history((1, TWO))}

    book.take(parse_policy(policy(ONE, 1, 3, **forged)))

    assert due(book)["history"] == history((1, ONE))


DEEP: dict[str, Any] = {}
for _ in range(3000):
    DEEP = {"a": DEEP}


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(None, id="nothing"),
        pytest.param("x", id="a text"),
        pytest.param({"generation": 1}, id="an object"),
        pytest.param([None, 3, "x", []], id="no objects"),
        pytest.param(history((0, ONE)), id="no generation"),
        pytest.param(history((2**63, ONE)), id="a generation beyond 64 bits"),
        pytest.param(history((10**5000, ONE)), id="a generation beyond every limit"),
        pytest.param(
            [{**history((1, ONE))[0], "generation": True}], id="a generation that is true"
        ),
        pytest.param(history((1, ONE), time="yesterday"), id="no time"),
        pytest.param(history((1, ONE), time="2026-99-01T00:00:00Z"), id="no such time"),
        pytest.param(history((1, [ONE])), id="a spec that is a list"),
        pytest.param([{**history((1, ONE))[0], "x": 1}], id="an unknown field"),
        pytest.param(history((1, DEEP)), id="a deep spec"),
        pytest.param(history((1, large(2 * MAX_BYTES))), id="a large spec"),
    ],
)
def test_what_is_malformed_is_left_out(written):
    assert accepted_generations.read({"history": written}) == ()


def test_of_too_many_or_unordered_ones_the_first_in_order_count():
    many = history(*((number, ONE) for number in (9, 9, 10, 8, 7, 6, 5)))

    found = accepted_generations.read({"history": many})

    assert [each.generation for each in found] == [9, 8, 7]
