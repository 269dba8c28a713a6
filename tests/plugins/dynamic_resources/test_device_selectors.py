"""Selectors see a device as its ResourceSlice says it."""

import time

import pytest

from scheduler.cel import CelDevice, compile_selector
from scheduler.model.api.devices import AttributeValue, Device
from scheduler.model.releases import V1_36, V1_37, Reference
from scheduler.plugins.dynamic_resources.structured import selectors
from scheduler.plugins.dynamic_resources.structured.selectors import (
    CelCache,
    EvaluationLimitError,
)
from scheduler.state.devices.device_kinds import DeviceKind, DeviceKinds
from tests.support.devices import DRIVER

CANCELLED = "operation cancelled: actual cost limit exceeded"
OWN = f'device.attributes["{DRIVER}"]'


def different(count: int) -> list[DeviceKind]:
    """Return devices of one model, each with a number of its own."""
    kinds = DeviceKinds(V1_37)
    values = (
        {"model": AttributeValue(string="a"), "uuid": AttributeValue(string=f"GPU-{number:08}")}
        for number in range(count)
    )
    return [kinds.of(DRIVER, Device("d", attributes, {})) for attributes in values]


@pytest.mark.parametrize(
    ("expression", "results"),
    [
        pytest.param(f'{OWN}.model == "a"', 1, id="what all have"),
        pytest.param(f'cel.bind(own, {OWN}, own.model == "a")', 1, id="by another name"),
        pytest.param(f'{OWN}.uuid != "b"', 50, id="what each has"),
        pytest.param(f'{OWN}.exists(name, name == "model")', 50, id="anything"),
    ],
)
def test_devices_with_equal_values_share_results(expression: str, results: int):
    cel_cache = CelCache(V1_37)
    one, kinds = cel_cache.get(expression), different(50)

    assert one.device_matches(kinds[0]) is True
    kept = cel_cache.kept
    assert all(one.device_matches(kind) is True for kind in kinds)
    assert cel_cache.kept == kept * results


#: What costs little upstream, and would take from a second to hours here if it were not cancelled.
HOSTILE = (
    pytest.param(
        f"lists.range(40000).all(x, !({'||'.join(['false'] * 1400)}))", id="terms without a cost"
    ),
    pytest.param(
        f"lists.range(40000).all(x, !(x in [{','.join(['-1'] * 3300)}]))", id="a constant set"
    ),
    pytest.param(
        f"'{'a' * 300}'.matches('(a?){{1000}}(a?){{1000}}(a?){{1000}}(b?){{1000}}c$')",
        id="repetitions",
    ),
    pytest.param(f"'{'a' * 9000}'.findAll('a.*b|a').size() > 0", id="searches that begin again"),
    pytest.param(
        f"lists.range(5000).all(x, [[{'1,' * 2000}1]] == [[{'1,' * 2000}1]])", id="nested lists"
    ),
    pytest.param(
        "cel.bind(l, lists.range(30000), lists.range(9000).all(x, l.exists(i, y, true)))",
        id="a list of pairs",
    ),
    pytest.param(
        "cel.bind(l, lists.range(300).map(x, lists.range(300)), sets.contains(l, l))",
        id="sets of lists",
    ),
    pytest.param(
        "cel.bind(l, lists.range(20000), lists.range(9000).all(x, '%s'.format([l]) != ''))",
        id="lists as texts",
    ),
)


@pytest.mark.parametrize("expression", HOSTILE)
@pytest.mark.parametrize("reference", [V1_36, V1_37])
def test_an_evaluation_is_bounded_in_time(expression: str, reference: Reference):
    cel_cache, kind = CelCache(reference), DeviceKinds(reference).of(DRIVER, Device())
    begun = time.process_time()

    assert cel_cache.get(expression).device_matches(kind) == CANCELLED
    # It takes less than 0.2 s; this is many times as much, because busy machines are slower.
    assert time.process_time() - begun < 3.0


def test_the_compiler_itself_has_the_limit_of_kubernetes_alone():
    expression = "lists.range(600).all(x, lists.range(100).all(y, x + y >= 0))"
    kind = DeviceKinds(V1_37).of(DRIVER, Device())

    assert compile_selector(expression, V1_37).evaluate(CelDevice(DRIVER, {}, {})) is True
    assert CelCache(V1_37).get(expression).device_matches(kind) == CANCELLED


def test_the_evaluations_of_an_attempt_are_limited_and_the_next_attempt_continues():
    cel_cache, kinds = CelCache(V1_37), different(30_000)
    one = cel_cache.get(f'{OWN}.uuid != "b"')

    def is_done() -> bool:
        cel_cache.begin_attempt()
        try:
            return all(one.device_matches(kind) is True for kind in kinds)
        except EvaluationLimitError:
            return False

    assert not is_done()
    assert any(is_done() for _ in range(10))


def test_the_least_recently_used_results_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(selectors, "_MAX_RESULT_BYTES", 40_000)
    cel_cache, kinds = CelCache(V1_37), different(100)
    held = [cel_cache.get(f'{OWN}.uuid != "{number}"') for number in range(20)]
    for one in held:
        cel_cache.begin_attempt()
        assert all(one.device_matches(kind) is True for kind in kinds)
    cel_cache.begin_attempt()

    assert cel_cache.kept <= 40_000
    assert held[-1].kept > 0
    assert held[0].kept == 0


def test_only_recently_used_selectors_stay_compiled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(selectors, "_MAX_COMPILED", 200)
    cel_cache, kinds = CelCache(V1_37), different(2)
    held = [cel_cache.get(f'{OWN}.uuid != "{number}"') for number in range(20)]
    for one in held:
        cel_cache.begin_attempt()
        assert one.device_matches(kinds[0]) is True
    cel_cache.begin_attempt()

    assert sum(one.compiled for one in held) <= 200
    assert all(one.device_matches(kinds[1]) is True for one in held)
