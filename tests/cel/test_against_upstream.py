"""A share of `make cel`: random selectors against Kubernetes' own package."""

import pytest

from tests.cel.upstream import ask, differs, ours
from tests.support.cel_expressions import Expressions

pytestmark = [pytest.mark.cluster, pytest.mark.fidelity, pytest.mark.timeout(300)]


@pytest.mark.parametrize("seed", range(4))
def test_random_selectors_give_what_upstream_gives(seed: int):
    made = Expressions(seed)
    cases = [(made.device(), made.selector()) for _ in range(250)]

    answers = ask(cases)

    wrong = [
        (expression, own, other)
        for (device, expression), other in zip(cases, answers, strict=True)
        if differs(own := ours(device, expression), other) == "kind"
    ]
    assert not wrong, wrong[0]
