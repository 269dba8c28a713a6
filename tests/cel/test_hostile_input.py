"""What a tenant can write: everything ends, nothing fills the memory, nothing else is raised."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cel import CelDevice, CompileError, EvaluationError, compile_selector
from scheduler.model.releases import REFERENCES, V1_37, Reference
from tests.support.cel_expressions import Expressions

DEVICE = CelDevice("gpu.test", {"model": "h100", "sockets": 2}, {"memory": "80Gi"})
EXPENSIVE = "operation cancelled: actual cost limit exceeded"


def outcome(expression: str, device: CelDevice = DEVICE, reference: Reference = V1_37) -> str:
    try:
        return str(compile_selector(expression, reference).evaluate(device))
    except (CompileError, EvaluationError) as error:
        return str(error)


@given(st.text(max_size=80))
def test_any_text_is_refused_or_evaluated(text: str):
    outcome(text)


@given(st.text(alphabet="()[]{}.,?:!&|=<>+-*/%'\"\\0123456789aburx in", max_size=60))
def test_any_tokens_are_refused_or_evaluated(text: str):
    outcome(text)


@given(st.integers(min_value=0, max_value=10**9), st.sampled_from(list(REFERENCES.values())))
def test_any_expression_is_refused_or_evaluated(seed: int, reference: Reference):
    ((device, expression),) = Expressions(seed, reference).cases(1)
    outcome(expression, device, reference)


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
    compile_selector(shape(deepest), V1_37)
    with pytest.raises(CompileError, match="recursion"):
        compile_selector(shape(deepest + 1), V1_37)


def test_signs_do_not_nest():
    assert outcome("!" * 5000 + "true") == "True"


def test_a_text_beyond_the_limit_of_the_api_is_refused():
    assert "exceeds limit" in outcome(" " * 10240 + "true")


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000000).size() > 0",
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
    assert outcome("lists.range(1000000).size() > 0 || true") == EXPENSIVE


def test_a_chain_of_optional_maps_costs_as_if_each_evaluated_the_one_before_twice():
    assert outcome("optional.of(1)" + ".optMap(x, x)" * 10 + ".hasValue()") == "True"
    assert outcome("optional.of(1)" + ".optMap(x, x)" * 20 + ".hasValue()") == EXPENSIVE


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("[" + "1," * 5000 + "1].size() == 5001", id="a long list"),
        pytest.param("'" + "x" * 10_000 + "'.size() == 10000", id="a long text"),
        pytest.param("[1].exists(x, " + "x == 2 || " * 1000 + "true)", id="many terms"),
    ],
)
def test_selectors_of_the_longest_size_are_evaluated(expression: str):
    assert len(expression) > 9_000
    assert outcome(expression) == "True"


def test_patterns_take_linear_time():
    expression = "'" + "a" * 60 + "'.matches('^(a|a)*(a*)*(a+)+b$')"

    assert outcome(expression) == "False"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param(f"quantity('{'9' * 5000}').isInteger()", "False", id="of a quantity"),
        pytest.param(
            f"quantity('{'0' * 5000}12').compareTo(quantity('12')) == 0", "True", id="with zeros"
        ),
        pytest.param(f"quantity('1e{'0' * 5000}1').isInteger()", "True", id="of an exponent"),
        pytest.param(f"cel.bind(n, '{'0' * 5000}1', int(n) == 1)", "True", id="of a number"),
        pytest.param(
            f"cel.bind(d, '{'0' * 5000}1s', duration(d) == duration('1s'))", "True", id="of a time"
        ),
    ],
)
def test_any_number_of_digits_is_read(expression: str, expected: str):
    assert outcome(expression) == expected


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [("abcab", "ab", 3), ("abcab", "b", 4), ("aaaa", "aa", 2), ("abc", "x", -1)],
)
def test_the_last_place_of_a_part(text: str, part: str, expected: int):
    assert outcome(f"'{text}'.lastIndexOf('{part}') == {expected}") == "True"


def test_the_last_place_of_a_part_is_found_in_linear_time():
    text = f"'aa'.replace('', '{'a' * 100}').replace('a', '{'a' * 400}')"
    begun = time.process_time()

    outcome(f"cel.bind(t, {text}, t.lastIndexOf('ab' + t.substring(0, t.size() / 2)) < 0)")

    assert time.process_time() - begun < 0.1


def test_patterns_that_are_too_large_are_work():
    pattern = "'(?:\\\\pL?){1000}' + string(x)"
    selector = compile_selector(f"lists.range(9).all(x, ''.matches({pattern}) || true)", V1_37)

    with pytest.raises(EvaluationError, match=EXPENSIVE):
        selector.evaluate(DEVICE, most_work=150_000)


def test_a_class_of_characters_that_is_named_thousands_of_times_counts_once():
    begun = time.process_time()

    outcome(f"'{'a' * 1000}'.matches('[{'^d' * 2000}]b')".replace("^", "\\\\"))

    assert time.process_time() - begun < 0.1
