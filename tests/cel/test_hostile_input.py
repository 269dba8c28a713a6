"""What a tenant can write: everything ends, nothing fills the memory, nothing else is raised."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cel import CompileError, Device, EvaluationError, compile_selector
from tests.support.cel_expressions import Expressions

DEVICE = Device("gpu.test", {"model": "h100", "sockets": 2}, {"memory": "80Gi"})
EXPENSIVE = "operation cancelled: actual cost limit exceeded"


def outcome(expression: str, device: Device = DEVICE) -> str:
    try:
        return str(compile_selector(expression).evaluate(device))
    except (CompileError, EvaluationError) as error:
        return str(error)


@given(st.text(max_size=80))
def test_any_text_is_refused_or_evaluated(text: str):
    outcome(text)


@given(st.text(alphabet="()[]{}.,?:!&|=<>+-*/%'\"\\0123456789aburx in", max_size=60))
def test_any_tokens_are_refused_or_evaluated(text: str):
    outcome(text)


@given(st.integers(min_value=0, max_value=10**9))
def test_any_expression_is_refused_or_evaluated(seed: int):
    made = Expressions(seed)
    outcome(made.selector(), made.device())


@given(st.integers(min_value=0, max_value=10**9))
def test_devices_that_are_equal_in_what_is_read_are_selected_alike(seed: int):
    made = Expressions(seed)
    try:
        selector = compile_selector(made.selector())
    except CompileError:
        return
    if selector.reads is None:
        return
    first, second = made.device(), made.device()
    if projection(first, selector.reads) == projection(second, selector.reads):
        assert outcome(selector.expression, first) == outcome(selector.expression, second)


def projection(device: Device, reads: frozenset[tuple[str, ...]]) -> list[str]:
    fields = device.view.fields
    return [
        repr(
            fields[read[0]]
            if len(read) == 1
            else vars_of(fields[read[0]].get(read[1], {}), read[2])
        )
        for read in sorted(reads)
    ]


def vars_of(entries: dict[str, object], name: str) -> object:
    value = entries.get(name)
    return (
        [getattr(value, each, None) for each in ("order", "number", "exponent")]
        if hasattr(value, "__slots__")
        else value
    )


@pytest.mark.parametrize(
    ("shape", "deepest"),
    [
        (lambda n: "(" * n + "true" + ")" * n, 249),
        (lambda n: "1+(" * n + "1" + ")" * n + " == 1", 124),
        (lambda n: "[" * n + "1" + "]" * n + " == dyn(1)", 148),
        (lambda n: "!(" * n + "true" + ")" * n, 149),
        (lambda n: "true ? true : " * n + "true", 149),
        (lambda n: "dyn(1)" + ".a" * n + " == 1", 147),
        (lambda n: "+".join(["1"] * n) + " == 1", 149),
        (lambda n: "cel.bind(a, true, " * n + "true" + ")" * n, 149),
        (lambda n: "[1].all(a, " * n + "true" + ")" * n, 148),
        (lambda n: "'a'" + ".trim()" * n + " == 'a'", 148),
    ],
)
def test_nesting_is_bounded(shape: Callable[[int], str], deepest: int):
    outcome(shape(deepest))
    compile_selector(shape(deepest))
    with pytest.raises(CompileError, match="recursion"):
        compile_selector(shape(deepest + 1))


def test_signs_do_not_nest():
    assert outcome("!" * 5000 + "true") == "True"


def test_a_text_beyond_the_limit_of_the_api_is_refused():
    assert "exceeds limit" in outcome(" " * 10240 + "true")


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(2000000).size() > 0",
        "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))",
        "'a'.replace('', 'bbbbbbbbbb').replace('', 'cccccccccc').replace('', 'dddddddddd')"
        ".replace('', 'eeeeeeeeee').replace('', 'ffffffffff').replace('', 'gggggggggg') == ''",
        "".join(f"cel.bind(v{n + 1}, v{n} + v{n}, " for n in range(60)).replace("v0", "'aaaaaaaa'")
        + "v60 == ''" + ")" * 60,
        "cel.bind(x, lists.range(500000), [x, x, x, x, x, x, x, x, x, x].flatten().size() > 0)",
        "cel.bind(x, lists.range(600000), [[x], [x], [x], [x]] == [[x], [x], [x], [x]])",
        "cel.bind(x, lists.range(2000), x.distinct().size() > 0)",
        "'%.1000000f'.format([1.0]) == ''",
        "quantity('1e2000000000').add(quantity('1')).isInteger()",
        "'" + "a" * 2000 + "'.matches('(a?){1000}(a?){1000}(b?){1000}c$')",
    ],
)  # fmt: skip
def test_what_is_too_expensive_is_cancelled(expression: str):
    assert outcome(expression) == EXPENSIVE


def test_cancelling_is_not_absorbed():
    assert outcome("lists.range(2000000).size() > 0 || true") == EXPENSIVE


def test_patterns_take_linear_time():
    expression = "'" + "a" * 60 + "'.matches('^(a|a)*(a*)*(a+)+b$')"

    assert outcome(expression) == "False"
