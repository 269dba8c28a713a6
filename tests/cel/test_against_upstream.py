"""A share of `make cel`: random selectors against Kubernetes' own package, and what it declares."""

import json
import subprocess

import pytest

from scheduler.cel.language.macros import MACROS
from scheduler.cel.language.types import Type, parse_types
from scheduler.cel.library.catalog import functions
from scheduler.model.releases import REFERENCES, Reference
from tests.cel.upstream import Answer, ask, cost, costs, differs, ours, program
from tests.support.cel_expressions import Expressions
from tests.support.seeds import share

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.fidelity,
    pytest.mark.seeded,
    pytest.mark.timeout(300),
    pytest.mark.parametrize("reference", REFERENCES.values(), ids=lambda each: each.name),
]

#: Functions that only macros and operators stand for: their names cannot be written.
INTERNAL = frozenset(
    (
        "@not_strictly_false", "@sortByAssociatedKeys", "__not_strictly_false__", "_?._", "_in_",
        "cel.@mapInsert", "in",
    )
)  # fmt: skip


@pytest.mark.parametrize("seed", range(share(4)))
def test_random_selectors_give_what_upstream_gives(reference: Reference, seed: int):
    cases = Expressions(seed, reference).cases(250)

    answers = ask(cases, reference)

    wrong = [
        (expression, own, other)
        for (device, expression), other in zip(cases, answers, strict=True)
        if differs(own := ours(device, expression, reference), other) == "kind"
    ]
    assert not wrong, wrong[0]


@pytest.mark.parametrize("seed", range(share(4)))
def test_random_selectors_cost_what_they_cost_upstream(reference: Reference, seed: int):
    cases = Expressions(seed, reference).cases(250)

    wrong = [
        (expression, other, own)
        for (device, expression), other in zip(cases, costs(cases, reference), strict=True)
        if other is not None and (own := cost(device, expression, reference)) != other
    ]

    assert not wrong, wrong[0]


def test_every_function_and_macro_of_upstream_is_declared(reference: Reference):
    theirs, macros = declared(reference)

    own = {
        (name, overload.member, tuple(map(plain, overload.arguments)), plain(overload.result))
        for name, overloads in functions(reference).items()
        for overload in overloads
    }

    assert own == theirs
    assert {(name, member, count) for name, count, member in MACROS} == macros


def test_every_function_and_macro_occurs_in_random_selectors(reference: Reference):
    theirs, macros = declared(reference)
    named = {name for name, *_ in theirs} | {name for name, *_ in macros}

    cases = [case for seed in range(6) for case in Expressions(seed, reference).cases(500)]
    texts = "\n".join(expression for _, expression in cases)

    assert {name for name in named if name[0].isalpha() and f"{name}(" not in texts} == set()


def test_a_panic_of_upstream_ends_the_evaluation(reference: Reference):
    made = Expressions(0, reference)
    device = made.device(lists=0)
    absorbed = "dyn(1).distinct().size() > 0 || true"

    (other,) = ask([(device, absorbed)], reference)

    assert other == ours(device, absorbed, reference)
    assert other == Answer("error", other.text)


def declared(
    reference: Reference,
) -> tuple[set[tuple[str, bool, tuple[str, ...], str]], set[tuple[str, bool, int]]]:
    """Return the functions and the macros that upstream's environment has."""
    listed = subprocess.run(
        [program(reference), "-declarations"], capture_output=True, text=True, check=True
    )
    signatures, macros = set(), set()
    for line in listed.stdout.splitlines():
        one = json.loads(line)
        name, member, arguments = one["name"], one["member"], one["arguments"] or []
        if one["macro"]:
            macros.add((name, member, len(arguments)))
        elif name not in INTERNAL:
            types = tuple(map(spelled, arguments))
            signatures.add((name, member, types, spelled(one["result"])))
    return signatures, macros


def spelled(text: str) -> str:
    """Return a type of upstream's list, whose variables are in angle brackets."""
    (of,) = parse_types(text.replace("<", "").replace(">", ""))
    return plain(of)


def plain(of: Type) -> str:
    return str(of)
